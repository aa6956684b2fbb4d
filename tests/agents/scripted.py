"""A provider that says what a script tells it to, and remembers what it was asked: a real implementation of the
seam."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agents.artifacts import Answer, RoleName
from agents.models.base import AnswerReply, Model, Reply, Request, ToolCall, ToolCallReply, UnfitReply, Usage
from agents.roles.agent import Agent
from tools.errors import KernelwrightError
from tools.store.records import Records

Line = Answer | Reply | KernelwrightError


class Scripted(Model):
    """Options: `lines` to say in turn; what is no reply is said as an answer, an error is raised. Reads prompts, as
    a language model."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__({})
        self.lines: list[Line] = list(options["lines"])
        self.calls_tools = bool(options.get("tools", False))
        self.asked: list[Request] = []

    def ask(self, request: Request) -> Reply:
        self.asked.append(request)
        assert self.lines, "asked more often than the script foresees"
        line = self.lines.pop(0)
        if isinstance(line, KernelwrightError):
            raise line
        return (
            line
            if isinstance(line, (AnswerReply, ToolCallReply, UnfitReply))
            else AnswerReply(answer=line, said=f"line {len(self.asked)}")
        )


def agent(role: RoleName, root: Path, lines: Iterable[Line], *, tools: bool = False) -> tuple[Agent, Scripted]:
    """An agent of `role` whose records lie in `root`."""
    model = Scripted({"lines": lines, "tools": tools})
    return Agent(role, model, Records(root), lambda kind, details: None), model


def called(*wishes: tuple[str, dict[str, Any]], turn: int = 1) -> ToolCallReply:
    """Tool calls of one turn."""
    calls = tuple(
        ToolCall(id=f"{turn}.{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(wishes)
    )
    return ToolCallReply(calls=calls, said=f"turn {turn}", usage=Usage(input=1, output=1))
