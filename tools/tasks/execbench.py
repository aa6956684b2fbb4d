"""A definition of SOL-ExecBench or FlashInfer-Bench with its workloads as a task folder; its `run` stands in
reference.py as it is.

Variable axes are dims and numbers of the kernel, behind inputs and outputs. Random inputs are drawn by the kind that a
name says (a variance is positive, a mask holds 0 and 1), as SOL-ExecBench does; the tolerances are the tightest of the
workloads.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tools.artifacts import DType
from tools.cli.suggestions import suggest_or_list
from tools.cli.validation import validation_sentences
from tools.contracts.dims import parse_workloads
from tools.errors import SettingsError
from tools.tasks.loader import declaration, language_here, read_source
from tools.tasks.suites import SuiteFormat

STATED = 1e-2
"""atol and rtol of both suites where a workload states none."""
CONTRACT = """

# ---- what follows makes a task of the definition above: inputs in its order, then outputs, then its variable axes
import torch

outputs = {outputs}
workloads = {workloads}
dims_range = {ranges}
rtol, atol = {rtol}, {atol}
_definition = {name!r}
_inputs = {inputs}
_results = {results}
_custom = {custom}


def _axes(dims):
{axes}
    return locals()


def _drawn(name, shape, dtype):
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.randint(0, 2, shape, dtype=kind)
    if not kind.is_floating_point:
        high = 128 if dtype in ("int8", "uint8") else 1024
        return torch.randint(0 if dtype == "uint8" else -high, high, shape, dtype=kind)
    made, last = torch.randn(shape), name.rstrip("0123456789").rsplit("_", 1)[-1]
    if last == "mask":
        square = len(shape) > 1 and shape[-1] == shape[-2] and name in ("attention_mask", "causal_mask")
        made = torch.full(shape, torch.finfo(kind).min).triu(1) if square else (made > 0).float()
    elif last in ("rstd", "std", "var", "variance"):
        made = made.abs() + 0.1
    elif name in ("A", "A_log", "g"):
        made = -made.abs().clamp(1e-3, 5.0)
    elif name == "A_cumsum":
        made = (-made.abs() / 20).cumsum(-1)
    elif len(shape) > 1 and last in ("weight", "weights", "proj"):
        made = made / shape[-1] ** 0.5
    return made.to(kind)


def make_inputs(dims, seed):
    torch.manual_seed(seed)
    axes = _axes(dims)
    shaped = {{name: None if shape is None else [axes.get(a, a) for a in shape]
              for name, (shape, _) in {{**_inputs, **_results}}.items()}}
    numbers = {{name: dims[name] for name in _inputs if shaped[name] is None}}
    made = globals()[_custom]({{**axes, **numbers}}, torch.device("cpu")) if _custom else {{}}
    for name, (_, dtype) in _inputs.items():
        if name not in made:
            made[name] = numbers[name] if name in numbers else _drawn(name, shaped[name], dtype)
    made = {{name: made[name].contiguous() if isinstance(made[name], torch.Tensor) else made[name] for name in _inputs}}
    made |= {{name: torch.zeros(shaped[name], dtype=getattr(torch, dtype)) for name, (_, dtype) in _results.items()}}
    return {{**made, **{{name: dims[name] for name in {variable}}}}}


def reference(**arguments):
    answer = run(*(arguments[name] for name in _inputs))
    answer = [answer[name] for name in _results] if isinstance(answer, dict) else answer
    return tuple(answer) if isinstance(answer, (tuple, list)) else answer
"""


class Foreign(BaseModel):
    """What is read of a suite's file; the rest of it does not matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Read = TypeVar("Read", bound=Foreign)


class Axis(Foreign):
    """A size: fixed, given by each workload, or computed of others."""

    type: Literal["const", "var", "expr"]
    value: int | None = None
    expression: str = ""


class Tensor(Foreign):
    """An input or output; without a shape a number."""

    shape: tuple[str | int, ...] | None
    dtype: str


class Definition(Foreign):
    """What is to be computed."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: str
    custom_inputs_entrypoint: str | None = None


class Tolerance(Foreign):
    """How far an element may be off."""

    max_atol: float = STATED
    max_rtol: float = STATED


class Source(Foreign):
    """Where an input of a workload comes from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: bool | int | float | None = None


class Workload(Foreign):
    """Sizes, and where each input comes from; FlashInfer-Bench wraps it in a trace without a solution."""

    uuid: str
    axes: dict[str, int]
    inputs: dict[str, Source]
    tolerance: Tolerance = Tolerance()

    @model_validator(mode="before")
    @classmethod
    def _of_a_trace(cls, data: object) -> object:
        return data.get("workload") or data if isinstance(data, dict) else data


class ExecBench(SuiteFormat):
    """The format that SOL-ExecBench and FlashInfer-Bench share."""

    problems = "a definition.json of SOL-ExecBench or FlashInfer-Bench, or its folder"

    def recognises(self, path: Path) -> bool:
        return path.suffix == ".json" or (path / "definition.json").is_file()

    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        file = problem / "definition.json" if problem.is_dir() else problem
        said = _read(file, read_source(file), Definition)
        lines = _workload_lines(file, said.name)
        given = [_read(file, line, Workload) for line in lines]
        variable = [name for name, axis in said.axes.items() if axis.type == "var"]
        _refuse(said, file)
        usable = [w for w in given if all(source.type != "safetensors" for source in w.inputs.values())]
        if given and not usable:
            raise SettingsError(
                f"{file}: every workload reads inputs from safetensors files, which a task draws itself; choose "
                f"another problem"
            )
        numbers = [name for name, one in said.inputs.items() if one.shape is None]
        for workload in usable:
            if absent := [name for name in numbers if name not in workload.inputs]:
                raise SettingsError(
                    f"{file}: workload {workload.uuid} does not give {absent[0]!r}; add it to its inputs"
                )
        dims: list[dict[str, int | float]] = [
            {**w.axes, **{n: w.inputs[n].value or 0 for n in numbers}} for w in usable
        ]
        if sizes:
            dims = [{**(dims[0] if dims else {}), **asked} for asked in parse_workloads(sizes)]
        if not dims:
            raise SettingsError(
                f"{file}: no workloads were found beside it; give sizes, e.g. --dims "
                f"{' '.join(f'{n}=64' for n in variable)}"
            )
        for point in dims:
            for name in {*point} - {*variable, *numbers}:
                raise SettingsError(
                    f"dims: {name!r} is nothing that a workload of it gives; "
                    f"{suggest_or_list(name, [*variable, *numbers])}"
                )
            for name in {*variable, *numbers} - {*point}:
                raise SettingsError(f"dims: {name!r} is to be given, too")
        names = [w.uuid[:8] for w in usable]
        named = names if not sizes and len({*names}) == len(names) else [f"w{at}" for at in range(1, len(dims) + 1)]
        fixed = {name: axis.value or 0 for name, axis in said.axes.items() if axis.type == "const"}
        shown = [{"name": name, "dims": {**fixed, **point}} for name, point in zip(named, dims, strict=True)]
        ranges = {n: (min(int(p[n]) for p in dims), max(int(p[n]) for p in dims)) for n in variable} | {
            n: (v, v) for n, v in fixed.items()
        }
        computed = [
            f"    {n} = {_expression(axis.expression, file)}" for n, axis in said.axes.items() if axis.type == "expr"
        ]
        text = _runnable(said.reference, file) + CONTRACT.format(
            name=said.name,
            outputs=[*said.outputs],
            workloads=shown,
            ranges=ranges,
            rtol=min((w.tolerance.max_rtol for w in usable), default=STATED),
            atol=min((w.tolerance.max_atol for w in usable), default=STATED),
            inputs={name: (one.shape and [*map(_extent, one.shape)], one.dtype) for name, one in said.inputs.items()},
            results={name: ([*map(_extent, one.shape or ())], one.dtype) for name, one in said.outputs.items()},
            custom=repr(said.custom_inputs_entrypoint),
            axes="\n".join([*(f'    {n} = dims["{n}"]' for n in (*variable, *fixed)), *computed]) or "    pass",
            variable=variable,
        )
        declared = declaration(said.name, _language(said))
        left = f", {len(given) - len(usable)} left out that read safetensors" if len(usable) < len(given) else ""
        return {"reference.py": text, "task.yaml": declared}, f"{said.name}: {len(dims)} workloads{left}"


def _read(file: Path, text: str, kind: type[Read]) -> Read:
    try:
        return kind.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        raise SettingsError(f"{file}: is no JSON ({error.msg}, line {error.lineno}); give a definition.json") from None
    except ValidationError as error:
        raise SettingsError(validation_sentences(error, kind, f"{file}: ")) from None


def _workload_lines(file: Path, name: str) -> list[str]:
    """Of `workload.jsonl` beside the definition, else of the file in `workloads/` of its trace set that is called as
    it is."""
    beside = [
        file.with_name("workload.jsonl"),
        *(p for up in file.parents for p in sorted((up / "workloads").rglob(f"{name}.jsonl"))),
    ]
    found = next((path for path in beside if path.is_file()), None)
    return [line for line in read_source(found).splitlines() if line.strip()] if found else []


def _runnable(reference: str, file: Path) -> str:
    """`reference` with its `run`. What FlashInfer itself dumps has one function by another name, and none of its
    imports."""
    try:
        functions = [node.name for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError as error:
        raise SettingsError(f"{file}: its reference is no Python ({error.msg}, line {error.lineno})") from None
    if "run" in functions:
        return reference.rstrip()
    if len(functions) != 1:
        raise SettingsError(
            f"{file}: its reference defines {len(functions)} functions and no `run`, which takes the inputs in "
            f"their order"
        )
    return (
        f"import math\n\nimport torch\nimport torch.nn.functional as F\n\n\n{reference.strip()}\n\n\nrun = "
        f"{functions[0]}"
    )


def _refuse(said: Definition, file: Path) -> None:
    if both := [name for name in said.outputs if name in said.inputs]:
        raise SettingsError(
            f"{file}: `{both[0]}` is input and output at once, and inputs are read-only here; give the output "
            f"another name"
        )
    known = get_args(DType)
    for name, one in {**said.inputs, **said.outputs}.items():
        if one.dtype not in known:
            raise SettingsError(
                f"{file}: `{name}` is {one.dtype}, which a task cannot hold; allowed are {', '.join(known)}"
            )
    for name in {**said.axes, **said.inputs, **said.outputs}:
        if not name.isidentifier():
            raise SettingsError(f"{file}: {name!r} cannot be a name in Python; rename it in the definition")


def _expression(text: str, file: Path) -> str:
    """The axis' expression, which is arithmetic over axes and nothing else."""
    plain = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Load, ast.Constant)
    try:
        allowed = all(isinstance(node, plain) for node in ast.walk(ast.parse(text, mode="eval")))
    except SyntaxError:
        allowed = False
    if not allowed:
        raise SettingsError(
            f"{file}: the expression {text!r} is more than arithmetic over axes; write it with + - * // % and "
            f"names of axes"
        )
    return text


def _extent(axis: str | int) -> str | int:
    return int(axis) if str(axis).isdigit() else axis


def _language(said: Definition) -> str:
    """C++ on a CPU has no bfloat16."""
    half = any(one.dtype == "bfloat16" for one in (*said.inputs.values(), *said.outputs.values()))
    return "triton" if half else language_here()
