"""Solutions as suites take them. None falls back to a reference, so that no figure of a suite is torch's own."""

from __future__ import annotations

import ast
import json
import re

from graph.export import bindings
from graph.export.accepted import AcceptedKernel, TextByName
from tools.errors import SettingsError
from tools.tasks import kernelbench

KERNELBENCH_FORWARD = """
given = dict({given})
given |= {{"state_" + key.replace(".", "_"): one for key, one in [*self.named_parameters(), *self.named_buffers()]}}
with torch.no_grad():
    return _exported({{name: given[name] for name, role, *_ in _CONTRACT["arguments"] if role != "output"}})
"""
INIT_CHECK = """
def _as_judged(**given):
    for (name, value), judged in zip(given.items(), _init_inputs()):
        if isinstance(judged, (bool, int, float, str, list, tuple)) and value != judged:
            raise ValueError(f"this kernel was never judged for that: {name} is {value!r}, not {judged!r}")
"""
"""The constructor's numbers are constants in the kernel."""


GPU_MODE_ENTRY = """
from torch.utils import _pytree


def custom_kernel(data):
    leaves = _pytree.tree_leaves(data)
    return _exported({name: leaves[int(name[5:])] for name, *_ in _CONTRACT["arguments"] if name.startswith("data_")})
"""


def gpu_mode_submission(kernel: AcceptedKernel) -> TextByName:
    """submission.py, of a task that came of a problem of GPU MODE."""
    if not all(a.name.startswith(("data_", "out_")) or a.role == "scalar" for a in kernel.task.arguments):
        raise SettingsError(
            f"--format gpumode: {kernel.task.name} is no problem of GPU MODE; it must come of `run --problem FOLDER`"
        )
    return {"submission.py": kernel.module_source() + GPU_MODE_ENTRY}


def _solution(
    kernel: AcceptedKernel, form: str, languages: dict[str, object], compiled: dict[str, object]
) -> TextByName:
    """solution.json of a kernel for a GPU; `compiled`: what its spec holds besides for C++."""
    if kernel.device != "cuda":
        raise SettingsError(
            f"--format {form}: the suite runs on a GPU, and this kernel is for a CPU; use --format python"
        )
    arguments = bindings.suite_arguments(kernel)
    if kernel.is_compiled:
        sources = {
            "binding.cpp": bindings.pybind_module(kernel, derive_sizes=True),
            f"kernel{kernel.suffix}": kernel.source,
        }
        spec = {**compiled, "entry_point": "binding.cpp::run", "binding": "torch", "dependencies": []}
    else:
        names = ", ".join(a.name for a in arguments)
        text = f"\n\ndef run({names}):\n    _exported(dict({', '.join(f'{a.name}={a.name}' for a in arguments)}))\n"
        sources = {"kernel.py": kernel.module_source() + text}
        spec = {**languages, "entry_point": "kernel.py::run", "dependencies": []}
    # A run may have another name than its problem.
    definition = re.search(r"^_definition = '(.*)'$", kernel.task.reference, re.MULTILINE)
    solution = {
        "name": f"{kernel.name}_kernelwright",
        "definition": definition[1] if definition else kernel.task.name,
        "author": "kernelwright",
        "description": kernel.title,
        "spec": {"target_hardware": ["LOCAL"], "destination_passing_style": True, **spec},
        "sources": [{"path": path, "content": content} for path, content in sources.items()],
    }
    return {"solution.json": json.dumps(solution, indent=1) + "\n"}


def sol_solution(kernel: AcceptedKernel) -> TextByName:
    """A solution of SOL-ExecBench."""
    options = {
        "cuda_cflags": [*bindings.extension_flags(kernel), *bindings.HALF_OPERATOR_FLAGS],
        "cflags": ["-O3"],
        "ld_flags": [],
    }
    return _solution(
        kernel,
        "sol",
        {"languages": ["cute_dsl" if kernel.task.language == "cutedsl" else "triton"]},
        {"languages": ["cuda_cpp"], "compile_options": options},
    )


def flashinfer_solution(kernel: AcceptedKernel) -> TextByName:
    """A solution of FlashInfer-Bench, whose builds have its own flags."""
    return _solution(
        kernel,
        "flashinfer",
        {"language": "python" if kernel.task.language == "cutedsl" else "triton"},
        {"language": "cuda"},
    )


def kernelbench_solution(kernel: AcceptedKernel) -> TextByName:
    """ModelNew in one file, of a task that came of a KernelBench problem."""
    problem, marker, _ = kernel.task.reference.partition(kernelbench.CONTRACT_TEMPLATE.strip().splitlines()[0])
    if not marker:
        raise SettingsError(
            f"--format kernelbench: {kernel.task.name} is no KernelBench problem; it must come of `run --problem FILE`"
        )
    module = ast.parse(problem)
    module.body = [node for node in module.body if getattr(node, "name", "") != "get_inputs"]
    constructors: list[ast.FunctionDef] = []
    for node in ast.walk(module):
        # Words of a docstring are read as code by the suite's static check.
        if (
            isinstance(node, ast.ClassDef | ast.FunctionDef)
            and len(node.body) > 1
            and ast.get_docstring(node) is not None
        ):
            del node.body[0]
        if isinstance(node, ast.Name) and node.id == "Model":
            node.id = "ModelNew"
        if isinstance(node, ast.FunctionDef) and node.name == "get_init_inputs":
            node.name = "_init_inputs"
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            node.name = "ModelNew"
            constructors = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
            forward = next(one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "forward")
            given = ", ".join(f"{a.arg}={a.arg}" for a in forward.args.args[1:])
            forward.body = ast.parse(KERNELBENCH_FORWARD.format(given=given)).body
    for init in constructors:
        named_values = ", ".join(f"{a.arg}={a.arg}" for a in init.args.args[1:])
        init.body[:0] = ast.parse(f"_as_judged({named_values})").body
    return {f"{kernel.name}.py": f"{kernel.module_source()}\n{ast.unparse(module)}\n{INIT_CHECK}"}
