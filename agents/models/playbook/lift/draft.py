"""v0 from what torch.compile makes of a reference."""

from __future__ import annotations

from agents.models.playbook.lift import cpp, triton
from tools.artifacts import Task
from tools.errors import SettingsError
from tools.executors.protocol import InductorResult

LIFTS = {"cpp": cpp.lifted, "triton": triton.lifted}
MODEL = "a language model as the coder"
HELP = f"give a kernel, or {MODEL}"


def lifted(task: Task, generated: InductorResult | None) -> str:
    """The source in the task's language. SettingsError, in one sentence, where there is none."""
    if task.language not in LIFTS or generated is None:
        raise SettingsError(f"the playbook lifts first versions in {' and '.join(LIFTS)} alone; {HELP}")
    if generated.refused:
        raise SettingsError(
            f"reference.py cannot be lifted: {generated.refused.removeprefix('reference.py: ').rstrip('.')}; {HELP}"
        )
    try:
        return LIFTS[task.language](task.arguments, generated, task.library or ())
    except SettingsError as error:
        if any(variant.unsearched for variant in generated.variants):
            raise SettingsError(
                f"{error}; torch.compile's search ended at half of judge.job_limit_s: raise it to go on"
            ) from error
        raise
