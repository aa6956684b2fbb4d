"""Infers from observed calls what a task's contract says: arguments, dims, workloads, and the evidence of each."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tools.artifacts import Artifact, Dims
from tools.capture.observation import CallGroup, Observation, ObservedCall, ObservedValue
from tools.capture.user_code import read_pointers
from tools.errors import SettingsError
from tools.tasks.trace import MIN_COVERED_SHARE

MOST_WORKLOADS = 12
MOST_VALUES = 8
"""A whole number that is no size and takes more values than these does not tell workloads apart."""
RESERVED = ("dims", "seed", "random", "torch", "reference", "make_inputs", "workloads", "outputs", "inout")
Extent = int | str
"""An extent as it stands in make_inputs: a number, or an expression of dims."""


class TaskArgument(Artifact):
    """An argument of the contract."""

    name: str
    path: str
    """Where the observed call has it, such as `xs[0]` or `self.weight`; `result[0]` for a result."""
    role: Literal["input", "inout", "output", "scalar"]
    dtype: str
    shape: tuple[Extent, ...] = ()
    order: tuple[int, ...] = ()
    """Axes from the longest stride to the shortest, for a dense tensor that is not contiguous."""
    value: int | float | str | None = None
    """Of a scalar: the number, or the name of its dim."""
    evidence: str = ""


class TaskWorkload(Artifact):
    """A size of the task, with the calls that had it."""

    name: str
    dims: Dims
    calls: int
    replays: int
    median_s: float
    first_s: float
    share: float
    """Of the time of all observed calls."""
    groups: tuple[CallGroup, ...]


class ObservedContract(Artifact):
    """What was inferred from an observation."""

    observation: Observation
    arguments: tuple[TaskArgument, ...]
    results: tuple[int, ...]
    """Indices of the results that are outputs of their own, among the call's results."""
    workloads: tuple[TaskWorkload, ...]
    """Those that are timed."""
    left_out: tuple[TaskWorkload, ...]
    dims_range: dict[str, tuple[int, int]]
    held: tuple[str, ...]
    """Dims that decide which recorded integers fit."""
    notes: tuple[str, ...]

    @property
    def sample(self) -> ObservedCall:
        """A call of the first workload."""
        return self.workloads[0].groups[0].calls[0]


def infer_contract(observation: Observation) -> ObservedContract:
    """Return the contract of the calls with the commonest structure; calls of others are noted."""
    families: dict[str, list[CallGroup]] = {}
    for group in observation.groups:
        families.setdefault(group.calls[0].structure(), []).append(group)
    chosen, *others = sorted(families.values(), key=lambda groups: -sum(group.total_s for group in groups))
    total_s = sum(group.total_s for group in observation.groups) or 1.0
    notes = [
        f"{sum(group.count for group in other)} calls ({sum(group.total_s for group in other) / total_s:.0%} of the "
        f"time) have other types, ranks or flags, such as {_signature(other[0].calls[0])}; they are not in this task."
        for other in others
    ]
    sample = chosen[0].calls[0]
    if opaque := [f"{path} ({value.type})" for path, value in sample.leaves.items() if value.kind == "opaque"]:
        notes.append(f"{', '.join(opaque)}: no contract can hold it; write it into reference.py and the baseline.")
    sizes = _Sizes(chosen)
    arguments = [*_input_arguments(observation, chosen, sizes), *_output_arguments(sample, sizes)]
    arguments += _size_arguments(arguments, sizes)
    workloads = _workloads(chosen, sizes, total_s)
    selected, covered = list[TaskWorkload](), 0.0
    family_share = sum(workload.share for workload in workloads)
    while len(selected) < min(len(workloads), MOST_WORKLOADS) and covered < MIN_COVERED_SHARE * family_share:
        selected.append(workloads[len(selected)])
        covered += selected[-1].share
    held = sizes.held_by_contents()
    ranges = {name: bounds for name, bounds in sizes.ranges().items() if name not in held and bounds[0] >= 1}
    return ObservedContract(
        observation=observation,
        arguments=tuple(arguments),
        results=tuple(at for at, value in _new_results(sample)),
        workloads=tuple(selected),
        left_out=tuple(workloads[len(selected) :]),
        dims_range=ranges,
        held=held,
        notes=(*notes, *_alias_notes(chosen), *observation.problems),
    )


def _signature(call: ObservedCall) -> str:
    return ", ".join(
        f"{path}: {value.dtype}{list(value.shape)}" if value.kind == "tensor" else f"{path}={value.code or value.value}"
        for path, value in call.leaves.items()
    )[:200]


# ---------------------------------------------------------------- sizes


class Position(NamedTuple):
    """A place where a whole number stands: an axis of a tensor, or a scalar (axis -1)."""

    path: str
    axis: int


class _Sizes:
    """The dims of a family of calls: each is a vector of values, one for each group."""

    def __init__(self, groups: Sequence[CallGroup]) -> None:
        self.groups = groups
        self.vectors: dict[Position, tuple[int, ...]] = {}
        calls = [group.calls[0] for group in groups]
        for path in calls[0].leaves:
            values = [call.leaves[path] for call in calls]
            if values[0].kind == "tensor":
                self._add_axes(path, values)
            elif values[0].type == "int" and path not in calls[0].constexprs:
                self.vectors[Position(path, -1)] = tuple(int(value.value or 0) for value in values)
        for at, _ in enumerate(calls[0].result_leaves):
            values = [call.result_leaves[at] for call in calls]
            if values[0].kind == "tensor":
                self._add_axes(f"result[{at}]", values)
        self.names: dict[tuple[int, ...], str] = {}
        """Vector of values -> name of the dim."""
        axes = {vector for position, vector in self.vectors.items() if position.axis >= 0}
        for position, vector in sorted(self.vectors.items(), key=lambda pair: pair[0].axis >= 0):
            varies = len(set(vector)) > 1
            sized = vector in axes and set(vector) != {1} if position.axis < 0 else set(vector) != {1}
            if vector not in self.names and (varies if position.axis < 0 and not sized else sized):
                self.names[vector] = self._free_name(position)
        self.loose = [p.path for p, vector in self.vectors.items() if p.axis < 0 and vector not in axes]
        self.loose = [path for path in self.loose if len(set(self.vectors[Position(path, -1)])) > MOST_VALUES]
        """Whole numbers that are no sizes and take many values, such as the number of a step."""
        self.derived = {vector: text for vector in self.names if (text := self._expression(vector))}

    def _add_axes(self, path: str, values: Sequence[ObservedValue]) -> None:
        for axis in range(len(values[0].shape)):
            self.vectors[Position(path, axis)] = tuple(value.shape[axis] for value in values)

    def _free_name(self, position: Position) -> str:
        base = identifier(position.path.replace("result", "out"))
        name = base if position.axis < 0 else f"{base}_{position.axis}"
        return name if name not in self.names.values() else f"{name}_size"

    def _expression(self, vector: tuple[int, ...]) -> str:
        """Return a vector as a product, a multiple or a successor of dims that come before it, or an empty text."""
        earlier = [(one, name) for one, name in self.names.items() if one != vector]
        earlier = earlier[: list(self.names).index(vector)]
        for one, name in earlier:
            varies = len(set(one)) > 1
            step = {b - a for a, b in zip(one, vector, strict=True)}
            if varies and step in ({1}, {-1}):
                return f'dims["{name}"] {"+" if step == {1} else "-"} 1'
            if varies and all(one) and len({b / a for a, b in zip(one, vector, strict=True)}) == 1:
                factor = vector[0] / one[0]
                if factor == int(factor):
                    return f'{int(factor)} * dims["{name}"]'
        for at, (one, name) in enumerate(earlier):
            for other, other_name in earlier[at + 1 :]:
                product = tuple(a * b for a, b in zip(one, other, strict=True))
                if product == vector and len(set(one)) > 1 and len(set(other)) > 1:
                    return f'dims["{name}"] * dims["{other_name}"]'
        return ""

    def extent(self, position: Position) -> Extent:
        """Return the extent at a position as a number or an expression of dims."""
        vector = self.vectors[position]
        if vector in self.derived:
            return self.derived[vector]
        return f'dims["{self.names[vector]}"]' if vector in self.names else vector[0]

    def shape(self, path: str, rank: int) -> tuple[Extent, ...]:
        """Return the extents of a tensor."""
        return tuple(self.extent(Position(path, axis)) for axis in range(rank))

    def dims(self, at: int) -> Dims:
        """Return the dims of a group by its position."""
        return {name: vector[at] for vector, name in self.names.items() if vector not in self.derived}

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Return the least and the largest observed value of each dim."""
        base = {name: vector for vector, name in self.names.items() if vector not in self.derived}
        return {name: (min(vector), max(vector)) for name, vector in base.items()}

    def held_by_contents(self) -> tuple[str, ...]:
        """Return the dims on which recorded integers depend: they size their tensors, or may bound their values."""
        call = self.groups[0].calls[0]
        recorded = [path for path, content in zip(call.tensors, call.contents, strict=False) if content.sha256]
        if not recorded:
            return ()
        sizing = {self.names.get(self.vectors[p], "") for p in self.vectors if p.path in recorded}
        ranges = self.ranges()
        varying = [name for name, (low, high) in ranges.items() if low < high]
        return tuple(name for name in ranges if name in sizing or name in varying)


def identifier(path: str) -> str:
    """Return a path such as `xs[0]` or `self.norm.weight` as a name that no other part of a contract has."""
    name = re.sub(r"\W+", "_", path.removeprefix("self.")).strip("_")
    name = f"{name}_" if keyword.iskeyword(name) or name in RESERVED else name
    return name if name[:1].isalpha() or name.startswith("_") else f"x{name}"


# ---------------------------------------------------------------- arguments


def _input_arguments(observation: Observation, groups: Sequence[CallGroup], sizes: _Sizes) -> list[TaskArgument]:
    calls = [call for group in groups for call in group.calls]
    sample = groups[0].calls[0]
    unread = _unread_pointers(observation)
    arguments, taken = [], set[str]()
    for path, value in sample.leaves.items():
        name = identifier(path)
        name = name if name not in taken else identifier(path.replace("self.", "self_"))
        if value.kind == "tensor":
            at = sample.tensors.index(path)
            written = sum(len(call.written) > at and call.written[at] for call in calls)
            role: Literal["input", "inout", "output"] = "inout" if written else "input"
            evidence = f"{written} of {len(calls)} calls changed it" if written else f"unchanged in {len(calls)} calls"
            if written and path in unread:
                role, evidence = "output", f"{evidence}; the kernel never loads it"
            arguments.append(
                TaskArgument(
                    name=name,
                    path=path,
                    role=role,
                    dtype=value.dtype,
                    shape=sizes.shape(path, len(value.shape)),
                    order=() if value.order == tuple(range(len(value.shape))) else value.order or (),
                    evidence=evidence,
                )
            )
        elif value.kind == "number" and value.type != "bool" and path not in sample.constexprs:
            arguments.append(_scalar(path, name, [group.calls[0].leaves[path] for group in groups], sizes))
        taken.add(name)
    return [argument for argument in arguments if argument.role != "scalar" or argument.value is not None]


def _scalar(path: str, name: str, values: Sequence[ObservedValue], sizes: _Sizes) -> TaskArgument:
    """Return a scalar: the name of a dim where it varies or is an extent, else its value; None for an axis or flag."""
    kind = "int32" if values[0].type == "int" else "float32"
    numbers = [value.value for value in values]
    shown = ", ".join(map(str, dict.fromkeys(numbers[:4])))
    if kind == "int32":
        extent = sizes.extent(Position(path, -1))
        fixed = isinstance(extent, int) and extent <= 0
        number = None if fixed else extent
        return TaskArgument(name=name, path=path, role="scalar", dtype=kind, value=number, evidence=f"values: {shown}")
    varies = len(set(numbers)) > 1
    value: Extent | float = f'dims["{name}"]' if varies else float(numbers[0] or 0.0)
    return TaskArgument(name=name, path=path, role="scalar", dtype=kind, value=value, evidence=f"values: {shown}")


def _unread_pointers(observation: Observation) -> set[str]:
    """Return the arguments of a Triton kernel that its source never loads."""
    if observation.form != "triton" or not observation.file:
        return set()
    name = observation.target.rpartition(":")[2]
    tree = ast.parse(Path(observation.file).read_text(encoding="utf-8"))
    kernel = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name), None)
    return {p.name for p in observation.parameters} - read_pointers(kernel) if kernel else set()


def _new_results(call: ObservedCall) -> list[tuple[int, ObservedValue]]:
    """Return the results that are tensors of their own, or views of arguments that the call leaves unchanged."""
    found = []
    tensors = [value for value in enumerate(call.result_leaves) if value[1].kind == "tensor"]
    for (at, value), same, within in zip(tensors, call.result_is, call.result_within, strict=False):
        if same < 0 and (within < 0 or not call.written[within]):
            found.append((at, value))
    return found


def _output_arguments(call: ObservedCall, sizes: _Sizes) -> Iterable[TaskArgument]:
    new = _new_results(call)
    taken = {identifier(path) for path in call.leaves}
    for number, (at, value) in enumerate(new):
        name = "out" if len(new) == 1 else f"out_{number}"
        yield TaskArgument(
            name=name if name not in taken else f"{name}_result",
            path=f"result[{at}]",
            role="output",
            dtype=value.dtype,
            shape=sizes.shape(f"result[{at}]", len(value.shape)),
            evidence="a result in memory of its own",
        )


def _size_arguments(arguments: Sequence[TaskArgument], sizes: _Sizes) -> list[TaskArgument]:
    """Return a scalar for each dim that no argument carries: a kernel that takes pointers sees no shapes."""
    carried = {argument.value for argument in arguments}
    return [
        TaskArgument(name=name, path="", role="scalar", dtype="int32", value=text, evidence=f"from {low} to {high}")
        for name, (low, high) in sizes.ranges().items()
        if (text := f'dims["{name}"]') not in carried
    ]


def _alias_notes(groups: Sequence[CallGroup]) -> list[str]:
    notes = []
    for call in (group.calls[0] for group in groups):
        shared = [(call.tensors[first], call.tensors[at]) for at, first in enumerate(call.alias) if first != at]
        notes += [f"{one} and {other} share memory in calls; the task gives each its own." for one, other in shared]
        for path in call.tensors:
            value = call.leaves[path]
            if value.order is None:
                notes.append(
                    f"{path} has strides {list(value.strides)} for {list(value.shape)}; the task makes it dense."
                )
            if value.alignment < 16:
                notes.append(f"{path} begins at a multiple of {value.alignment} bytes; in the task of 256.")
    return list(dict.fromkeys(notes))


def _workloads(groups: Sequence[CallGroup], sizes: _Sizes, total_s: float) -> list[TaskWorkload]:
    """Return the sizes of a family, largest share of the time first; groups with equal dims become one."""
    by_dims: dict[tuple[tuple[str, int | float], ...], list[CallGroup]] = {}
    values: dict[tuple[tuple[str, int | float], ...], Dims] = {}
    floats = [path for path, value in groups[0].calls[0].leaves.items() if value.type == "float"]
    floats = [p for p in floats if len({group.calls[0].leaves[p].value for group in groups}) > 1]
    loose = {sizes.names[sizes.vectors[Position(path, -1)]] for path in sizes.loose}
    for at, group in enumerate(groups):
        dims = sizes.dims(at)
        key = tuple((name, value) for name, value in dims.items() if name not in loose)
        by_dims.setdefault(key, []).append(group)
        # Of the longest group: `groups` are sorted.
        values.setdefault(key, dims | {identifier(p): float(group.calls[0].leaves[p].value or 0.0) for p in floats})
    workloads = []
    varying = {name for dims in by_dims for name, value in dims if len({dict(one)[name] for one in by_dims}) > 1}
    for key, members in by_dims.items():
        count = sum(group.count for group in members)
        spent = sum(group.total_s for group in members)
        name = "x".join(f"{value:g}" for name, value in key if name in varying) or "observed"
        workloads.append(
            TaskWorkload(
                name=name,
                dims=values[key],
                calls=count,
                replays=sum(group.replays for group in members),
                median_s=spent / count,
                first_s=max(group.first_s for group in members),
                share=spent / total_s,
                groups=tuple(members),
            )
        )
    if not workloads[0].dims:
        raise SettingsError("capture: the calls have no size: every extent is 1; name a function that works on tensors")
    return sorted(workloads, key=lambda workload: -workload.share)
