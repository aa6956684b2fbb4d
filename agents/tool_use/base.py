"""The seam for what a model may have done before it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from agents.artifacts import Answer
from agents.models.base import Tool, ToolCall, ToolResult


class Toolbox(ABC):
    """The tools of one answer, and how many rounds of calls it may take."""

    rounds: int

    @property
    @abstractmethod
    def tools(self) -> tuple[Tool, ...]:
        """What is offered; the same for a whole run, since it stands before everything else in a prompt."""

    @abstractmethod
    def call(self, wanted: ToolCall) -> ToolResult:
        """Do it. A wish that cannot be met is a failed result with a sentence, foreign text in a fence; only what must
        end the run raises.

        After a crash the same calls are made again in the same order: what they did must come about again, and cost
        nothing twice.
        """

    @property
    def complete(self) -> bool:
        """Whether what was handed in through the tools is the whole answer, so that none need be said."""
        return False

    def answered(self, said: Answer | None) -> Answer | None:
        """What was said together with what was handed in through the tools; None: neither is there."""
        return said
