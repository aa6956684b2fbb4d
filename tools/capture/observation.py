"""Observed calls, as the recorder wrote them: values, calls, classes, and families of calls with one signature."""

from __future__ import annotations

import itertools
import json
import operator
import statistics
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from pydantic import Field

from tools.artifacts import Artifact
from tools.capture.program import Recorded
from tools.errors import SettingsError


class ObservedValue(Artifact):
    """A value among the arguments or results of a call; which fields are set depends on `kind`."""

    kind: Literal["tensor", "number", "fixed", "list", "tuple", "dict", "struct", "opaque"]
    type: str = ""
    value: bool | int | float | None = None
    code: str = ""
    items: dict[str, ObservedValue] = {}
    """Of what contains others, by index, key or field."""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    contiguous: bool = True
    alignment: int = 16

    def axes_in_memory(self) -> list[int] | None:
        """Return the axes of a transposed tensor from the slowest to the fastest; None for any other layout."""
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        dense = itertools.accumulate((self.shape[axis] for axis in order[:0:-1]), operator.mul, initial=1)
        is_dense = [self.strides[axis] for axis in reversed(order)] == [*dense]
        return order if is_dense and not self.contiguous else None

    def leaves(self, path: str) -> Iterator[tuple[str, ObservedValue]]:
        """Yield the values that contain no others, with their paths such as `xs[0]`, in the recorder's order."""
        if self.kind not in PARTS:
            yield path, self
        for key, item in self.items.items():
            yield from item.leaves(path + PARTS[self.kind].format(key))


PARTS = {"list": "[{}]", "tuple": "[{}]", "dict": "[{!r}]", "struct": ".{}"}
"""Kind of a value that contains others -> how one of its parts is read."""


class Content(Artifact):
    """The whole content of a small integer tensor (in base64), or the distribution of another."""

    zlib: str = Field("", exclude=True)
    """Not in captured.json, as it stands in reference.py."""
    min: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    std: float = 0.0
    """These four are of the finite values that are not among `levels`."""
    levels: tuple[tuple[float, float], ...] = ()
    """The common values with their shares, the least first; empty for a tensor of a few elements."""
    rising: bool = False
    distinct: bool = False
    """Whether integers rise along the last axis, and are all different."""

    @property
    def few_values(self) -> tuple[float, ...]:
        """The values of a tensor whose values are all common ones, in their order; else none."""
        return tuple(v for v, _ in self.levels) if sum(share for _, share in self.levels) > 1 - 1e-9 else ()


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
    result_within: tuple[int, ...] = ()
    """Index of the argument in whose memory a result lies, or -1."""
    grid: tuple[int, ...] = ()
    options: dict[str, int | float | bool] = {}
    constexprs: tuple[str, ...] = ()
    overload: str = ""
    made: dict[str, ObservedValue] | None = None
    """Arguments of the constructor of the module that was called."""
    training: bool = True

    @cached_property
    def leaves(self) -> dict[str, ObservedValue]:
        """Path -> value, for all arguments that are no constexprs."""
        named = (pair for pair in self.arguments.items() if pair[0] not in self.constexprs)
        return dict(pair for name, value in named for pair in value.leaves(name))

    @cached_property
    def tensors(self) -> list[str]:
        """Paths of the tensors, in the order of `contents`."""
        return [path for path, value in self.leaves.items() if value.kind == "tensor"]

    def content(self, path: str) -> Content:
        """Return what is known of the content of a tensor among the arguments."""
        return self.contents[self.tensors.index(path)]

    @cached_property
    def result_tensors(self) -> dict[str, ObservedValue]:
        """Path -> tensor among the results."""
        return {path: value for path, value in self.results.leaves("result") if value.kind == "tensor"}

    def structure(self) -> str:
        """Return what calls of one contract share: everything but sizes, strides, numbers and constexprs."""
        parts = [
            (path, value.kind, value.code or value.dtype or value.type, len(value.shape), value.value is True)
            for name, tree in (*self.arguments.items(), ("result", self.results))
            for path, value in tree.leaves(name)
        ]
        return json.dumps([parts, self.overload, self.training])


class CallGroup(Artifact):
    """Calls of one class in one process."""

    calls: tuple[ObservedCall, ...]
    """The calls that were recorded in full."""
    count: int
    median_s: float
    """Without the first one, which may include compilation."""

    @property
    def total_s(self) -> float:
        """Median duration times number of calls."""
        return self.median_s * self.count


class Observation(Artifact):
    """All calls of one target in one run of the user's program."""

    target: str
    form: Literal["function", "module", "autograd", "triton", "operator"]
    parameters: dict[str, str]
    """Name -> kind, as in `inspect.Parameter.kind.name`."""
    command: tuple[str, ...]
    groups: tuple[CallGroup, ...]
    """Longest total duration first."""
    apart: dict[str, int]
    """Why calls were not recorded -> their number."""
    problems: tuple[str, ...]
    modules: dict[str, str]
    """The user's own modules that were imported, by name, with their files."""
    device: str
    exit_code: int


def read_observation(recorded: Recorded, target: str) -> Observation:
    """Return the observation that the recorder wrote.

    Raises SettingsError, which says what was imported and what to try, if no call was recorded.
    """
    records = recorded.processes
    classes = [one for record in records for one in record["classes"] if one["records"]]
    groups = [
        CallGroup(
            calls=tuple(map(ObservedCall.model_validate, one["records"])),
            count=one["calls"],
            median_s=statistics.median(one["durations"][1:] or one["durations"]),
        )
        for one in classes
    ]
    described = next((record["target"] for record in records if record["target"]), None)
    observation = Observation(
        target=target,
        **(described or {"form": "function", "parameters": {}}),
        command=recorded.command,
        groups=tuple(sorted(groups, key=lambda group: -group.total_s)),
        apart=sum((Counter(record["apart"]) for record in records), Counter()),
        problems=tuple(dict.fromkeys(problem for record in records for problem in record["problems"])),
        modules={name: file for record in records for name, file in record["modules"].items()},
        device=next((record["device"] for record in records if record["device"] != "cpu"), "cpu"),
        exit_code=recorded.exit_code,
    )
    if not groups:
        raise SettingsError(_nothing_seen(observation, is_found=described is not None))
    return observation


def _nothing_seen(seen: Observation, *, is_found: bool) -> str:
    """Return the sentence for a run without a recorded call: what was seen instead, and what to try."""
    module = seen.target.partition(":")[0]
    said = f"--target: no call of {seen.target} was recorded in `{' '.join(seen.command)}`"
    if seen.exit_code:
        return f"{said}, which ended with exit code {seen.exit_code}; run it alone first, and mend what it prints"
    if seen.problems:
        return f"{said}: {'; '.join(seen.problems)}"
    if seen.apart:
        counted = ", ".join(f"{count} {reason}" for reason, count in seen.apart.items())
        return f"{said} apart from {counted}; name a function that the program calls outside of these"
    if is_found:
        return (
            f"{said}; {module} was imported and it defines the target, but nothing called it in Python (a function "
            f"inside torch.compile, or another one of the same name?); name its caller, or run the program without "
            f"compilation"
        )
    imported = ", ".join(sorted(name for name in seen.modules if not name.startswith("__"))) or "none"
    return (
        f"{said}; {module} was not imported. The user's own modules that were: {imported}. Name one of these, or "
        f"`__main__:function` for a function of the script itself"
    )
