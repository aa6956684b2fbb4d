"""What torch.compile makes of a task's reference, on the device that the task's language is for."""

from __future__ import annotations

from tools.artifacts import Task
from tools.contracts.checked_cases import draw_hidden_workloads
from tools.executors.base import Executor, Limits, Needs
from tools.executors.harness_job import answer, harness_job
from tools.executors.protocol import InductorRequest, InductorResult
from tools.languages.base import open_language
from tools.store.records import Blobs

SEARCH_SHARE = 0.5
"""Share of the limit after which no other search on a GPU begins: one that has begun takes tens of seconds."""


def generate_inductor_code(task: Task, executor: Executor, blobs: Blobs, limit_s: float) -> InductorResult:
    """Code for the visible sizes and others such as the hidden ones, or why there is none; `limit_s` as
    `judge.job_limit_s`.

    InfrastructureError when the machine failed.
    """
    language = open_language(task.language)
    others = tuple(choices for _, choices in draw_hidden_workloads(task, b"known to everybody", 2))
    request = InductorRequest(task=task, others=others, device=language.device, search_s=SEARCH_SHARE * limit_s)
    job = harness_job(request, {}, blobs, needs=Needs(device=language.device), limits=Limits(wall_s=limit_s))
    return answer(executor.run(job), blobs, InductorResult)
