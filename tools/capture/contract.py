"""Infers from observed calls what a task's contract says: arguments, dims, workloads, and the evidence of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from tools.artifacts import Artifact, Dims
from tools.capture.observation import CallGroup, Observation, ObservedCall
from tools.errors import SettingsError
from tools.tasks.trace import MIN_COVERED_SHARE

MOST_WORKLOADS = 12
MOST_VALUES = 8
"""A number that takes more values than these where all sizes stay, such as the number of a step, is no dim."""
Extent = bool | int | float | str
"""A number as it stands in make_inputs, or an expression of dims."""


class TaskArgument(Artifact):
    """An argument of the contract."""

    name: str
    path: str
    """Where the observed call has it, such as `xs[0]` or `self.weight`; empty for a size that was added."""
    role: str
    """input, inout, output or scalar."""
    dtype: str
    shape: tuple[Extent, ...] = ()
    value: Extent | None = None
    """Of a scalar."""
    evidence: str = ""


class TaskWorkload(Artifact):
    """A size of the task, with the calls that had it."""

    dims: Dims
    calls: int
    median_s: float
    share: float
    """Of the time of all observed calls."""
    recorded: tuple[ObservedCall, ...]
    """Those of the calls that were recorded in full."""


class ObservedContract(Artifact):
    """What was inferred from an observation."""

    observation: Observation
    arguments: tuple[TaskArgument, ...]
    workloads: tuple[TaskWorkload, ...]
    """Those that are timed."""
    left_out: tuple[TaskWorkload, ...]
    dims_range: dict[str, tuple[int, int]]
    held: tuple[str, ...]
    """Dims that decide which recorded integers fit, whether they size the tensors or bound their values."""
    notes: tuple[str, ...]

    @property
    def sample(self) -> ObservedCall:
        """A call of the first workload."""
        return self.workloads[0].recorded[0]

    @property
    def recorded(self) -> list[ObservedCall]:
        """All calls that were recorded in full, those of the workloads that are timed first."""
        return [call for workload in (*self.workloads, *self.left_out) for call in workload.recorded]

    def named(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the arguments with one of these roles."""
        return tuple(argument.name for argument in self.arguments if argument.role in roles)


def infer_contract(observation: Observation) -> ObservedContract:
    """Return the contract of the calls with the commonest structure; calls of others are noted."""
    families: dict[str, list[CallGroup]] = {}
    for group in observation.groups:
        families.setdefault(group.calls[0].structure(), []).append(group)
    chosen, *others = sorted(families.values(), key=_total_s, reverse=True)
    total_s = _total_s(observation.groups) or 1.0
    notes = [
        f"{sum(group.count for group in other)} calls ({_total_s(other) / total_s:.0%} of the time) have other types, "
        f"ranks or flags, such as {_shapes(other[0].calls[0])}; they are not in this task."
        for other in others
    ]
    sizes = _Sizes(chosen)
    arguments = _arguments(chosen, sizes)
    workloads = _workloads(chosen, sizes, total_s)
    # Those that take the most time, until they cover enough of it.
    covered = list(itertools.accumulate(workload.share for workload in workloads))
    count = min(1 + sum(share < MIN_COVERED_SHARE * covered[-1] for share in covered), MOST_WORKLOADS)
    ranges = sizes.ranges()
    recorded = any(content.zlib for content in chosen[0].calls[0].contents)
    held = tuple(name for name, (low, high) in ranges.items() if recorded and low < high)
    return ObservedContract(
        observation=observation,
        arguments=tuple(arguments),
        workloads=tuple(workloads[:count]),
        left_out=tuple(workloads[count:]),
        dims_range={name: bounds for name, bounds in ranges.items() if name not in held and bounds[0] >= 1},
        held=held,
        notes=(*notes, *observation.problems),
    )


def _total_s(groups: Sequence[CallGroup]) -> float:
    return sum(group.total_s for group in groups)


def _shapes(call: ObservedCall) -> str:
    return ", ".join(f"{path}: {call.leaves[path].dtype}{list(call.leaves[path].shape)}" for path in call.tensors)[:200]


def identifier(path: str) -> str:
    """Return a path such as `xs[0]` or `self.norm.weight` as a name."""
    name = re.sub(r"\W+", "_", path.removeprefix("self.")).strip("_")
    return name if name.isidentifier() else f"x{name}"


# ---------------------------------------------------------------- sizes


class _Sizes:
    """The dims of a family of calls: each is a column with its type and its value in each group."""

    def __init__(self, groups: Sequence[CallGroup]) -> None:
        self.columns: dict[tuple[str, int], tuple[Extent, ...]] = {}
        """Path and axis of an extent, or path and -1 of a number -> its column."""
        self.names: dict[tuple[Extent, ...], str] = {}
        leaves = [group.calls[0].leaves | group.calls[0].result_tensors for group in groups]
        for path, first in leaves[0].items():
            values = [one[path] for one in leaves]
            for axis in range(len(first.shape)):
                self.columns[path, axis] = ("int", *(value.shape[axis] for value in values))
            if first.kind == "number":
                self.columns[path, -1] = (type(first.value).__name__, *(value.value or 0 for value in values))
        extents = {column for (_, axis), column in self.columns.items() if axis >= 0}
        rows = list(zip(*extents, strict=True))[1:]
        for (path, axis), column in sorted(self.columns.items(), key=lambda pair: pair[0][1] >= 0):
            different = {*column[1:]}
            follows = len(different) <= MOST_VALUES or len({*zip(rows, column[1:], strict=True)}) == len({*rows})
            is_dim = different != {1} if column in extents else len(different) > 1 and follows
            if is_dim and column not in self.names:
                name = identifier(path.replace("result", "out")) + (f"_{axis}" if axis >= 0 else "")
                self.names[column] = name if name not in self.names.values() else f"{name}_size"

    def extent(self, path: str, axis: int) -> Extent:
        """Return the extent or number at a place as a number or as its dim."""
        column = self.columns[path, axis]
        return f'dims["{self.names[column]}"]' if column in self.names else column[1]

    def dims(self, at: int) -> Dims:
        """Return the dims of a group by its position."""
        return {name: column[at + 1] for column, name in self.names.items()}  # type: ignore[misc]

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Return the least and the largest observed value of each whole dim."""
        whole = {name: column[1:] for column, name in self.names.items() if column[0] == "int"}
        return {name: (min(values), max(values)) for name, values in whole.items()}  # type: ignore[misc]


# ---------------------------------------------------------------- arguments


def _arguments(groups: Sequence[CallGroup], sizes: _Sizes) -> list[TaskArgument]:
    """Return the arguments as observed, an output for each result of its own, and a scalar for each dim that none of
    them carries: a kernel that takes pointers sees no shapes."""
    calls, sample = [call for group in groups for call in group.calls], groups[0].calls[0]
    arguments, new = dict[str, TaskArgument](), new_results(sample)
    for path, value in (sample.leaves | {path: sample.result_tensors[path] for path in new}).items():
        if value.kind not in ("tensor", "number"):
            continue
        name = identifier(path) if path not in new else "out" if len(new) == 1 else identifier(f"out{path[6:]}")
        name = f"{name}_value" if name in arguments else name
        at = sample.tensors.index(path) if path in sample.tensors else -1
        written = sum(call.written[at] for call in calls if at >= 0)
        numbers = dict.fromkeys(str(call.leaves[path].value) for call in calls[:9] if value.kind == "number")
        role = "scalar" if numbers else "output" if at < 0 else "inout" if written else "input"
        evidence = {
            "scalar": f"values: {', '.join(numbers)}",
            "output": "a result in memory of its own",
            "inout": f"{written} of {len(calls)} calls changed it",
            "input": f"unchanged in {len(calls)} calls",
        }[role]
        arguments[name] = TaskArgument(
            name=name,
            path=path,
            role=role,
            dtype=value.dtype or type(value.value).__name__,
            shape=tuple(sizes.extent(path, axis) for axis in range(len(value.shape))),
            value=sizes.extent(path, -1) if numbers else None,
            evidence=evidence + (_layout(sample, at) if at >= 0 else ""),
        )
    carried = {argument.value for argument in arguments.values()}
    added = [
        TaskArgument(name=n, path="", role="scalar", dtype="int", value=text, evidence=f"from {low} to {high}")
        for n, (low, high) in sizes.ranges().items()
        if (text := f'dims["{n}"]') not in carried
    ]
    return [*arguments.values(), *added]


def new_results(call: ObservedCall) -> list[str]:
    """Return the results that are tensors of their own, or lie in arguments that the call leaves unchanged."""
    found = zip(call.result_tensors, call.result_within, strict=True)
    return [path for path, within in found if within < 0 or not call.written[within]]


def _layout(call: ObservedCall, at: int) -> str:
    """Return what the task does not keep of a tensor's place in memory, or an empty text."""
    value, other = call.leaves[call.tensors[at]], call.tensors[call.alias[at]]
    return (
        f"; strides {list(value.strides)}{', in the task contiguous' * (not value.axes_in_memory())}"
        * (not value.contiguous)
        + f"; begins at a multiple of {value.alignment} bytes, in the task of 256" * (value.alignment < 16)
        + f"; shares memory with {other}, in the task not" * (call.alias[at] != at)
    )


def _workloads(groups: Sequence[CallGroup], sizes: _Sizes, total_s: float) -> list[TaskWorkload]:
    """Return the sizes of a family, largest share of the time first; groups with equal dims become one."""
    by_dims: dict[tuple[tuple[str, int | float], ...], list[CallGroup]] = {}
    for at, group in enumerate(groups):
        by_dims.setdefault(tuple(sizes.dims(at).items()), []).append(group)
    if () in by_dims:
        raise SettingsError("capture: the calls have no size: every extent is 1; name a function that works on tensors")
    workloads = [
        TaskWorkload(
            dims=dict(dims),
            calls=(count := sum(group.count for group in members)),
            median_s=_total_s(members) / count,
            share=_total_s(members) / total_s,
            recorded=tuple(call for group in members for call in group.calls),
        )
        for dims, members in by_dims.items()
    ]
    return sorted(workloads, key=lambda workload: -workload.share)
