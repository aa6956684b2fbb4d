"""The formats of `export`: file name -> text of each, from an accepted version alone (pure)."""

from __future__ import annotations

import ast
from collections.abc import Callable

from graph.export.accepted import Accepted
from tools.errors import SettingsError
from tools.tasks import kernelbench

Files = dict[str, str]

PYTHON = '''

def reference({parameters}):
    """{title}

    Writes into the outputs given, else into new ones, and returns them. What was never judged (`_CONTRACT` has the sizes, dtypes, device
    and alignment that were), and what needs a gradient, is computed by reference.py beside this file.
    """
    given = dict({given})
    if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in given.values()):
        return _exported.fallen_back(given, _own())
    return _exported(given, _own())


def _own():
    if not _OWN:
        place = Path(__file__).with_name("reference.py")
        exec(compile(place.read_text(encoding="utf-8"), str(place), "exec"), _OWN)
    return _OWN["reference"]


_OWN = {{}}
'''

TEST = '''"""The exported kernel against the reference: `python -m pytest {test}`, or run as it is."""

import importlib.util
from pathlib import Path

import torch


def loaded(file):
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path(__file__).with_name(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXPORTED, REFERENCE = loaded("{module}"), loaded("reference.py")
DIMS = {dims}
CAPS = {caps}
"""Largest error of each type, as a share of the largest right value: coarser than what the judge asks."""
ARGUMENTS = EXPORTED._CONTRACT["arguments"]
OUTPUTS = [name for name, role, *_ in ARGUMENTS if role == "output"]


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
    return [own[name] for name in OUTPUTS] if answer is None else list(answer) if isinstance(answer, (tuple, list)) else [answer]


def compare(answer, right):
    dtypes = [dtype for _, role, dtype, _ in ARGUMENTS if role == "output"]
    for found, said, dtype in zip(answer if isinstance(answer, tuple) else (answer,), right, dtypes):
        said = said.double().reshape(found.shape)
        assert (found.double() - said).abs().max() <= CAPS.get(dtype, 0.0) * said.abs().max().clamp(min=1e-30)


def test_the_kernel_says_what_the_reference_says():
    for at in range(len(DIMS)):
        inputs = given(at, at)
        assert isinstance(EXPORTED._exported.filled(inputs), dict), "this is to be the kernel and not the reference"
        compare(EXPORTED.reference(**inputs), expected(inputs, at, at))


def test_what_was_never_judged_is_the_reference():
    inputs = given(0, 7)
    for name, one in inputs.items():
        if torch.is_tensor(one):
            moved = torch.empty(one.numel() + 1, dtype=one.dtype, device=one.device)[1:].view(one.shape)
            inputs[name] = moved.copy_(one)
    assert isinstance(EXPORTED._exported.filled(inputs), str)
    compare(EXPORTED.reference(**inputs), expected(inputs, 0, 7))


if __name__ == "__main__":
    test_the_kernel_says_what_the_reference_says()
    test_what_was_never_judged_is_the_reference()
'''

KERNELBENCH = """
given = dict({given})
given |= {{"state_" + key.replace(".", "_"): one for key, one in [*self.named_parameters(), *self.named_buffers()]}}
with torch.no_grad():
    return _exported({{name: given[name] for name, role, *_ in _CONTRACT["arguments"] if role != "output"}})
"""


def python(kernel: Accepted) -> Files:
    """A module with the kernel, the user's reference beside it, and a test."""
    axes = {axis for a in kernel.inputs for axis in a.shape}
    optional = [a.name for a in kernel.task.arguments if a.role == "output" or (a.role == "scalar" and a.name in axes)]
    names = [a.name for a in kernel.task.arguments]
    parameters = [*(n for n in names if n not in optional), *(f"{n}=None" for n in names if n in optional)]
    given = ", ".join(f"{n}={n}" for n in names)
    module, test = f"{kernel.name}.py", f"test_{kernel.name}.py"
    if module in ("reference.py", "torch.py"):
        raise SettingsError(f"name: a task called {kernel.name} cannot be a module beside {module}; export it from a run of another --name")
    text = PYTHON.format(parameters=", ".join(parameters), given=given, title=kernel.title)
    dims = [w.dims for w in kernel.task.workloads]
    caps = kernel.task.numeric.cap
    return {
        module: kernel.module() + text,
        "reference.py": kernel.task.reference,
        test: TEST.format(test=test, module=module, dims=dims, caps=caps),
    }


def kernelbench_solution(kernel: Accepted) -> Files:
    """ModelNew in one file, of a task that came of a KernelBench problem."""
    problem, marker, _ = kernel.task.reference.partition(kernelbench.CONTRACT.strip().splitlines()[0])
    if not marker:
        raise SettingsError(f"--format kernelbench: {kernel.task.name} is no KernelBench problem; it must come of `run --problem FILE`")
    module = ast.parse(problem)
    module.body = [node for node in module.body if getattr(node, "name", "") not in ("get_inputs", "get_init_inputs")]
    for node in ast.walk(module):
        # Words of a docstring are read as code by the suite's static check.
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and len(node.body) > 1 and ast.get_docstring(node) is not None:
            del node.body[0]
        if isinstance(node, ast.Name) and node.id == "Model":
            node.id = "ModelNew"
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            node.name = "ModelNew"
            forward = next(one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "forward")
            given = ", ".join(f"{a.arg}={a.arg}" for a in forward.args.args[1:])
            forward.body = ast.parse(KERNELBENCH.format(given=given)).body
    return {f"{kernel.name}.py": f"{kernel.module()}\n{ast.unparse(module)}\n"}


FORMATS: dict[str, Callable[[Accepted], Files]] = {
    "python": python,
    "kernelbench": kernelbench_solution,
}
"""Name on the command line -> what makes its files; SettingsError for a kernel that cannot be had in it."""
