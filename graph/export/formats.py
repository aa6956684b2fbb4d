"""The formats of `export`: file name -> text of each, from an accepted version alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from graph.export import bindings, operator_sources, operators, package_tests, suites
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
        + operator_sources.OWN_REFERENCE
    )


def _test_source(
    kernel: AcceptedKernel, test: str, exported: str, reference: str, tests: str = package_tests.FUNCTION_TESTS
) -> str:
    dims, caps = [w.dims for w in kernel.task.workloads], kernel.task.numeric.cap
    return package_tests.TEST_SOURCE.format(
        test=test, exported=exported, reference=reference, dims=dims, caps=caps, tests=tests
    )


def operator_package(kernel: AcceptedKernel) -> TextByName:
    """A folder that `pip wheel .` builds, with two operators of PyTorch."""
    name, test, reference = kernel.name, f"test_{kernel.name}.py", f"src/{kernel.name}/reference.py"
    files = operators.operator_package(kernel)
    exported = f'__import__("{name}")'
    return {
        **files,
        reference: kernel.task.reference,
        test: _test_source(kernel, test, exported, reference, package_tests.OPERATOR_TESTS),
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
