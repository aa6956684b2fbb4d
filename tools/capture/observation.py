"""Observed calls, as the recorder wrote them: values, calls, classes, and families of calls with one signature."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from tools.artifacts import Artifact
from tools.capture.program import Recorded
from tools.errors import SettingsError


class ObservedValue(Artifact):
    """A value among the arguments or results of a call; which fields are set depends on `kind`."""

    kind: Literal["tensor", "number", "fixed", "list", "tuple", "dict", "struct", "opaque"]
    type: str = ""
    value: bool | int | float | None = None
    code: str = ""
    items: list[ObservedValue] | dict[str, ObservedValue] = []
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    offset: int = 0
    alignment: int = 0
    device: str = ""

    def leaves(self, path: str) -> Iterator[tuple[str, ObservedValue]]:
        """Yield the values that contain no others, with their paths such as `xs[0]`, in the recorder's order."""
        pairs = self.items.items() if isinstance(self.items, dict) else enumerate(self.items)
        if self.kind not in ("list", "tuple", "dict", "struct"):
            yield path, self
        for key, item in pairs:
            yield from item.leaves(f"{path}.{key}" if self.kind == "struct" else f"{path}[{key!r}]")

    @cached_property
    def order(self) -> tuple[int, ...] | None:
        """Axes of a dense tensor from the longest stride to the shortest; None: its elements have gaps or overlap."""
        order = tuple(sorted(range(len(self.shape)), key=lambda axis: (-self.strides[axis], axis)))
        if self.shape and _is_dense(self.shape, self.strides):
            return tuple(range(len(self.shape)))
        dense = _is_dense([self.shape[axis] for axis in order], [self.strides[axis] for axis in order])
        return order if dense else None


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements follow each other in the order of these axes."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent not in (0, 1) and stride != expected:
            return False
        expected *= extent
    return True


class Content(Artifact):
    """The whole content of a small integer tensor (`sha256`, `zlib` in base64), or a distribution."""

    sha256: str = ""
    zlib: str = ""
    min: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    std: float = 0.0
    zeros: float = 0.0
    nan: float = 0.0
    inf: float = 0.0


class ObservedCall(Artifact):
    """One call that was recorded in full."""

    arguments: dict[str, ObservedValue]
    results: ObservedValue = ObservedValue(kind="fixed", code="None")
    contents: tuple[Content, ...] = ()
    """Of each tensor among the arguments."""
    written: tuple[bool, ...] = ()
    """Whether the call changed it."""
    alias: tuple[int, ...] = ()
    """Index of the first tensor in the same memory."""
    result_is: tuple[int, ...] = ()
    """Index of the argument that a result is, or -1."""
    result_within: tuple[int, ...] = ()
    """Index of the argument in whose memory a result lies, or -1."""
    launches: tuple[dict[str, Any], ...] = ()
    caller: str = ""
    grid: tuple[int, ...] = ()
    options: dict[str, int | float | bool] = {}
    constexprs: tuple[str, ...] = ()
    overload: str = ""
    made: dict[str, ObservedValue] | None = None
    """Arguments of the constructor of the module that was called."""

    @cached_property
    def leaves(self) -> dict[str, ObservedValue]:
        """Path -> value, for all arguments."""
        return dict(pair for name, value in self.arguments.items() for pair in value.leaves(name))

    @cached_property
    def tensors(self) -> list[str]:
        """Paths of the tensors, in the order of `contents`."""
        return [path for path, value in self.leaves.items() if value.kind == "tensor"]

    @cached_property
    def result_leaves(self) -> list[ObservedValue]:
        """The results that contain no others."""
        return [value for _, value in self.results.leaves("result")]

    def structure(self) -> str:
        """Return what calls of one contract share: everything but sizes, strides and numbers."""
        fixed = [self.fixed_part(path, value) for path, value in self.leaves.items()]
        return json.dumps([*fixed, *(self.fixed_part("", value) for value in self.result_leaves), self.overload])

    def fixed_part(self, path: str, value: ObservedValue) -> tuple[str, ...]:
        """Return the part of one value that its contract fixes."""
        what = f"{value.code or value.dtype or value.type}{value.order if value.kind == 'tensor' else ''}"
        bit = str(value.value) if value.type == "bool" or path in self.constexprs else ""
        return path, value.kind, what, str(len(value.shape)), bit


class CallGroup(Artifact):
    """Calls of one class, in all processes."""

    calls: tuple[ObservedCall, ...]
    """The calls that were recorded in full."""
    count: int
    """All calls, replays of CUDA graphs included."""
    replays: int
    median_s: float
    first_s: float
    """Longest first call of a process, which may include compilation."""

    @property
    def total_s(self) -> float:
        """Median duration times number of calls."""
        return self.median_s * self.count


class Parameter(Artifact):
    """A parameter of the target."""

    name: str
    kind: str
    """As in `inspect.Parameter.kind.name`."""
    default: str | None
    """The default's `repr`."""


class Observation(Artifact):
    """All calls of one target in one run of the user's program."""

    target: str
    form: Literal["function", "module", "autograd", "triton", "operator"]
    file: str
    """File of the module that defines the target; empty for an operator."""
    parameters: tuple[Parameter, ...]
    command: tuple[str, ...]
    groups: tuple[CallGroup, ...]
    """Classes of calls, longest total duration first."""
    processes: int
    apart: dict[str, int]
    """Why calls were not recorded -> their number."""
    problems: tuple[str, ...]
    modules: dict[str, str]
    """The user's own modules that were imported, by name, with their files."""
    versions: dict[str, str | None]
    device: str
    exit_code: int
    wall_s: float
    own_s: float
    """Seconds that the recorder took, over all processes."""


def read_observation(recorded: Recorded, target: str) -> Observation:
    """Return the observation that the recorder's lines describe.

    Raises SettingsError, which says what was imported and what to try, if no call was recorded.
    """
    described: dict[str, Any] = {}
    last_counts = []
    unknown = defaultdict[str, int](int)
    groups: defaultdict[str, list[tuple[dict[str, Any], list[ObservedCall]]]] = defaultdict(list)
    for lines in recorded.processes:
        described = next((line for line in lines if line["kind"] == "target"), described)
        counts = next((line for line in reversed(lines) if line["kind"] == "counts"), None)
        calls: defaultdict[int, list[ObservedCall]] = defaultdict(list)
        for line in lines:
            if line["kind"] == "call":
                fields = {name: value for name, value in line.items() if name in ObservedCall.model_fields}
                calls[line["class"]].append(ObservedCall.model_validate(fields))
        if counts is not None:
            last_counts.append(counts)
            for one in counts["classes"]:
                if not calls[one["class"]]:
                    unknown["of further classes, not told apart"] += one["calls"]
                else:
                    groups[_class_key(max(calls[one["class"]], key=lambda call: len(call.contents)))].append(
                        (one, calls[one["class"]])
                    )
    merged = sorted((_merge(parts) for parts in groups.values()), key=lambda group: -group.total_s)
    apart = _sum([unknown, *(line["apart"] for line in last_counts)])
    problems = tuple(dict.fromkeys(problem for line in last_counts for problem in line["problems"]))
    modules = {name: file for line in last_counts for name, file in line["modules"].items()}
    if not any(group.count for group in merged):
        raise SettingsError(_nothing_seen(recorded, target, described, apart, problems, modules))
    last = last_counts[0]
    return Observation(
        target=target,
        form=described["form"],
        file=described["file"],
        parameters=tuple(Parameter.model_validate(one) for one in described["parameters"]),
        command=recorded.command,
        groups=tuple(group for group in merged if group.count),
        processes=sum(bool(line["classes"]) for line in last_counts),
        apart=apart,
        problems=problems,
        modules=modules,
        versions=last["versions"],
        device=last["device"],
        exit_code=recorded.exit_code,
        wall_s=recorded.wall_s,
        own_s=sum(line["own_s"] for line in last_counts),
    )


def _class_key(call: ObservedCall) -> str:
    numbers = [
        (path, value.shape, value.strides, value.value if value.type != "float" else None)
        for path, value in call.leaves.items()
    ]
    return call.structure() + json.dumps(numbers)


def _merge(parts: list[tuple[dict[str, Any], list[ObservedCall]]]) -> CallGroup:
    """Return one class of several processes as one group."""
    durations = [seconds for one, _ in parts for seconds in one["durations"]]
    firsts = [one["first_s"] for one, _ in parts if one["first_s"] is not None]
    replays = sum(one["replays"] for one, _ in parts)
    return CallGroup(
        # Those within the capture of a CUDA graph have no contents.
        calls=tuple(sorted((call for _, calls in parts for call in calls), key=lambda call: not call.contents)),
        count=sum(one["calls"] for one, _ in parts) + replays,
        replays=replays,
        median_s=statistics.median(durations or firsts or [0.0]),
        first_s=max(firsts, default=0.0),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: defaultdict[str, int] = defaultdict(int)
    for one in counts:
        for name, count in one.items():
            total[name] += count
    return dict(total)


def _nothing_seen(
    recorded: Recorded,
    target: str,
    described: Mapping[str, Any],
    apart: Mapping[str, int],
    problems: tuple[str, ...],
    modules: Mapping[str, str],
) -> str:
    """Return the sentence for a run without a recorded call: what was seen instead, and what to try."""
    module = target.partition(":")[0]
    said = f"--target: no call of {target} was recorded in `{' '.join(recorded.command)}`"
    if recorded.exit_code:
        return f"{said}, which ended with exit code {recorded.exit_code}; run it alone first, and mend what it prints"
    if problems:
        return f"{said}: {'; '.join(problems)}"
    if apart:
        counted = ", ".join(f"{count} {reason}" for reason, count in apart.items())
        return f"{said} apart from {counted}; name a function that the program calls outside of these"
    if described:
        return (
            f"{said}; {module} was imported and it defines the target, but nothing called it in Python (a function "
            f"inside torch.compile, or another one of the same name?); name its caller, or run the program without "
            f"compilation"
        )
    if not recorded.processes:
        return f"{said}: the recorder did not start (python -S or -I, or a program that ends by a signal?)"
    imported = ", ".join(sorted(name for name in modules if not name.startswith("__"))) or "none"
    return (
        f"{said}; {module} was not imported. The user's own modules that were: {imported}. Name one of these, or "
        f"`__main__:function` for a function of the script itself"
    )
