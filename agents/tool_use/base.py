"""The interface of toolboxes: tools that a model may call before it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from agents.artifacts import Answer
from agents.models.base import Tool, ToolCall, ToolResult


class Toolbox(ABC):
    """The tools for one answer, and how many turns with calls the model may take."""

    max_turns: int

    @property
    @abstractmethod
    def tools(self) -> tuple[Tool, ...]:
        """The tools on offer. They are the same for a whole run, since they come before everything else in a prompt."""

    @abstractmethod
    def call(self, wanted: ToolCall) -> ToolResult:
        """Execute a call. A refused call returns a failed result with a sentence and fenced external text; only errors
        that must end the run are raised.

        After a crash the same calls are repeated in the same order: they must have the same effect and cost nothing
        again.
        """

    @property
    def is_complete(self) -> bool:
        """Whether the submissions through tools are the whole answer, so that the model need not give one."""
        return False

    def merge_answer(self, said: Answer | None) -> Answer | None:
        """Return the model's answer merged with the submissions through tools; None if there is neither."""
        return said
