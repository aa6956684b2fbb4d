"""The kernel that torch.compile generates from a reference, as the first version of a task or as a method."""

from __future__ import annotations

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.lift.cpp import lift_cpp
from agents.lift.triton import lift_triton
from tools.artifacts import Task
from tools.errors import SettingsError
from tools.executors.protocol import InductorResult

LIFT_METHOD = "inductor-lift"
"""Id of the wiki page of the method."""
LIFT_BY_LANGUAGE = {"cpp": lift_cpp, "triton": lift_triton}
LANGUAGE_MODEL_CODER = "a language model as the coder"
REMEDY = f"give a kernel, or {LANGUAGE_MODEL_CODER}"


def lift_reference(task: Task, generated: InductorResult | None) -> str:
    """The source of one kernel in the task's language, from the code that Inductor generated for its reference.

    Raises SettingsError, with one sentence, for a language or a reference that cannot be lifted.
    """
    if task.language not in LIFT_BY_LANGUAGE or generated is None:
        raise SettingsError(f"first versions are lifted in {' and '.join(LIFT_BY_LANGUAGE)} only; {REMEDY}")
    if generated.refused:
        reason = generated.refused.removeprefix("reference.py: ").rstrip(".")
        raise SettingsError(f"reference.py cannot be lifted: {reason}; {REMEDY}")
    try:
        return LIFT_BY_LANGUAGE[task.language](task.arguments, generated, task.library or ())
    except SettingsError as error:
        if any(variant.unsearched for variant in generated.variants):
            raise SettingsError(
                f"{error}; torch.compile's search ended at half of judge.job_limit_s: raise it to go on"
            ) from error
        raise


def draft_lifted_kernel(brief: CoderBrief) -> Drafts:
    """One draft, the lifted kernel of the brief, with the other planned methods skipped."""
    others = (item.method for item in brief.plan.methods if item.method != LIFT_METHOD)
    skipped = dict.fromkeys(others, "the lifted kernel is judged by itself")
    draft = Draft(source=brief.lifted_source, methods=(LIFT_METHOD,), note="the kernel that torch.compile generates")
    return Drafts(drafts=(draft,), skipped=skipped)
