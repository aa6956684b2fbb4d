"""A provider of somebody else's, by import path: it looks a number up before it answers, as a model with tools does."""

from __future__ import annotations

from agents.artifacts import Analysis
from agents.models.base import (
    AnswerReply,
    Model,
    Reply,
    Request,
    Tool,
    ToolCall,
    ToolCallReply,
    ToolResult,
    UnfitReply,
    Usage,
)
from agents.tool_use.base import Toolbox

PAID = Usage(model="somebody", input=100, output=10, seconds=1.5)


class Calling(Model):
    """Asks for `lookup` once; with `stutter` it then says something that cannot be read, and only then answers."""

    calls_tools = True

    def ask(self, request: Request) -> Reply:
        heard = [result.text for turn in request.turns for result in turn.results]
        if not heard:
            call = ToolCall(id="call-1", name="lookup", arguments={"record": request.brief.records[0]})  # type: ignore[union-attr]
            return ToolCallReply(calls=(call,), said="I look it up.", usage=PAID)
        if self.options.get("stutter") and not request.refused:
            return UnfitReply(
                faults=("the answer contains no JSON object Analysis; give one",), said="Well.", usage=PAID
            )
        text = f"Record {request.brief.records[0]} says {heard[0]}."  # type: ignore[union-attr]
        return AnswerReply(answer=Analysis(ranking=(), text=text), said=text, usage=PAID)

    def usage_bound(self, request: Request) -> Usage:
        return PAID


class Lookup(Toolbox):
    """One tool."""

    max_turns = 2

    @property
    def tools(self) -> tuple[Tool, ...]:
        parameters = {"type": "object", "properties": {"record": {"type": "string"}}}
        return (Tool(name="lookup", description="What a record says.", parameters=parameters),)

    def call(self, wanted: ToolCall) -> ToolResult:
        return ToolResult(id=wanted.id, text=f"what {wanted.arguments['record']} holds")
