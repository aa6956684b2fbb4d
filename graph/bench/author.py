"""The model of planner and coder in a run at the bench: the user's agent, which answers by its submissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.artifacts import Answer
from agents.models import options as provider_options
from agents.models.base import AnswerReply, Model, Request, Usage
from graph.settings import ModelChoice, Settings
from tools.errors import SettingsError

PROVIDER = f"{__name__}:AgentAtBench"
"""The provider of planner and coder in the settings of a run at the bench."""


class BenchOptions(provider_options.ProviderOptions):
    """Options of the agent at the bench."""

    calls: int = 400
    """Most calls of tools in a run, without those of `verdict`."""


class AgentAtBench(Model):
    """Answers with what the agent submits; what the agent itself costs remains unknown."""

    reads = "brief"
    bills = "unseen"

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.settings = provider_options.read_options("bench", BenchOptions, options)
        self.answer: Callable[[Request], Answer] | None = None
        """Waits for a submission; set when the bench opens."""

    def ask(self, request: Request) -> AnswerReply:
        """Return the plan or the draft of the next submission."""
        if self.answer is None:
            raise SettingsError(
                f"models.{request.role}: the bench opens once there is a kernel; give the task one, or let another "
                f"provider write v0"
            )
        return AnswerReply(answer=self.answer(request), usage=Usage())


def with_agent_at_bench(settings: Settings) -> Settings:
    """Return settings in which the agent is planner and coder: each submission is an iteration with one candidate."""
    author = ModelChoice(provider=PROVIDER)
    search = settings.search.model_copy(
        update={
            "candidates": 1,
            "methods_per_iteration": 1,
            "repair_attempts": 0,
            "fix_attempts": 0,
            "patience": settings.search.iterations,
        }
    )
    return settings.model_copy(
        update={"models": {**settings.models, "planner": author, "coder": author}, "search": search}
    )
