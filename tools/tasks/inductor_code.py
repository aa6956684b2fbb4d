"""Generate the code of torch.compile (Inductor) for a task's reference, on the device of the task's language."""

from __future__ import annotations

from tools.artifacts import Task
from tools.contracts.checked_cases import draw_hidden_workloads
from tools.executors.base import Executor, Limits, Needs
from tools.executors.harness_job import harness_job, read_answer
from tools.executors.protocol import InductorRequest, InductorResult
from tools.languages.base import open_language
from tools.store.blobs import Blobs

SEARCH_SHARE = 0.5
"""Share of the limit after which no further search on a GPU starts, because a search takes tens of seconds."""


def generate_inductor_code(task: Task, executor: Executor, blobs: Blobs, limit_s: float) -> InductorResult:
    """Return Inductor's code for the visible sizes and for drawn ones like the hidden sizes, or why there is none.

    `limit_s` is the time limit in seconds (`judge.job_limit_s`). Raises InfrastructureError if the machine failed.
    """
    language = open_language(task.language)
    other_sizes = tuple(choices for _, choices in draw_hidden_workloads(task, b"known to everybody", 2))
    request = InductorRequest(task=task, others=other_sizes, device=language.device, search_s=SEARCH_SHARE * limit_s)
    job = harness_job(request, {}, blobs, needs=Needs(device=language.device), limits=Limits(wall_s=limit_s))
    return read_answer(executor.run(job), blobs, InductorResult)
