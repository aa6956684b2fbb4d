"""Check in Triton's interpreter on the CPU whether a kernel is correct at small sizes; speed is not measured.

The interpreter runs programs one after another, so it finds no races. A kernel cannot query a GPU in it; a task that
needs one ends as unmeasured.

The sizes are made up, so a kernel may rightly refuse them. As in the judge, a failure counts against the kernel only at
sizes that it must support: within the user's dims_range, or at a visible workload.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import gcd, prod
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from tools.artifacts import Artifact, Dims, Task
from tools.contracts.checked_cases import nearest_related_dims, smallest_workload
from tools.contracts.inference import default_range
from tools.errors import HarnessError
from tools.executors.base import Executor, Job, Limits
from tools.executors.harness_job import harness_files, harness_version
from tools.store.blobs import Blobs

_RAGGED_SIZES = ((5, 70, 33), (3, 129, 64), (1, 31, 17))
"""Small ragged sizes for the resizable dims, one row per case; small, because each program costs about 0.5 ms."""
_ROUND_SIZES = (128, 256, 1024)
"""Orders of magnitude of round sizes, for kernels that fail at ragged ones. A kernel without masks needs sizes that are
multiples of its blocks, so round sizes keep the common power of two of all workloads, up to this order. The last order
is for kernels with a single dim, whose blocks are larger."""
_MAX_ELEMENTS_TO_FINISH, _MAX_ELEMENTS_TO_RAISE = 1 << 18, 1 << 26
"""Elements of all arguments up to which a visible workload is run: to its end, or to see whether the kernel raises,
which happens at once."""
_SIZE_DEPENDENT_KINDS = ("wrong", "raised", "reference")
"""Kinds of problems that an unsupported size can cause."""


class SmallCase(Artifact):
    """One call of the kernel in the interpreter, and its result."""

    dims: Dims
    error: float | None = None
    """Largest |out - ref64| / (|ref64| + rms of its row), of the output that comes nearest to its tolerance."""
    tolerance: float | None = None
    """Tolerance of that output by the judge's rule, with the error of torch on this CPU."""
    problem: str = ""
    """What is wrong, e.g. an exception of the kernel; empty: the call is correct."""
    kind: Literal["", "wrong", "raised", "broken", "device", "late", "interpreter", "reference"] = ""
    """Kind of the problem. Faults of the kernel: "wrong" (wrong numbers or a crash), "raised" (an exception), "broken"
    (an input was changed or the process ended, which no size excuses). No statement about the kernel: "device" (it
    queried a GPU), "late" (it took too long), "interpreter" (the interpreter cannot run it), "reference" (the reference
    makes no inputs of this size)."""


class InterpreterResult(Artifact):
    """The result of running a kernel in the interpreter."""

    status: Literal["passed", "failed", "unmeasured"]
    reason: str = ""
    cases: tuple[SmallCase, ...] = ()
    """The cases that count, without the dropped ones."""
    dropped: tuple[SmallCase, ...] = ()
    """Cases at made-up sizes that the kernel or the reference does not support."""


_UNMEASURED_REASON_BY_KIND = {
    "device": "Triton's interpreter cannot run the kernel, which queries a GPU",
    "late": "Triton's interpreter is too slow for the kernel",
    "interpreter": "Triton's interpreter cannot run the kernel",
    "reference": "the kernel was not run",
}


def ragged_dims(task: Task) -> tuple[Dims, ...]:
    """Return the dims of the first workload at small ragged sizes, within the user's dims_range."""
    return _distinct_dims(task, partial(_fit_range, task))


def round_dims(task: Task, order: int) -> tuple[Dims, ...]:
    """Return the dims of the first workload at sizes of the given order that keep the common power of two of all
    visible workloads; dims with a range of the user stay ragged."""

    def size(name: str, wanted: int, at: int) -> int:
        return (
            _fit_range(task, name, wanted, at)
            if _has_user_range(task, name)
            else _round_size(_visible_sizes(task, name), wanted, order)
        )

    return _distinct_dims(task, size)


def run_interpreter(task: Task, source: str, executor: Executor, blobs: Blobs) -> InterpreterResult:
    """Run `source` in Triton's interpreter and compare it with the task's reference.

    Raises HarnessError if the interpreter's script itself failed.
    """
    ragged = ragged_dims(task)
    cases = _run_until_problem(task, source, ragged, executor, blobs)
    refused_cases = tuple(case for case in cases if case.kind == "reference")
    if cases == refused_cases:
        cases = _run_until_problem(
            task, source, tuple(nearest_related_dims(task, case.dims) for case in refused_cases), executor, blobs
        )
    counted = tuple(case for case in cases if case.kind != "reference") or cases
    problem_case = counted[-1]
    if not problem_case.problem:
        return InterpreterResult(status="passed", cases=counted, dropped=refused_cases)
    if problem_case.kind not in _SIZE_DEPENDENT_KINDS or all(
        _has_user_range(task, name) for name in _resizable_dims(task)
    ):
        return _result_of_problem(problem_case, counted[:-1], refused_cases)
    dropped = [*refused_cases, problem_case]
    smaller, larger, largest = _ROUND_SIZES
    for order in (smaller, larger if len(_resizable_dims(task)) > 1 else largest):
        sizes = round_dims(task, order)
        counted = _run_until_problem(task, source, sizes if order == smaller else sizes[:1], executor, blobs)
        if not counted[-1].problem:
            return InterpreterResult(status="passed", cases=counted, dropped=tuple(dropped))
        if counted[-1].kind not in _SIZE_DEPENDENT_KINDS:
            return _result_of_problem(counted[-1], counted[:-1], tuple(dropped))
        problem_case = counted[-1]
        dropped.append(problem_case)
    return _interpret_visible_workload(task, source, problem_case, tuple(dropped), executor, blobs)


def _interpret_visible_workload(
    task: Task, source: str, problem_case: SmallCase, dropped: tuple[SmallCase, ...], executor: Executor, blobs: Blobs
) -> InterpreterResult:
    """Return the result for a kernel that fails at every made-up size, from a visible workload if it is small enough.

    If the workload is too large for the interpreter, wrong numbers at all made-up sizes count as a failure; an
    exception does not, since the kernel may refuse those sizes with it.
    """
    visible = smallest_workload(task).dims
    is_exception = problem_case.kind != "wrong"
    if _count_elements(task, visible) <= (_MAX_ELEMENTS_TO_RAISE if is_exception else _MAX_ELEMENTS_TO_FINISH):
        (result,) = _run_until_problem(task, source, (visible,), executor, blobs)
        if not result.problem:
            return InterpreterResult(status="passed", cases=(result,), dropped=dropped)
        if result.kind != "late":
            return _result_of_problem(result, (), dropped)
    if not is_exception:
        return _result_of_problem(problem_case, (), dropped)
    reason = (
        f"{_describe_problem(problem_case)}; this size is made up and the visible workloads are too large for Triton's "
        "interpreter, so set dims_range in the reference to the sizes that the kernel must support"
    )
    return InterpreterResult(status="unmeasured", reason=reason, dropped=dropped)


def _run_until_problem(
    task: Task, source: str, cases: tuple[Dims, ...], executor: Executor, blobs: Blobs
) -> tuple[SmallCase, ...]:
    """Run the cases in the interpreter and return their results up to the first that has a problem."""
    outputs = [a.name for a in task.outputs]
    request = {"reference": task.reference, "cases": cases, "outputs": outputs, "numeric": task.numeric.model_dump()}
    request["roles"] = {a.name: a.role for a in task.arguments}
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
        results = TypeAdapter(tuple[SmallCase, ...]).validate_json(blobs.get(finished.files["interpreted.json"]))
    except (KeyError, ValidationError) as error:
        stderr_text = blobs.text(finished.files["stderr.txt"])[-400:] if "stderr.txt" in finished.files else ""
        raise HarnessError(
            f"the interpreter left no answer (exit {finished.exit_code}): {stderr_text.strip()}"
        ) from error
    if not results:
        raise HarnessError("the interpreter left an empty answer")
    return results


def _result_of_problem(
    case: SmallCase, passed: tuple[SmallCase, ...], dropped: tuple[SmallCase, ...] = ()
) -> InterpreterResult:
    """Return the result for a problem that the size does not excuse."""
    if case.kind in ("wrong", "raised", "broken"):
        return InterpreterResult(
            status="failed", reason=_describe_problem(case), cases=(*passed, case), dropped=dropped
        )
    return InterpreterResult(
        status="unmeasured",
        reason=f"{_UNMEASURED_REASON_BY_KIND[case.kind]} ({_describe_problem(case)})",
        cases=passed,
        dropped=dropped,
    )


def _describe_problem(case: SmallCase) -> str:
    return f"at {' '.join(f'{name}={value}' for name, value in case.dims.items())}: {case.problem}"


def _resizable_dims(task: Task) -> list[str]:
    axes = dict.fromkeys(axis for argument in task.arguments for axis in argument.shape if not axis.isdigit())
    first = task.workloads[0].dims
    return [name for name in task.dims_range or axes if isinstance(first.get(name), int)]


def _distinct_dims(task: Task, size: Callable[[str, int, int], int]) -> tuple[Dims, ...]:
    rows = []
    for row_index, row in enumerate(_RAGGED_SIZES):
        dims = {
            **task.workloads[0].dims,
            **{name: size(name, row[i % len(row)], row_index) for i, name in enumerate(_resizable_dims(task))},
        }
        if dims not in rows:
            rows.append(dims)
    return tuple(rows)


def _visible_sizes(task: Task, name: str) -> list[int]:
    return [int(w.dims[name]) for w in task.workloads if name in w.dims]


def _has_user_range(task: Task, name: str) -> bool:
    """Return whether the user gave a range for the dim; a default range says nothing about supported sizes."""
    return name in task.dims_range and task.dims_range[name] != default_range(_visible_sizes(task, name))


def _fit_range(task: Task, name: str, wanted: int, row_index: int) -> int:
    """Return `wanted` clamped to the dim's range; a size below the range becomes `at` above the range's lower end."""
    low, high = task.dims_range[name] if _has_user_range(task, name) else (1, min(_visible_sizes(task, name)))
    return min(high, wanted if wanted >= low else low + row_index)


def _round_size(values: list[int], wanted: int, order: int) -> int:
    """Return a size of the given order that keeps the common power of two of `values`; `wanted` varies it."""
    if all(value & (value - 1) == 0 for value in values):
        return min([*values, 2 * order if wanted > order // 2 else order])
    shared = gcd(*values)
    unit = min(shared & -shared, order)
    return min([*values, (order + wanted) // unit * unit])


def _count_elements(task: Task, dims: Dims) -> int:
    shapes = [
        [int(axis) if axis.isdigit() else int(dims.get(axis, 1)) for axis in argument.shape]
        for argument in task.arguments
    ]
    return sum(prod(shape) for shape in shapes)
