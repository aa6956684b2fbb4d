"""Who wrote the task, what a gain is measured against, and which inputs a kernel can know, as the frozen task shows."""

from __future__ import annotations

from tools.artifacts import Task
from tools.tasks.suites import SUITE_MARK

NO_KERNEL_GIVEN = "No kernel was given: "
KNOWN_CONTENT = "Known content: "
_TASK_WORDS = {
    "submitter": "Whoever submitted this run wrote the task",
    "suite": "The task is a suite's problem, which the submitter's file holds: compare it with the suite",
    "observed": "The task was recorded from a run of the submitter's program",
}
_BASELINE_WORDS = {
    "submitter": "is the submitter's own",
    "package": "comes from a package that was installed there",
    "run": "was written by this run",
}
_DOUBT = " Nobody else has said that the task asks for the right thing, or that the baseline is a fair one."


def authors_of(task: Task) -> tuple[str, str]:
    """Return who wrote the task (submitter, suite, or observed from a run) and the baseline (submitter, package, or
    this run), which is the user's own function, or v0 without one."""
    function = task.baseline_function
    by_task = "observed" if task.observed else "suite" if SUITE_MARK in task.reference else "submitter"
    if function is not None:
        return by_task, "submitter" if function.files else "package"
    return by_task, "run" if any(said.startswith(NO_KERNEL_GIVEN) for said in task.inferred) else "submitter"


def known_contents(task: Task) -> tuple[str, ...]:
    """Return the sentences about inputs that return from one input set to another, which bound the claim."""
    return tuple(said for said in task.inferred if said.startswith(KNOWN_CONTENT))


def authorship_words(task: Task) -> str:
    """Return who wrote task and baseline in words, marked where that is whoever submitted the run."""
    by_task, by_baseline = authors = authors_of(task)
    called = f"`{task.baseline_function.call}`" if task.baseline_function else "v0"
    words = f"{_TASK_WORDS[by_task]}; the baseline, {called}, {_BASELINE_WORDS[by_baseline]}."
    return words + _DOUBT * ("submitter" in authors)
