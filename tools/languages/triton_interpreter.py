"""Is a Triton kernel right at small sizes? Asked of Triton's interpreter, on the CPU; never how fast it is.

What the interpreter cannot tell it does not say: it runs programs one after another, so that races stay hidden, it
computes bfloat16 wrongly, and it has no GPU that a kernel could ask about, so that such tasks end Unmeasured.

The sizes are not the user's own, so that a kernel may rightly refuse them. As in the judge, what it fails at is held
against it only where it was promised: within the user's dims_range, or at a visible workload.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import gcd, prod
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from tools.artifacts import Artifact, Dims, Task
from tools.contracts.checked_cases import alike, smallest
from tools.contracts.inference import guessed_range
from tools.errors import HarnessError
from tools.executors.base import Executor, Job, Limits
from tools.executors.harness_job import harness_files, harness_version
from tools.store.records import Blobs

_SIZES = ((5, 70, 33), (3, 129, 64), (1, 31, 17))
"""Ragged and small, since a program costs about half a millisecond: dims that shapes follow take these, the others
keep their value."""
_WHOLE = (128, 256, 1024)
"""Sizes of that order are tried where ragged ones do not do: what all workloads are a multiple of up to there, these
are too, since a kernel without masks takes no other. They hold the usual blocks: the last of them those of kernels
with one dim only."""
_TRIED_WHOLE, _TRIED_TO_RAISE = 1 << 18, 1 << 26
"""Elements of all arguments up to which a visible workload is tried: to its end, or to see whether it raises, which
it does at once."""
_BLAMED = ("wrong", "raised", "reference")
"""Kinds of problems that the size may be to blame for."""
BFLOAT16 = "Triton's interpreter computes bfloat16 wrongly, so that this task is checked on a GPU only"


class SmallCase(Artifact):
    """One call at small dims."""

    dims: Dims
    error: float | None = None
    """Largest |out - ref64| / (|ref64| + rms of its row) of the output that comes nearest to its tolerance."""
    tolerance: float | None = None
    """What that output was allowed; the judge's rule, with torch's own error on this CPU."""
    problem: str = ""
    """What is wrong, e.g. an exception of the kernel; empty where it is right."""
    kind: Literal["", "wrong", "raised", "broken", "device", "late", "interpreter", "reference"] = ""
    """Of the problem: the kernel's own (wrong numbers or a crash; an exception; an input changed or its process
    ended, which no size excuses), or why nothing can be said: it asked for a GPU, took too long, is beyond the
    interpreter, or the reference makes no inputs of that size."""


class Interpreted(Artifact):
    """What the interpreter showed."""

    status: Literal["passed", "failed", "unmeasured"]
    reason: str = ""
    cases: tuple[SmallCase, ...] = ()
    """Without those that were dropped."""
    dropped: tuple[SmallCase, ...] = ()
    """Sizes that nobody promised and that the kernel, or the reference, cannot do."""


_UNTOLD = {
    "device": "Triton's interpreter cannot run it: it asks for a GPU",
    "late": "Triton's interpreter is too slow for it",
    "interpreter": "Triton's interpreter cannot run it",
    "reference": "it was not run",
}


def small_dims(task: Task) -> tuple[Dims, ...]:
    """The task's first workload at ragged sizes that the interpreter can do, within the user's dims_range."""
    return _distinct(task, partial(_within, task))


def whole_dims(task: Task, order: int) -> tuple[Dims, ...]:
    """The same at sizes of that order which keep what all visible workloads share; dims that the user gave a range
    stay ragged."""

    def size(name: str, wanted: int, at: int) -> int:
        return _within(task, name, wanted, at) if _promised(task, name) else _whole(_values(task, name), wanted, order)

    return _distinct(task, size)


def interpret(task: Task, source: str, executor: Executor, blobs: Blobs) -> Interpreted:
    """Run `source` in Triton's interpreter against the task's reference. HarnessError when the script itself failed."""
    if any(argument.dtype == "bfloat16" for argument in task.arguments):
        return Interpreted(status="unmeasured", reason=BFLOAT16)
    ragged = small_dims(task)
    tried = _run(task, source, ragged, executor, blobs)
    refused = tuple(case for case in tried if case.kind == "reference")
    if tried == refused:
        tried = _run(task, source, tuple(alike(task, case.dims) for case in refused), executor, blobs)
    found = tuple(case for case in tried if case.kind != "reference") or tried
    wrong = found[-1]
    if not wrong.problem:
        return Interpreted(status="passed", cases=found, dropped=refused)
    if wrong.kind not in _BLAMED or all(_promised(task, name) for name in _sized(task)):
        return _ended(wrong, found[:-1], refused)
    dropped = [*refused, wrong]
    smaller, larger, largest = _WHOLE
    for order in (smaller, larger if len(_sized(task)) > 1 else largest):
        rows = whole_dims(task, order)
        found = _run(task, source, rows if order == smaller else rows[:1], executor, blobs)
        if not found[-1].problem:
            return Interpreted(status="passed", cases=found, dropped=tuple(dropped))
        if found[-1].kind not in _BLAMED:
            return _ended(found[-1], found[:-1], tuple(dropped))
        wrong = found[-1]
        dropped.append(wrong)
    return _at_visible(task, source, wrong, tuple(dropped), executor, blobs)


def _at_visible(
    task: Task, source: str, wrong: SmallCase, dropped: tuple[SmallCase, ...], executor: Executor, blobs: Blobs
) -> Interpreted:
    """The last word on a kernel that fails at every made-up size: a visible workload, where the interpreter can do it.

    Where it cannot, wrong numbers at all those sizes are held against the kernel; an exception may be how it refuses
    them.
    """
    visible = smallest(task).dims
    raised = wrong.kind != "wrong"
    if _elements(task, visible) <= (_TRIED_TO_RAISE if raised else _TRIED_WHOLE):
        (last,) = _run(task, source, (visible,), executor, blobs)
        if not last.problem:
            return Interpreted(status="passed", cases=(last,), dropped=dropped)
        if last.kind != "late":
            return _ended(last, (), dropped)
    if not raised:
        return _ended(wrong, (), dropped)
    reason = (
        f"{_said(wrong)}; that size is made up and the visible workloads are too large for Triton's interpreter, "
        "so set dims_range in the reference to the sizes that the kernel must take"
    )
    return Interpreted(status="unmeasured", reason=reason, dropped=dropped)


def _run(task: Task, source: str, cases: tuple[Dims, ...], executor: Executor, blobs: Blobs) -> tuple[SmallCase, ...]:
    """The calls up to the first that has a problem."""
    outputs = [a.name for a in task.outputs]
    request = {"reference": task.reference, "cases": cases, "outputs": outputs, "numeric": task.numeric.model_dump()}
    job = Job(
        files={
            **harness_files(blobs),
            "kernel.py": blobs.put(source),
            "interpret.json": blobs.put(json.dumps(request)),
        },
        argv=("{python}", "-I", "harness/compilation/triton_interpret.py"),
        limits=Limits(wall_s=180.0, memory_bytes=32 << 30),
        results=("interpreted.json",),
        warm=f"interpreted-{harness_version()}",
    )
    finished = executor.run(job)
    try:
        found = TypeAdapter(tuple[SmallCase, ...]).validate_json(blobs.get(finished.files["interpreted.json"]))
    except (KeyError, ValidationError) as error:
        said = blobs.text(finished.files["stderr.txt"])[-400:] if "stderr.txt" in finished.files else ""
        raise HarnessError(f"the interpreter left no answer (exit {finished.exit_code}): {said.strip()}") from error
    if not found:
        raise HarnessError("the interpreter left an empty answer")
    return found


def _ended(case: SmallCase, passed: tuple[SmallCase, ...], dropped: tuple[SmallCase, ...] = ()) -> Interpreted:
    """What a problem amounts to that cannot be blamed on the size."""
    if case.kind in ("wrong", "raised", "broken"):
        return Interpreted(status="failed", reason=_said(case), cases=(*passed, case), dropped=dropped)
    return Interpreted(
        status="unmeasured", reason=f"{_UNTOLD[case.kind]} ({_said(case)})", cases=passed, dropped=dropped
    )


def _said(case: SmallCase) -> str:
    return f"at {' '.join(f'{name}={value}' for name, value in case.dims.items())}: {case.problem}"


def _sized(task: Task) -> list[str]:
    axes = dict.fromkeys(axis for argument in task.arguments for axis in argument.shape if not axis.isdigit())
    first = task.workloads[0].dims
    return [name for name in task.dims_range or axes if isinstance(first.get(name), int)]


def _distinct(task: Task, size: Callable[[str, int, int], int]) -> tuple[Dims, ...]:
    rows = []
    for at, row in enumerate(_SIZES):
        dims = {
            **task.workloads[0].dims,
            **{name: size(name, row[i % len(row)], at) for i, name in enumerate(_sized(task))},
        }
        if dims not in rows:
            rows.append(dims)
    return tuple(rows)


def _values(task: Task, name: str) -> list[int]:
    return [int(w.dims[name]) for w in task.workloads if name in w.dims]


def _promised(task: Task, name: str) -> bool:
    """Whether the user says which sizes the kernel must take; a range guessed from the visible workloads says
    nothing."""
    return name in task.dims_range and task.dims_range[name] != guessed_range(_values(task, name))


def _within(task: Task, name: str, wanted: int, at: int) -> int:
    """Below the range the sizes next to its lower end, which are ragged as well."""
    low, high = task.dims_range[name] if _promised(task, name) else (1, min(_values(task, name)))
    return min(high, wanted if wanted >= low else low + at)


def _whole(values: list[int], wanted: int, order: int) -> int:
    """A size of that order; `wanted` varies it."""
    if all(value & (value - 1) == 0 for value in values):
        return min([*values, 2 * order if wanted > order // 2 else order])
    shared = gcd(*values)
    unit = min(shared & -shared, order)
    return min([*values, (order + wanted) // unit * unit])


def _elements(task: Task, dims: Dims) -> int:
    shapes = [
        [int(axis) if axis.isdigit() else int(dims.get(axis, 1)) for axis in argument.shape]
        for argument in task.arguments
    ]
    return sum(prod(shape) for shape in shapes)
