"""A KernelBench problem (`Model`, `get_inputs`, `get_init_inputs`) as a task folder; its own text stands in
reference.py as it is.

The evaluator draws inputs and module from one seed each time, leaves the module in training mode and compares what
forward returns. So parameters, buffers and other tensors that modules hold are inputs here; a BatchNorm keeps its batch
statistics, and not the running ones, which no output shows.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable
from pathlib import Path

from tools.cli.suggestions import suggest_or_list
from tools.contracts.dims import parse_dims
from tools.errors import SettingsError
from tools.tasks.loader import REFERENCE, declaration, language_here, read_source
from tools.tasks.suites import SuiteFormat

_ARITHMETIC: dict[type, Callable[..., int | float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
}
MEANT = ("Model", "get_inputs", "get_init_inputs")
CONTRACT = """

# ---- what follows makes a task of the problem above: what forward takes and what its modules hold are inputs
import inspect as _inspect

import torch

outputs = ["out"]
workloads = [{{"name": "problem", "dims": {dims}}}]
dims_range = {{name: (size, size) for name, size in workloads[0]["dims"].items()}}


def _constructed():
    with torch.no_grad():
        model = Model(*get_init_inputs())
    for module in model.modules():
        for name in [name for name, value in vars(module).items() if isinstance(value, torch.Tensor)]:
            value = getattr(module, name)
            delattr(module, name)
            module.register_buffer(name, value)
        if isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.training:
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return model


_model = _constructed().requires_grad_(False)
_state = {{**dict(_model.named_parameters()), **dict(_model.named_buffers())}}
_names = {{key: "state_" + key.replace(".", "_") for key in _state}}


def make_inputs(dims, seed):
    if dict(dims) != workloads[0]["dims"]:
        raise ValueError("a KernelBench problem has its own sizes alone")
    torch.manual_seed(seed)
    given = get_inputs()
    torch.manual_seed(seed)
    model = _constructed()
    made = dict(zip(_inspect.signature(Model.forward).parameters, [None, *given]))
    made.pop(next(iter(made)))
    state = {{**dict(model.named_parameters()), **dict(model.named_buffers())}}
    made |= {{name: state[key] for key, name in _names.items()}}
    held = {{name: (one, one._version) for name, one in made.items() if isinstance(one, torch.Tensor)}}
    with torch.no_grad():
        answer = model(*given)
    now = made | {{_names[key]: one for key, one in model.named_buffers()}}
    for name, (one, version) in held.items():
        if now[name] is not one or one._version != version:
            raise ValueError(f"forward changes {{name}}, which a kernel only reads; "
                             "a problem must leave its inputs and state as they are")
    made = {{name: one.detach().contiguous() if isinstance(one, torch.Tensor) else one for name, one in made.items()}}
    if not isinstance(answer, torch.Tensor):
        raise ValueError("forward returns no single tensor, which is all that a KernelBench problem is judged by here")
    return made | {{"out": torch.zeros(answer.shape, dtype=answer.dtype)}}


def reference(**arguments):
    state = {{key: arguments[name] for key, name in _names.items()}}
    given = [arguments[name] for name in list(_inspect.signature(Model.forward).parameters)[1:] if name in arguments]
    return torch.func.functional_call(_model, state, tuple(given))
"""


def _is_problem(source: str) -> bool:
    """Whether a Python file defines what a KernelBench problem does."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    return {*MEANT} <= {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


class KernelBench(SuiteFormat):
    """Problems of KernelBench."""

    problems = "a Python file of KernelBench"

    def recognises(self, path: Path) -> bool:
        return path.is_file() and path.suffix == ".py"

    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        """As the base says; `sizes`, e.g. "batch_size=4 dim=64", replaces numbers at the file's module level."""
        source = read_source(problem)
        if not _is_problem(source):
            raise SettingsError(
                f"{problem}: is no KernelBench problem; it must define {', '.join(MEANT)} at the top of the file"
            )
        asked = parse_dims(sizes) if sizes else {}
        constants = _constants(source)
        lines = source.splitlines()
        for name in asked:
            if name not in constants:
                raise SettingsError(
                    f"dims: {problem.name} has no number {name!r} at module level; "
                    f"{suggest_or_list(name, list(constants))}"
                )
        # `height = width = 128` is one number with two names.
        changed = {id(constants[name][0]): value for name, value in asked.items()}
        for name, value in asked.items():
            if changed[id(constants[name][0])] != value:
                raise SettingsError(
                    f"dims: {problem.name} gives {name!r} and another name one number; give both the same value"
                )
        for at in sorted({id(at): at for at, _ in constants.values()}.values(), key=lambda one: -one.col_offset):
            if id(at) in changed:
                line = lines[at.lineno - 1].encode()
                lines[at.lineno - 1] = (
                    line[: at.col_offset] + repr(changed[id(at)]).encode() + line[at.end_col_offset :]
                ).decode()
        numbers = {name: changed.get(id(at), own) for name, (at, own) in constants.items()}
        told = [f"{name} {own!r} -> {numbers[name]!r}" for name, (at, own) in constants.items() if id(at) in changed]
        sized = {name: number for name, number in numbers.items() if isinstance(number, int) and number >= 1}
        text = "\n".join(lines) + CONTRACT.format(dims=json.dumps(sized or {"problem": 1}))
        files = {REFERENCE: text, "task.yaml": declaration(problem.stem, language_here())}
        return files, f"{problem.name}: changed {', '.join(told)}" if told else f"{problem.name}: at its own sizes"


def sizes(problem: Path) -> dict[str, int]:
    """The whole numbers at a problem's module level of 1 and more, as its file has them."""
    return {
        name: own for name, (_, own) in _constants(read_source(problem)).items() if isinstance(own, int) and own >= 1
    }


def _constants(source: str) -> dict[str, tuple[ast.expr, int | float]]:
    """Number at module level -> where it stands and what it is; `2 * 1024` is a number, `height, width = 256, 256`
    are two, `height = width = 256` one with two names, and `shape = (256, 128)` are `shape_0` and `shape_1`."""
    found: dict[str, tuple[ast.expr, int | float]] = {}
    for node in (one for one in ast.parse(source).body if isinstance(one, ast.Assign)):
        for target in node.targets:
            numbers = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            match target:
                case ast.Tuple(elts=names) if isinstance(node.value, ast.Tuple):
                    named = [ast.unparse(name) for name in names]
                case ast.Name(name):
                    named = (
                        [f"{name}_{at}" for at in range(len(numbers))] if isinstance(node.value, ast.Tuple) else [name]
                    )
                case _:
                    continue
            for name, number in zip(named, numbers, strict=False):
                value = number_of(number) if number.lineno == number.end_lineno else None
                if value is not None:
                    found[name] = number, value
    return found


def number_of(node: ast.expr) -> int | float | None:
    """What sums, differences, products and shifts of plain numbers come to; None for all else."""
    match node:
        case ast.Constant(value) if type(value) in (int, float):
            return value  # type: ignore[return-value]
        case ast.UnaryOp(ast.USub(), inner):
            value = number_of(inner)
            return None if value is None else -value
        case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
            one, other = number_of(left), number_of(right)
            return None if one is None or other is None else _ARITHMETIC[type(sign)](one, other)
    return None
