"""Convert a definition of SOL-ExecBench or FlashInfer-Bench and its workloads to a task folder.

The definition's `run` is copied unchanged into reference.py. Variable axes become dims, and scalar arguments of the
kernel after inputs and outputs. Random inputs are drawn by the kind that their name suggests (a variance is positive, a
mask contains 0 and 1), as SOL-ExecBench does; an index is drawn within the axis that it indexes, which the reference's
own error names, and offsets within the size that a constraint of the definition states. Integers of a safetensors file
that is there stand in reference.py. The tolerances are the smallest of all workloads.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tools.artifacts import Dims, DType
from tools.cli.validation import validation_sentences
from tools.contracts.dims import with_sizes
from tools.errors import SettingsError
from tools.tasks.loader import default_suite_language, read_source, task_yaml_text
from tools.tasks.safetensors import read_integers
from tools.tasks.suites import SuiteFormat

DEFAULT_TOLERANCE = 1e-2
"""atol and rtol of both suites for a workload that states none."""
MAX_RECORDED_CHARACTERS = 1 << 16
"""Longest text that the integers of all safetensors files together take in reference.py."""
PACKED_TYPES = ("float4_e2m1", "float4_e2m1fn_x2")
"""Types of which a byte holds two numbers: a kernel gets `uint8` with half of the last axis."""
CONTRACT_TEMPLATE = """

# ---- the code below makes the definition a task: inputs in its order, then outputs, then its variable axes
import base64
import re
import zlib

import torch

outputs = {outputs}
workloads = {workloads}
dims_range = {{n: (min(w["dims"][n] for w in workloads), max(w["dims"][n] for w in workloads)) for n in {sized}}}
rtol, atol = {rtol}, {atol}
_definition = {name!r}
_inputs = {inputs}
_results = {results}
_custom = {custom}
_offsets = {offsets}  # input -> the axis whose size its last element is
_recorded = {recorded}
_packed = [name for name, (_, dtype) in _inputs.items() if dtype in {packed}]  # two numbers a byte
_bounds = {{}}


def _axes(dims):
{axes}
    return locals()


def _draw_tensor(name, shape, dtype):
    if name in _packed:
        return torch.randint(256, [*shape[:-1], shape[-1] // 2], dtype=torch.uint8)
    torch_dtype = getattr(torch, dtype)
    if dtype == "bool":
        return torch.randint(0, 2, shape, dtype=torch_dtype)
    if not torch_dtype.is_floating_point:
        high = 128 if dtype in ("int8", "uint8") else 1024
        return torch.randint(0 if dtype == "uint8" else -high, high, shape, dtype=torch_dtype)
    values, suffix = torch.randn(shape), name.rstrip("0123456789").rsplit("_", 1)[-1]
    if suffix == "mask":
        is_square_mask = len(shape) > 1 and shape[-1] == shape[-2] and name in ("attention_mask", "causal_mask")
        values = torch.full(shape, torch.finfo(torch_dtype).min).triu(1) if is_square_mask else (values > 0).float()
    elif suffix in ("rstd", "std", "var", "variance"):
        values = values.abs() + 0.1
    elif name in ("A", "A_log", "g"):
        values = -values.abs().clamp(1e-3, 5.0)
    elif name == "A_cumsum":
        values = (-values.abs() / 20).cumsum(-1)
    elif len(shape) > 1 and suffix in ("weight", "weights", "proj"):
        values = values / shape[-1] ** 0.5
    return values.to(torch_dtype)


def _draw_offsets(shape, dtype, total):
    inner = torch.randint(0, total + 1, (max(shape[0] - 2, 0),)).sort().values
    return torch.cat([torch.zeros(1), inner, torch.tensor([total])])[-shape[0]:].to(getattr(torch, dtype))


def _permute_recorded(dtype, shape, text, seed):
    values = torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text))), dtype=getattr(torch, dtype))
    steps = values.diff()
    if seed and len(values) > 1 and values[0] == 0 and (steps >= 0).all():
        values = torch.cat([values[:1], steps[torch.randperm(len(steps))].cumsum(0)]).to(values.dtype)
    elif seed:
        values = values[torch.randperm(len(values))]
    return values.view(shape)


# Input -> size of the axis that it indexes, as far as the errors of the reference tell it.
def _find_bounds(values, names):
    extents = sorted({{1, *(n for one in values.values() for n in getattr(one, "shape", ()))}})
    generator, found, exact = torch.Generator().manual_seed(0), {{}}, set()
    tried = {{name: len(names) * torch.randint(2 * extents[-1] + 1, values[name].shape, generator=generator) + at
             for at, name in enumerate(names)}}
    while extents and exact < set(names):
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                reference(**values | {{name: one.to(values[name].dtype) for name, one in tried.items()}})
            break
        except Exception as error:
            if "index" not in str(error):
                break
            told = re.search(r"index (-?\\d+) is out of bounds for dimension -?\\d+ with size (\\d+)", str(error))
            named = {{name for name in names if told and (tried[name] == int(told[1])).any()}} - exact
            # An error that names no axis: the next smaller one is tried.
            size = max(int(told[2]) if named else extents.pop(), 1)
            for name in named or set(names) - exact:
                found[name], tried[name] = size, tried[name] % size
            exact |= named
    return found


def make_inputs(dims, seed):
    torch.manual_seed(seed)
    axes = _axes(dims)
    shapes = {{name: None if shape is None else [int(axes.get(a, a)) for a in shape]
              for name, (shape, _) in {{**_inputs, **_results}}.items()}}
    numbers = {{name: dims[name] for name in _inputs if shapes[name] is None}}
    values = globals()[_custom]({{**axes, **numbers}}, torch.device("cpu")) if _custom else {{}}
    for sizes, name, *recorded in _recorded:
        if name not in values and all(dims[axis] == size for axis, size in sizes.items()):
            values[name] = _permute_recorded(*recorded, seed)
    drawn = []
    for name, (_, dtype) in _inputs.items():
        if name in numbers:
            values.setdefault(name, numbers[name])
        elif name not in values and name in _offsets:
            values[name] = _draw_offsets(shapes[name], dtype, axes[_offsets[name]])
        elif name not in values:
            values[name] = _draw_tensor(name, shapes[name], dtype)
            drawn += [name] if dtype in ("int32", "int64") and name not in _packed else []
    if drawn:
        sizes = str(shapes)
        if sizes not in _bounds:
            _bounds[sizes] = _find_bounds(values, drawn)
        for name, size in _bounds[sizes].items():
            values[name] = torch.randint(size, values[name].shape, dtype=values[name].dtype)
    for name in _packed:
        values[name] = values[name].view(torch.uint8)
    values = {{name: values[name].contiguous() if isinstance(values[name], torch.Tensor) else values[name]
              for name in _inputs}}
    values |= {{name: torch.zeros(shapes[name] or (), dtype=getattr(torch, dtype))
               for name, (_, dtype) in _results.items()}}
    return {{**values, **{{name: dims[name] for name in {variable}}}}}


def reference(**arguments):
    arguments |= {{name: arguments[name].view(torch.float4_e2m1fn_x2) for name in _packed}}
    answer = run(*(arguments[name] for name in _inputs))
    answer = [answer[name] for name in _results] if isinstance(answer, dict) else answer
    return tuple(answer) if isinstance(answer, (tuple, list)) else answer
"""


class SuiteModel(BaseModel):
    """Base of the models of a suite's files; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


ModelType = TypeVar("ModelType", bound=SuiteModel)


class AxisDefinition(SuiteModel):
    """A size: constant, given by each workload, or computed from other axes."""

    type: Literal["const", "var", "expr"]
    value: int | None = None
    expression: str = ""


class TensorDefinition(SuiteModel):
    """An input or output; a scalar has no shape."""

    shape: tuple[str | int, ...] | None
    dtype: str


class ProblemDefinition(SuiteModel):
    """A problem of the suite: axes, inputs, outputs and reference code."""

    name: str
    axes: dict[str, AxisDefinition]
    inputs: dict[str, TensorDefinition]
    outputs: dict[str, TensorDefinition]
    reference: str
    custom_inputs_entrypoint: str | None = None
    constraints: tuple[str, ...] = ()


class WorkloadTolerance(SuiteModel):
    """Largest absolute and relative error of an element."""

    max_atol: float = DEFAULT_TOLERANCE
    max_rtol: float = DEFAULT_TOLERANCE


class InputSource(SuiteModel):
    """Source of an input's values in a workload: random, a scalar, a safetensors file or the problem's own function."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: bool | int | float | None = None
    path: str = ""
    tensor_key: str = ""


class SuiteWorkload(SuiteModel):
    """The sizes of a workload and the source of each input; FlashInfer-Bench wraps it in a trace without a solution."""

    uuid: str
    axes: dict[str, int]
    inputs: dict[str, InputSource]
    tolerance: WorkloadTolerance = WorkloadTolerance()

    @model_validator(mode="before")
    @classmethod
    def _unwrap_trace(cls, data: object) -> object:
        return data.get("workload") or data if isinstance(data, dict) else data


class ExecBench(SuiteFormat):
    """The problem format of SOL-ExecBench and FlashInfer-Bench."""

    problem_description = "a definition.json of SOL-ExecBench or FlashInfer-Bench, or its folder"

    def recognises(self, path: Path) -> bool:
        return path.suffix == ".json" or (path / "definition.json").is_file()

    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        file = problem / "definition.json" if problem.is_dir() else problem
        definition = _parse_model(file, read_source(file), ProblemDefinition)
        lines = _read_workload_lines(file, definition.name)
        suite_workloads = [_parse_model(file, line, SuiteWorkload) for line in lines]
        _refuse_unsupported(definition, file)
        recorded, drawn = _read_recorded(suite_workloads, file)
        variable = [name for name, axis in definition.axes.items() if axis.type == "var"]
        numbers = [name for name, tensor in definition.inputs.items() if tensor.shape is None]
        given: list[Dims] = [
            {**w.axes, **{n: w.inputs[n].value or 0 for n in numbers if n in w.inputs}} for w in suite_workloads
        ]
        if not (given or sizes):
            example = " ".join(f"{name}=64" for name in variable)
            raise SettingsError(f"{file}: no workloads were found beside it; give sizes, e.g. --dims {example}")
        fixed = {name: axis.value or 0 for name, axis in definition.axes.items() if axis.type == "const"}
        dims = [{**one, **fixed} for one in with_sizes(given, sizes, [*variable, *numbers])]
        inputs, results = (
            {name: (tensor.shape and [*tensor.shape], tensor.dtype) for name, tensor in tensors.items()}
            for tensors in (definition.inputs, definition.outputs)
        )
        computed = [n for n, axis in definition.axes.items() if axis.expression]
        expressions = {n: axis.expression or f'dims["{n}"]' for n, axis in definition.axes.items()}
        tolerances = [w.tolerance for w in suite_workloads] or [WorkloadTolerance()]
        text = _define_run(definition.reference, file) + CONTRACT_TEMPLATE.format(
            name=definition.name,
            outputs=[*definition.outputs],
            workloads=[{"name": f"w{at}", "dims": one} for at, one in enumerate(dims, 1)],
            sized=[*variable, *fixed],
            rtol=min(tolerance.max_rtol for tolerance in tolerances),
            atol=min(tolerance.max_atol for tolerance in tolerances),
            inputs=inputs,
            results=results,
            custom=repr(definition.custom_inputs_entrypoint),
            offsets={
                name: axis
                for text in definition.constraints
                for axis, name in re.findall(r"(\w+) == (\w+)\[-1\]", text)
                if axis in definition.axes and name in definition.inputs
            },
            recorded=recorded,
            packed=PACKED_TYPES,
            axes="\n".join(f"    {n} = {expressions[n]}" for n in sorted(expressions, key=lambda n: n in computed)),
            variable=variable,
        )
        dtypes = " ".join(dtype for _, dtype in (inputs | results).values())
        task_yaml = task_yaml_text(definition.name, default_suite_language(dtypes))
        omission = f"; {', '.join(drawn)} drawn, as their safetensors file is not here, too long or not of integers"
        told = f"{definition.name}: {len(dims)} workloads{omission if drawn else ''}"
        return {"reference.py": text, "task.yaml": task_yaml}, told


def _read_recorded(workloads: list[SuiteWorkload], file: Path) -> tuple[list[tuple[object, ...]], list[str]]:
    """Return the integers of safetensors files ((sizes, input, dtype, shape, text) each), and the names of the inputs
    that are drawn in place of what such files hold."""
    recorded: list[tuple[object, ...]] = []
    drawn: dict[str, None] = {}
    left = MAX_RECORDED_CHARACTERS
    for workload in workloads:
        for name, source in workload.inputs.items():
            if source.type != "safetensors":
                continue
            found = next((path for folder in file.parents if (path := folder / source.path).is_file()), None)
            tensor = read_integers(found, source.tensor_key) if found else None
            if tensor is None or len(tensor[2]) > left:
                drawn[name] = None
                continue
            left -= len(tensor[2])
            recorded.append((workload.axes, name, *tensor))
    return recorded, list(drawn)


def _parse_model(file: Path, text: str, kind: type[ModelType]) -> ModelType:
    try:
        return kind.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        raise SettingsError(
            f"{file}: not valid JSON ({error.msg}, line {error.lineno}); give a definition.json"
        ) from None
    except ValidationError as error:
        raise SettingsError(validation_sentences(error, kind, f"{file}: ")) from None


def _read_workload_lines(file: Path, name: str) -> list[str]:
    """Return the lines of `workload.jsonl` beside the definition, else of the file with its name in `workloads/` of its
    trace set; empty if there is neither."""
    candidates = [
        file.with_name("workload.jsonl"),
        *(p for up in file.parents for p in sorted((up / "workloads").rglob(f"{name}.jsonl"))),
    ]
    workload_file = next((path for path in candidates if path.is_file()), None)
    return [line for line in read_source(workload_file).splitlines() if line.strip()] if workload_file else []


def _define_run(reference: str, file: Path) -> str:
    """Return `reference` with a function `run`.

    Definitions that FlashInfer writes have one function with another name and no imports; both are added.
    """
    try:
        functions = [node.name for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError as error:
        raise SettingsError(f"{file}: its reference is not valid Python ({error.msg}, line {error.lineno})") from None
    if "run" in functions:
        return reference.rstrip()
    if len(functions) != 1:
        raise SettingsError(
            f"{file}: its reference defines {len(functions)} functions and no `run`; define `run` with the inputs "
            f"in their order"
        )
    return (
        f"import math\n\nimport torch\nimport torch.nn.functional as F\n\n\n{reference.strip()}\n\n\nrun = "
        f"{functions[0]}"
    )


def _refuse_unsupported(definition: ProblemDefinition, file: Path) -> None:
    if in_and_out := [name for name in definition.outputs if name in definition.inputs]:
        raise SettingsError(
            f"{file}: `{in_and_out[0]}` is both input and output, but inputs are read-only; give the output "
            f"another name"
        )
    dtypes = get_args(DType)
    for name, tensor in {**definition.inputs, **definition.outputs}.items():
        if tensor.dtype not in (dtypes if name in definition.outputs else (*dtypes, *PACKED_TYPES)):
            raise SettingsError(
                f"{file}: `{name}` is {tensor.dtype}, which a task does not support; allowed are {', '.join(dtypes)}"
            )
    for text in (axis.expression for axis in definition.axes.values()):
        if not re.fullmatch(r"[\w+*/%() -]*", text):
            raise SettingsError(
                f"{file}: the expression {text!r} is not arithmetic over axes; write it with + - * // % and names of "
                f"axes"
            )
