"""Is a Triton kernel right at small sizes? Asked of Triton's interpreter, on the CPU; never how fast it is.

What the interpreter cannot tell it does not say: it runs programs one after another, so that races stay hidden, and it computes bfloat16
wrongly, so that such tasks end Unmeasured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from tools.artifacts import Artifact, Dims, Job, Limits, Task, digest
from tools.errors import HarnessError
from tools.executors.base import Executor
from tools.records import Blobs

_HARNESS = Path(__file__).parent / "harness"
_FILES = ("interpreted.py", "sandbox.py", "contract.py", "compare.py")
_SIZES = ((5, 70, 33), (3, 129, 64), (1, 31, 17))
"""Ragged and small, since a program costs about half a millisecond: dims that shapes follow take these, the others keep their value."""
BFLOAT16 = "Triton's interpreter computes bfloat16 wrongly, so that this task is checked on a GPU only"


class SmallCase(Artifact):
    """One call at small dims."""

    dims: Dims
    error: float | None = None
    """Largest |out - ref64| / (|ref64| + rms of its row) over all outputs."""
    problem: str = ""
    """What is wrong beyond a number, e.g. an exception of the kernel."""


class Interpreted(Artifact):
    """What the interpreter showed."""

    status: Literal["passed", "failed", "unmeasured"]
    reason: str = ""
    cases: tuple[SmallCase, ...] = ()


def small_dims(task: Task) -> tuple[Dims, ...]:
    """The task's first workload at sizes that the interpreter can do."""
    sized = [name for name in task.dims_range or _followed(task) if isinstance(task.workloads[0].dims.get(name), int)]
    first = task.workloads[0].dims
    return tuple({**first, **{name: min(int(first[name]), row[at % len(row)]) for at, name in enumerate(sized)}} for row in _SIZES)


def interpret(task: Task, source: str, executor: Executor, blobs: Blobs) -> Interpreted:
    """Run `source` in Triton's interpreter against the task's reference. HarnessError when the script itself failed."""
    if any(argument.dtype == "bfloat16" for argument in task.arguments):
        return Interpreted(status="unmeasured", reason=BFLOAT16)
    parts = {f"harness/{name}": (_HARNESS / name).read_bytes() for name in _FILES}
    outputs = [a.name for a in task.outputs]
    request = {"reference": task.reference, "dims": small_dims(task), "outputs": outputs}
    job = Job(
        files={
            **{name: blobs.put(text) for name, text in parts.items()},
            "kernel.py": blobs.put(source),
            "interpret.json": blobs.put(json.dumps(request)),
        },
        argv=("{python}", "-I", "harness/interpreted.py"),
        limits=Limits(wall_s=180.0, memory_bytes=32 << 30),
        results=("interpreted.json",),
        warm=f"interpreted-{digest(b''.join(parts.values()))[:16]}",
    )
    finished = executor.run(job)
    try:
        cases = TypeAdapter(tuple[SmallCase, ...]).validate_json(blobs.get(finished.files["interpreted.json"]))
    except (KeyError, ValidationError) as error:
        said = blobs.text(finished.files["stderr.txt"])[-400:] if "stderr.txt" in finished.files else ""
        raise HarnessError(f"the interpreter left no answer (exit {finished.exit_code}): {said.strip()}") from error
    allowed = {a.name: task.numeric.floor.get(a.dtype, 0.0) for a in task.outputs}
    limit = max(allowed.values(), default=0.0)
    for case in cases:
        if case.problem.startswith("NotImplementedError"):
            return Interpreted(status="unmeasured", reason=f"Triton's interpreter cannot run it ({case.problem})", cases=cases)
        if case.problem or case.error is None or case.error > limit:
            said = case.problem or f"error {case.error:.3g} is above {limit:g}"
            where = " ".join(f"{name}={value}" for name, value in case.dims.items())
            return Interpreted(status="failed", reason=f"at {where}: {said}", cases=cases)
    return Interpreted(status="passed", cases=cases)


def _followed(task: Task) -> list[str]:
    return list(dict.fromkeys(axis for argument in task.arguments for axis in argument.shape if not axis.isdigit()))
