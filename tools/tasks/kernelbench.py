"""Convert a KernelBench problem (`Model`, `get_inputs`, `get_init_inputs`) to a task folder.

The problem's text is copied unchanged into reference.py, except for sizes that the user changes. KernelBench draws
inputs and module from one seed, leaves the module in training mode and compares the result of forward. Parameters,
buffers and other tensors of modules therefore become inputs. A BatchNorm uses batch statistics; its running statistics
do not affect an output and are dropped.
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
from tools.tasks.loader import REFERENCE_FILE, default_suite_language, read_source, task_yaml_text
from tools.tasks.suites import SuiteFormat

_FUNCTION_BY_OPERATOR: dict[type, Callable[..., int | float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
}
REQUIRED_DEFINITIONS = ("Model", "get_inputs", "get_init_inputs")
CONTRACT_TEMPLATE = """

# ---- the code below makes the problem a task: arguments of forward and tensors of its modules are inputs
import copy as _copy
import inspect as _inspect

import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensor, FakeTensorMode

outputs = ["out"]
large = True  # shapes are determined without values
workloads = [{{"name": "problem", "dims": {dims}}}]
dims_range = {{name: (size, size) for name, size in workloads[0]["dims"].items()}}


def _construct_model():
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


_model = _construct_model().requires_grad_(False)
_state = {{**dict(_model.named_parameters()), **dict(_model.named_buffers())}}
_names = {{key: "state_" + key.replace(".", "_") for key in _state}}


class _Refusal(ValueError):
    is_sentence = True


def _call_copies(model, inputs):  # what forward returns, without values where it needs none
    if any(isinstance(one, FakeTensor) for one in inputs):
        return _call(model, inputs)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            with FakeCopyMode(mode):
                copies = _copy.deepcopy((model, inputs))
            return _call(*copies)
    except _Refusal:
        raise
    except Exception:  # an operator that needs values
        return _call(*_copy.deepcopy((model, inputs)))


def _call(model, inputs):
    tensors = dict(zip(list(_inspect.signature(Model.forward).parameters)[1:], inputs))
    tensors |= {{_names[key]: one for key, one in [*model.named_parameters(), *model.named_buffers()]}}
    versions = {{name: (one, one._version) for name, one in tensors.items() if isinstance(one, torch.Tensor)}}
    with torch.no_grad():
        answer = model(*inputs)
    tensors |= {{_names[key]: one for key, one in model.named_buffers()}}
    for name, (one, version) in versions.items():
        if tensors[name] is not one or one._version != version:
            raise _Refusal(f"forward changes {{name}}, which a kernel only reads; "
                           "a problem must not change its inputs and state")
    return answer


def make_inputs(dims, seed):
    if dict(dims) != workloads[0]["dims"]:
        raise _Refusal("a KernelBench problem has only its own sizes")
    torch.manual_seed(seed)
    inputs = get_inputs()
    torch.manual_seed(seed)
    model = _construct_model()
    values = dict(zip(_inspect.signature(Model.forward).parameters, [None, *inputs]))
    values.pop(next(iter(values)))
    state = {{**dict(model.named_parameters()), **dict(model.named_buffers())}}
    values |= {{name: state[key] for key, name in _names.items()}}
    answer = _call_copies(model, inputs)
    values = {{name: one.detach().contiguous() if isinstance(one, torch.Tensor) else one
              for name, one in values.items()}}
    if not isinstance(answer, torch.Tensor):
        raise _Refusal("forward does not return a single tensor, and only a single tensor can be compared")
    return values | {{"out": torch.zeros(answer.shape, dtype=answer.dtype)}}


def reference(**arguments):
    state = {{key: arguments[name] for key, name in _names.items()}}
    inputs = [arguments[name] for name in list(_inspect.signature(Model.forward).parameters)[1:] if name in arguments]
    return torch.func.functional_call(_model, state, tuple(inputs))
"""


def _defines_problem(source: str) -> bool:
    """Return whether a Python source defines all names of a KernelBench problem."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    return {*REQUIRED_DEFINITIONS} <= {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


class KernelBench(SuiteFormat):
    """The problem format of KernelBench."""

    problem_description = "a Python file of KernelBench"

    def recognises(self, path: Path) -> bool:
        return path.is_file() and path.suffix == ".py"

    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        """Return the task folder's files (name -> text) and a sentence about its sizes.

        `sizes`, e.g. "batch_size=4 dim=64", replaces numbers at the file's module level.
        """
        source = read_source(problem)
        if not _defines_problem(source):
            raise SettingsError(
                f"{problem}: is not a KernelBench problem; it must define "
                f"{', '.join(REQUIRED_DEFINITIONS)} at the top level of the file"
            )
        overrides = parse_dims(sizes) if sizes else {}
        constants = _module_numbers(source)
        lines = source.splitlines()
        for name in overrides:
            if name not in constants:
                raise SettingsError(
                    f"dims: {problem.name} has no number {name!r} at module level; "
                    f"{suggest_or_list(name, list(constants))}"
                )
        # `height = width = 128` gives one number two names.
        value_by_expression_id = {id(constants[name][0]): value for name, value in overrides.items()}
        for name, value in overrides.items():
            if value_by_expression_id[id(constants[name][0])] != value:
                raise SettingsError(
                    f"dims: {problem.name} assigns one number to {name!r} and another name; give both the same value"
                )
        for expression in sorted(
            {id(expression): expression for expression, _ in constants.values()}.values(),
            key=lambda expression: -expression.col_offset,
        ):
            if id(expression) in value_by_expression_id:
                line = lines[expression.lineno - 1].encode()
                lines[expression.lineno - 1] = (
                    line[: expression.col_offset]
                    + repr(value_by_expression_id[id(expression)]).encode()
                    + line[expression.end_col_offset :]
                ).decode()
        numbers = {
            name: value_by_expression_id.get(id(expression), original)
            for name, (expression, original) in constants.items()
        }
        changes = [
            f"{name} {original!r} -> {numbers[name]!r}"
            for name, (expression, original) in constants.items()
            if id(expression) in value_by_expression_id
        ]
        positive_integers = {
            name: number for name, number in numbers.items() if isinstance(number, int) and number >= 1
        }
        text = "\n".join(lines) + CONTRACT_TEMPLATE.format(dims=json.dumps(positive_integers or {"problem": 1}))
        files = {REFERENCE_FILE: text, "task.yaml": task_yaml_text(problem.stem, default_suite_language(source))}
        return (
            files,
            f"{problem.name}: changed {', '.join(changes)}" if changes else f"{problem.name}: at its own sizes",
        )


def problem_sizes(problem: Path) -> dict[str, int]:
    """Return the positive integers at a problem's module level, by name."""
    return {
        name: value
        for name, (_, value) in _module_numbers(read_source(problem)).items()
        if isinstance(value, int) and value >= 1
    }


def _module_numbers(source: str) -> dict[str, tuple[ast.expr, int | float]]:
    """Return the numbers at module level: name -> (expression, value).

    `2 * 1024` is one number, `height, width = 256, 256` are two, `height = width = 256` is one with two names, and
    `shape = (256, 128)` gives `shape_0` and `shape_1`.
    """
    numbers_by_name: dict[str, tuple[ast.expr, int | float]] = {}
    for node in (statement for statement in ast.parse(source).body if isinstance(statement, ast.Assign)):
        for target in node.targets:
            numbers = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            match target:
                case ast.Tuple(elts=names) if isinstance(node.value, ast.Tuple):
                    target_names = [ast.unparse(name) for name in names]
                case ast.Name(name):
                    target_names = (
                        [f"{name}_{at}" for at in range(len(numbers))] if isinstance(node.value, ast.Tuple) else [name]
                    )
                case _:
                    continue
            for name, number in zip(target_names, numbers, strict=False):
                value = evaluate_number(number) if number.lineno == number.end_lineno else None
                if value is not None:
                    numbers_by_name[name] = number, value
    return numbers_by_name


def evaluate_number(node: ast.expr) -> int | float | None:
    """Return the value of sums, differences, products and shifts of literal numbers; None for other expressions."""
    match node:
        case ast.Constant(value) if type(value) in (int, float):
            return value  # type: ignore[return-value]
        case ast.UnaryOp(ast.USub(), inner):
            value = evaluate_number(inner)
            return None if value is None else -value
        case ast.BinOp(left, sign, right) if type(sign) in _FUNCTION_BY_OPERATOR:
            left_value, right_value = evaluate_number(left), evaluate_number(right)
            return (
                None
                if left_value is None or right_value is None
                else _FUNCTION_BY_OPERATOR[type(sign)](left_value, right_value)
            )
    return None
