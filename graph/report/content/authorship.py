"""Who wrote the task, what a gain is measured against, and which inputs a kernel can know, as far as a run knows it."""

from __future__ import annotations

from tools.artifacts import Task

KNOWN_CONTENT = "Known content: "
_TASK_WORDS = {
    "submitter": "Whoever submitted this run wrote the task",
    "suite": "The task is a suite's problem, which the submitter's file holds: compare it with the suite",
    "observed": "The task was recorded from a run of the submitter's program",
}
_BASELINE_WORDS = {
    "submitter": "is the submitter's own",
    "package": "comes from the installed package {}, whose Python files are as its index gave them",
    "run": "was written by this run",
}
_DOUBT = " Nobody else has said that the task asks for the right thing, or that the baseline is a fair one."


def known_contents(task: Task) -> tuple[str, ...]:
    """Return the sentences about inputs that return from one input set to another, which bound the claim."""
    return tuple(said for said in task.inferred if said.startswith(KNOWN_CONTENT))


def authorship_words(task: Task) -> str:
    """Return who wrote task and baseline in words, marked where that is whoever submitted the run."""
    authors, function = task.authors, task.baseline_function
    words = _BASELINE_WORDS[authors.baseline].format(function.package if function else "")
    called = f"`{function.call}`" if function else "v0"
    is_doubtful = authors.task != "suite" or authors.baseline == "submitter"
    return f"{_TASK_WORDS[authors.task]}; the baseline, {called}, {words}.{_DOUBT * is_doubtful}"
