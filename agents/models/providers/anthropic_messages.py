"""From a request to the Messages API's system, messages and tools with cache marks, and from its message to what we
keep. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from pydantic import JsonValue

from agents.models.answers import parsing
from agents.models.answers.json_schema import wire
from agents.models.base import CHARACTERS_PER_TOKEN, Request, ToolCall, Turn, Usage

if TYPE_CHECKING:
    from anthropic.types import (
        CacheControlEphemeralParam,
        Message,
        MessageParam,
        OutputConfigParam,
        TextBlockParam,
        ToolParam,
        ToolResultBlockParam,
    )

Ttl = Literal["5m", "1h"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]
Content = list["TextBlockParam | ToolResultBlockParam"]

MARKS = 4
BEGIN = "Begin."
"""A message must not be empty."""


@dataclass(frozen=True)
class Conversation:
    """What is sent, byte for byte the same for the same request; in the order in which it is cached: tools, system,
    messages."""

    tools: list[ToolParam]
    system: list[TextBlockParam]
    messages: list[MessageParam]


def conversation(request: Request, ttl: Ttl, *, structured: bool = False) -> Conversation:
    """Stable blocks are the system prompt, the others the first user message, turns follow.

    Cache marks, of which the API allows four, stand at the ends of the last blocks that outlive an iteration, to be
    kept for `ttl`: earlier blocks are found nevertheless, since a look-up goes back from each mark. Only where tools
    are offered, so that the conversation is likely to go on, also blocks of the iteration and the end of what was said
    are kept, for five minutes: what is written and never read costs more than what is not.
    """
    prompt = parsing.explained(request, structured, shown=not structured) if request.prompt else ()
    tools: list[ToolParam] = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
        for tool in request.tools
    ]
    if tools:
        marked = list(range(len(prompt) - 1))[1 - MARKS :]
    else:
        marked = [index for index, block in enumerate(prompt) if block.scope != "iteration"][-MARKS:]
    if tools and not prompt:
        tools[-1]["cache_control"] = _mark(ttl)
    texts: list[TextBlockParam] = [{"type": "text", "text": block.text} for block in prompt]
    for index in marked:
        texts[index]["cache_control"] = _mark("5m" if prompt[index].scope == "iteration" else ttl)
    stable = sum(block.scope == "stable" for block in prompt)
    opening: Content = list(texts[stable:]) or [{"type": "text", "text": BEGIN}]
    messages: list[MessageParam] = [{"role": "user", "content": opening}]
    last: Content = opening
    for turn in request.turns:
        messages += heard(turn.said)
        if told := _told(turn):
            messages.append({"role": "user", "content": told})
            last = told
    if tools:
        last[-1].setdefault("cache_control", _mark("5m"))
    return Conversation(tools, texts[:stable], messages)


def output(request: Request, effort: Effort | None, *, constrained: bool = True) -> OutputConfigParam:
    """The form that the answer must have (left out where not `constrained`), and the effort where one is given."""
    import anthropic

    found: OutputConfigParam = {"effort": effort} if effort else {}
    if constrained:
        found["format"] = {
            "type": "json_schema",
            "schema": anthropic.transform_schema(dict(wire(parsing.schema(request), maps=False))),
        }
    return found


def _mark(ttl: Ttl) -> CacheControlEphemeralParam:
    return {"type": "ephemeral", "ttl": ttl}


def _told(turn: Turn) -> Content:
    """What the model was told after it had spoken; results of tools come first, as the API wants."""
    told: Content = []
    for result in turn.results:
        said: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": result.id, "content": result.text}
        told.append({**said, "is_error": True} if result.failed else said)
    if turn.refused:
        told.append({"type": "text", "text": parsing.told(turn.refused)})
    return told


# ---------------------------------------------------------------- what comes back


def heard(said: str) -> list[MessageParam]:
    """The messages that `said` keeps."""
    return cast("list[MessageParam]", json.loads(said)) if said else []


def kept(messages: Sequence[MessageParam]) -> str:
    """`messages`, the last being the model's, as `said` of a reply."""
    return json.dumps(messages, ensure_ascii=False)


def spoken(message: Message, *, broken: bool = False) -> list[MessageParam]:
    """The model's content exactly as returned, thinking included, as a message to send back; none where it said
    nothing.

    `broken`: it was cut off, so that only its text can be sent back: a call without its end, or thinking alone, would
    be refused.
    """
    blocks = [block.to_dict(mode="json") for block in message.content]
    blocks = [block for block in blocks if block["type"] != "text" or str(block["text"]).strip()]
    if broken:
        blocks = [block for block in blocks if block["type"] == "text"]
    return cast("list[MessageParam]", [{"role": "assistant", "content": blocks}]) if blocks else []


def text(message: Message) -> str:
    """All that it wrote, less thinking and calls."""
    return "".join(block.text for block in message.content if block.type == "text")


def calls(message: Message) -> tuple[ToolCall, ...]:
    """The tools it asks for."""
    return tuple(
        ToolCall(id=block.id, name=block.name, arguments=cast("dict[str, JsonValue]", block.input))
        for block in message.content
        if block.type == "tool_use"
    )


@dataclass
class Meter:
    """What the answers of one exchange have taken so far, those that broke off included."""

    total: Usage

    def count(self, message: Message | None, seconds: float) -> None:
        """Add an answer, by the API's own count. Some servers that speak the same protocol count less, or nothing."""
        counted = message.usage if message else None
        tokens = dict.fromkeys(("input", "cache_read", "cache_write", "cache_write_1h", "output"), 0)
        if message and counted:
            written, split = counted.cache_creation_input_tokens or 0, counted.cache_creation
            hour = split.ephemeral_1h_input_tokens if split else 0
            tokens = {
                "input": counted.input_tokens or 0,
                "cache_read": counted.cache_read_input_tokens or 0,
                "cache_write": written - hour,
                "cache_write_1h": hour,
                "output": counted.output_tokens or 0,
            }
        if message and message.stop_reason is None:
            # The count comes at the end of a stream; until then it is the first token's.
            tokens["output"] = max(tokens["output"], len(text(message)) // CHARACTERS_PER_TOKEN)
        self.total = self.total.plus(Usage.model_validate({**tokens, "seconds": seconds}))
