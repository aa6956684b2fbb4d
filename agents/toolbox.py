"""The seam for what a model may have done before it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from agents.models.base import Tool, ToolCall, ToolResult


class Toolbox(ABC):
    """Tools, and how many rounds of calls one answer may take."""

    rounds: int

    @property
    @abstractmethod
    def tools(self) -> tuple[Tool, ...]:
        """What is offered; the same for a whole run, since it stands before everything else in a prompt."""

    @abstractmethod
    def call(self, wanted: ToolCall) -> ToolResult:
        """Do it. A wish that cannot be met is a failed result with a sentence; only a machine's failure raises."""
