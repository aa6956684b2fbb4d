"""The formats of `export`: file name -> text of each, from an accepted version alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from graph.export import bindings, operators, suites
from graph.export.accepted import AcceptedKernel, TextByName
from graph.export.patch import patch
from tools.errors import SettingsError

REFERENCE_FUNCTION = '''

def reference({parameters}):
    """{title}

    Writes into the given outputs, else into new ones, and returns them. `_CONTRACT` has the sizes, dtypes, device and
    alignment that the kernel was judged with; everything else, and what needs a gradient, is computed by reference.py:
    `stats()` counts such calls, and `configure(strict=True)` makes them errors.
    """
    return _exported(dict({given}), _own())
'''

TEST_SOURCE = '''"""The exported kernel against the reference: `python -m pytest {test}`, or run as it is."""

import importlib.util
from pathlib import Path

import torch


def loaded(file):
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path(__file__).parent / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXPORTED, REFERENCE = {exported}, loaded("{reference}")
DIMS = {dims}
CAPS = {caps}
"""Largest error of each type, as a share of the largest right value: coarser than what the judge asks."""
ARGUMENTS = EXPORTED._CONTRACT["arguments"]
OUTPUTS = [name for name, role, *_ in ARGUMENTS if role == "output"]
WRITTEN = [name for name, role, *_ in ARGUMENTS if role in ("output", "inout")]


def given(at, seed):
    if hasattr(REFERENCE, "make_inputs"):
        made = REFERENCE.make_inputs(DIMS[at], seed)
    else:
        made, point = {{}}, EXPORTED._CONTRACT["points"][at]
        for name, role, dtype, _ in ARGUMENTS:
            made[name] = point[name] if role == "scalar" else torch.randn(point[name]).to(getattr(torch, dtype))
    where = EXPORTED._exported.device
    return {{name: one.to(where) if torch.is_tensor(one) else one for name, one in made.items() if name not in OUTPUTS}}


def expected(inputs, at, seed):
    own = {{name: one.clone() if torch.is_tensor(one) else one for name, one in inputs.items()}}
    for name, role, dtype, _ in ARGUMENTS:
        if role == "output":
            shape = EXPORTED._CONTRACT["points"][at][name]
            own[name] = torch.zeros(shape, dtype=getattr(torch, dtype), device=EXPORTED._exported.device)
    answer = REFERENCE.reference(**own)
    answers = list(answer) if isinstance(answer, (tuple, list)) else [answer] if answer is not None else []
    rest = iter(answers if len(answers) in (len(WRITTEN), len(OUTPUTS)) else [])
    news = WRITTEN if len(answers) == len(WRITTEN) else OUTPUTS if answers else []
    return [next(rest, own[name]) if name in news else own[name] for name in WRITTEN]


def compare(answer, right):
    dtypes = [dtype for name, _, dtype, _ in ARGUMENTS if name in WRITTEN]
    for found, said, dtype in zip(answer if isinstance(answer, tuple) else (answer,), right, dtypes):
        said = said.double().reshape(found.shape)
        allowed = CAPS.get(dtype, 0.0) + (torch.finfo(found.dtype).eps if dtype.startswith("float8") else 0.0)
        assert (found.double() - said).abs().max() <= allowed * said.abs().max().clamp(min=1e-30)
{tests}

if __name__ == "__main__":
    for name, test in [*globals().items()]:
        if name.startswith("test_"):
            test()
'''

FUNCTION_TESTS = """
def test_the_kernel_says_what_the_reference_says():
    for at in range(len(DIMS)):
        inputs = given(at, at)
        assert isinstance(EXPORTED._exported.complete_arguments(inputs), dict), "the reference would answer"
        right = expected(inputs, at, at)
        compare(EXPORTED.reference(**inputs), right)


def test_what_was_never_judged_is_the_reference():
    inputs = given(0, 7)
    for name, one in inputs.items():
        if torch.is_tensor(one):
            moved = torch.empty(one.numel() + 1, dtype=one.dtype, device=one.device)[1:].view(one.shape)
            inputs[name] = moved.copy_(one)
    assert isinstance(EXPORTED._exported.complete_arguments(inputs), str)
    right = expected(inputs, 0, 7)
    compare(EXPORTED.reference(**inputs), right)
"""

OPERATOR_TESTS = '''
FUNCTION, INTO = getattr(EXPORTED, EXPORTED.__name__), getattr(EXPORTED, EXPORTED.__name__ + "_out")
NAMES, OUT_NAMES = EXPORTED._NAMES, EXPORTED._OUT_NAMES


def judged(at, seed):
    """Arguments by name, outputs of noise among them, and what the reference says."""
    inputs, point = given(at, seed), EXPORTED._CONTRACT["points"][at]
    right = expected(inputs, at, seed)
    for name, role, dtype, _ in ARGUMENTS:
        if role == "output":
            inputs[name] = torch.full(point[name], 77, dtype=getattr(torch, dtype), device=EXPORTED._exported.device)
    return inputs, right


def check_both(at, seed, function=FUNCTION, into=INTO):
    """Both operators on new contents."""
    inputs, right = judged(at, seed)
    compare(function(*(inputs[name] for name in NAMES)), right)
    into(*(inputs[name] for name in OUT_NAMES))
    compare(tuple(inputs[name] for name in WRITTEN), right)


def fallbacks():
    return sum(EXPORTED.stats()["reference"].values())


def test_the_operators_say_what_the_reference_says():
    before, kernels = fallbacks(), EXPORTED.stats()["kernel"]
    for at in range(len(DIMS)):
        check_both(at, 1)
        check_both(at, 2)
        with torch.inference_mode():
            check_both(at, 3)
            check_both(at, 4)
    assert fallbacks() == before and EXPORTED.stats()["kernel"] == kernels + 8 * len(DIMS)


def test_opcheck():
    for operator, names in ((EXPORTED._FUNCTIONAL, NAMES), (EXPORTED._OUT, OUT_NAMES)):
        inputs, _ = judged(0, 5)
        torch.library.opcheck(operator, tuple(inputs[name] for name in names))


def test_a_whole_graph_is_compiled():
    if EXPORTED._CONTRACT["triton"] and EXPORTED._exported.device == "cpu":
        return  # Triton's interpreter is not for the compiler
    before = fallbacks()
    function, into = torch.compile(FUNCTION, fullgraph=True), torch.compile(INTO, fullgraph=True)
    for seed in (6, 7):
        check_both(0, seed, function, into)
    assert fallbacks() == before


def test_two_threads_on_streams_of_their_own():
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import nullcontext

    gpu = EXPORTED._exported.device == "cuda"
    takes_stream = not gpu or EXPORTED._CONTRACT["stream"]

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()) if gpu and takes_stream else nullcontext():
            for step in range(10):
                check_both(0, 100 * seed + step)

    before = fallbacks()
    with ThreadPoolExecutor(2) as pool:
        [*pool.map(work, (1, 2))]
    assert fallbacks() == before


def test_a_captured_graph_is_replayed_with_new_contents():
    if EXPORTED._exported.device != "cuda" or not EXPORTED._CONTRACT["stream"]:
        return
    inputs, _ = judged(0, 8)
    INTO(*(inputs[name] for name in OUT_NAMES))
    torch.cuda.synchronize()
    before, graph = fallbacks(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        INTO(*(inputs[name] for name in OUT_NAMES))
    for seed in range(100):
        fresh, right = judged(0, 1000 + seed)
        for name in OUT_NAMES:
            if torch.is_tensor(fresh[name]):
                inputs[name].copy_(fresh[name])
        graph.replay()
        compare(tuple(inputs[name] for name in WRITTEN), right)
    assert fallbacks() == before


def test_what_was_never_judged_is_the_references_and_counted():
    import warnings

    inputs, right = judged(0, 9)
    for name, one in inputs.items():
        if torch.is_tensor(one):
            inputs[name] = torch.stack([one, one], -1)[..., 0]
    before = fallbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        compare(FUNCTION(*(inputs[name] for name in NAMES)), right)
    assert fallbacks() == before + 1
    EXPORTED.configure(strict=True)
    try:
        FUNCTION(*(inputs[name] for name in NAMES))
    except (ValueError, RuntimeError) as error:
        assert "never judged" in str(error)
    else:
        raise AssertionError("strict is an error")
    finally:
        EXPORTED.configure(strict=False)


def test_a_gradient_is_refused():
    inputs, _ = judged(0, 10)
    floating = [name for name in NAMES if torch.is_tensor(inputs[name]) and inputs[name].is_floating_point()]
    for name in floating[:1]:
        inputs[name].requires_grad_()
        for function in (FUNCTION, EXPORTED._FUNCTIONAL):
            try:
                answer = function(*(inputs[name] for name in NAMES))
                (answer if torch.is_tensor(answer) else answer[0]).sum().backward()
            except (NotImplementedError, RuntimeError) as error:
                assert "no gradient" in str(error)
            else:
                raise AssertionError("a gradient is refused")
'''

SETUP_SOURCE = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, {kind}

extension = {kind}(
    "{name}._C", ["csrc/binding.cpp", "csrc/kernel{suffix}"], extra_compile_args={flags}, extra_link_args={links}
)
setup(
    name="{name}",
    version="1",
    packages=["{name}"],
    package_dir={{"": "src"}},
    package_data={{"{name}": ["reference.py"]}},
    ext_modules=[extension],
    cmdclass={{"build_ext": BuildExtension}},
)
"""
BUILD_TOML = """[general]
name = "{name}"
version = 1
edition = 5
backends = ["{backend}"]
"""
KERNEL_TOML = """
[torch]
src = ["torch-ext/torch_binding.cpp"]

[kernel.{name}]
backend = "{backend}"
depends = ["torch"]
src = ["{name}_{backend}/kernel{suffix}"]
{flags} = {given}
"""


def python_module(kernel: AcceptedKernel) -> TextByName:
    """A module with the kernel, the user's reference beside it, and a test."""
    module, test = f"{kernel.name}.py", f"test_{kernel.name}.py"
    if module in ("reference.py", "torch.py"):
        raise SettingsError(
            f"name: a task called {kernel.name} cannot be a module beside {module}; export it from a run of "
            f"another --name"
        )
    text = kernel.module_source() + _reference_function(kernel)
    return {
        module: text,
        "reference.py": kernel.task.reference,
        test: _test_source(kernel, test, f'loaded("{module}")', "reference.py"),
    }


def _reference_function(kernel: AcceptedKernel) -> str:
    """`reference`, as the user calls it."""
    axes = {axis for a in kernel.inputs for axis in a.shape}
    optional = [a.name for a in kernel.task.arguments if a.role == "output" or (a.role == "scalar" and a.name in axes)]
    names = [a.name for a in kernel.task.arguments]
    parameters = [*(n for n in names if n not in optional), *(f"{n}=None" for n in names if n in optional)]
    given = ", ".join(f"{n}={n}" for n in names)
    return (
        REFERENCE_FUNCTION.format(parameters=", ".join(parameters), given=given, title=kernel.title)
        + operators.OWN_REFERENCE
    )


def _test_source(kernel: AcceptedKernel, test: str, exported: str, reference: str, tests: str = FUNCTION_TESTS) -> str:
    dims, caps = [w.dims for w in kernel.task.workloads], kernel.task.numeric.cap
    return TEST_SOURCE.format(test=test, exported=exported, reference=reference, dims=dims, caps=caps, tests=tests)


def operator_package(kernel: AcceptedKernel) -> TextByName:
    """A folder that `pip wheel .` builds, with two operators of PyTorch."""
    name, test, reference = kernel.name, f"test_{kernel.name}.py", f"src/{kernel.name}/reference.py"
    files = operators.operator_package(kernel)
    exported = f'__import__("{name}")'
    return {
        **files,
        reference: kernel.task.reference,
        test: _test_source(kernel, test, exported, reference, OPERATOR_TESTS),
    }


def torch_extension(kernel: AcceptedKernel) -> TextByName:
    """A folder that `pip install .` builds."""
    if not kernel.is_compiled:
        raise SettingsError("--format torch-ext: a Triton kernel has nothing to build; use --format python, or hf")
    name, gpu = kernel.name, kernel.device == "cuda"
    flags = bindings.extension_flags(kernel)
    setup = SETUP_SOURCE.format(
        kind="CUDAExtension" if gpu else "CppExtension",
        name=name,
        suffix=kernel.suffix,
        flags={"cxx": ["-O3"], "nvcc": [*flags, *bindings.HALF_OPERATOR_FLAGS]} if gpu else flags,
        links=[] if gpu else [flag for flag in flags if flag == "-fopenmp"],
    )
    test = f'__import__("{name}")'
    return {
        "setup.py": setup,
        "csrc/binding.cpp": bindings.pybind_module(kernel),
        f"csrc/kernel{kernel.suffix}": kernel.source,
        # Not beside the test, where the folder would be taken for the package that was installed.
        f"src/{name}/__init__.py": kernel.module_source("from ._C import run as _run") + _reference_function(kernel),
        f"src/{name}/reference.py": kernel.task.reference,
        f"test_{name}.py": _test_source(kernel, f"test_{name}.py", test, f"src/{name}/reference.py"),
    }


def hub_project(kernel: AcceptedKernel) -> TextByName:
    """The project of a kernel of Hugging Face's hub, as kernel-builder takes it."""
    # Such names begin with a letter and hold dashes alone besides letters and digits; their package has underscores.
    project_name = re.sub(r"[^a-z0-9]+", "-", f"kernel-{kernel.task.name}".lower()).strip("-")
    name, backend = project_name.replace("-", "_"), kernel.device
    build, package = BUILD_TOML.format(name=project_name, backend=backend), f"torch-ext/{name}"
    files = {f"{package}/reference.py": kernel.task.reference}
    if not kernel.is_compiled:
        return {
            "build.toml": f"{build}\n[torch-noarch]\n",
            f"{package}/__init__.py": kernel.module_source() + _reference_function(kernel),
            **files,
        }
    key = "cuda-flags" if backend == "cuda" else "cxx-flags"
    given = json.dumps([flag for flag in bindings.extension_flags(kernel) if flag != "-march=native"])
    build += KERNEL_TOML.format(name=name, backend=backend, suffix=kernel.suffix, flags=key, given=given)
    launch = (
        "from ._ops import ops\n\n\ndef _run(**given):\n    ops.run(*(given[name] for name, *_ in "
        "_CONTRACT['arguments']))\n"
    )
    return {
        "build.toml": build,
        "torch-ext/torch_binding.cpp": bindings.torch_library(kernel),
        f"{name}_{backend}/kernel{kernel.suffix}": kernel.source,
        f"{package}/__init__.py": kernel.module_source(launch) + _reference_function(kernel),
        **files,
    }


FORMATS: dict[str, Callable[[AcceptedKernel], TextByName]] = {
    "python": python_module,
    "patch": patch,
    "op": operator_package,
    "torch-ext": torch_extension,
    "kernelbench": suites.kernelbench_solution,
    "gpumode": suites.gpu_mode_submission,
    "flashinfer": suites.flashinfer_solution,
    "sol": suites.sol_solution,
    "hf": hub_project,
}
"""Name on the command line -> what makes its files; SettingsError for a kernel that cannot be had in it."""
