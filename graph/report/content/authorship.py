"""Who wrote the task and what a gain is measured against, as far as the frozen task shows it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tools.artifacts import Task
from tools.tasks.suites import SUITE_MARK

NO_KERNEL_GIVEN = "No kernel was given: "


class Authors(NamedTuple):
    """The origin of a task and of its baseline; "submitter" is whoever submitted the run."""

    task: Literal["submitter", "suite", "observed"]
    """observed: recorded from a run of the submitter's program."""
    baseline: Literal["submitter", "package", "run"]
    """package: one that was installed where the run took place; run: v0, which no person gave."""

    def __str__(self) -> str:
        return f"task={self.task}; baseline={self.baseline}"


def authors_of(task: Task) -> Authors:
    """Return who wrote the task and the baseline: the user's own function, or v0 without one."""
    function = task.baseline_function
    wrote_v0 = any(sentence.startswith(NO_KERNEL_GIVEN) for sentence in task.inferred)
    by_task: Literal["submitter", "suite", "observed"] = "suite" if SUITE_MARK in task.reference else "submitter"
    return Authors(
        task="observed" if task.observed else by_task,
        baseline=("submitter" if function.files else "package") if function else "run" if wrote_v0 else "submitter",
    )


def authorship_words(task: Task) -> str:
    """Return who wrote task and baseline in words, marked where that is whoever submitted the run."""
    authors, function = authors_of(task), task.baseline_function
    about_task = {
        "submitter": "whoever submitted this run wrote the task",
        "suite": "the task is a suite's problem, which the submitter's file holds: compare it with the suite",
        "observed": "the task was recorded from a run of the submitter's program",
    }
    called = f"`{function.call}`" if function else "v0"
    about_baseline = {
        "submitter": f"the baseline, {called}, is the submitter's own",
        "package": f"the baseline, {called}, comes from a package that was installed there",
        "run": "the baseline is v0, which this run wrote",
    }
    words = f"{about_task[authors.task]}; {about_baseline[authors.baseline]}"
    doubt = (
        ". Nobody else has said that the task asks for the right thing, or that the baseline is a fair one"
        if "submitter" in authors
        else ""
    )
    return f"{words[0].upper()}{words[1:]}{doubt}."
