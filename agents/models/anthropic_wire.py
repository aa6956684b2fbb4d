"""From a request to the Messages API's system, messages and tools with cache marks, and from its message to what we keep. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from pydantic import JsonValue

from agents.models import answers
from agents.models.base import CHARACTERS_PER_TOKEN, Block, Request, ToolCall, Turn, Usage
from agents.models.wire_schema import wire

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

BEGIN = "Begin."
"""A message must not be empty."""


@dataclass(frozen=True)
class Conversation:
    """What is sent, byte for byte the same for the same request; in the order in which it is cached: tools, system, messages."""

    tools: list[ToolParam]
    system: list[TextBlockParam]
    messages: list[MessageParam]


def conversation(request: Request, ttl: Ttl) -> Conversation:
    """Stable blocks are the system prompt, the others the first user message, turns follow.

    The form of the answer, which is the server's affair, is explained behind the stable blocks. A cache mark stands at the end of each
    scope, and once there are turns at the end of the last of them in place of the iteration's (four at most, as the API allows); what
    outlives an iteration is kept for `ttl`, the rest for five minutes.
    """
    prompt = [block for block in request.prompt if block.text.strip()]
    stable = [block for block in prompt if block.scope == "stable"]
    if prompt:
        stable.append(Block(scope="stable", text=answers.how_to_answer(request.answer, structured=True, shown=False)))
    tools: list[ToolParam] = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)} for tool in request.tools
    ]
    if tools and not stable:
        tools[-1]["cache_control"] = _mark(ttl)
    first = _marked([block for block in prompt if block.scope != "stable"], ttl, last=not request.turns)
    messages: list[MessageParam] = [{"role": "user", "content": first or [{"type": "text", "text": BEGIN}]}]
    for index, turn in enumerate(request.turns):
        messages += heard(turn.said)
        if told := _told(turn):
            if index == len(request.turns) - 1:
                told[-1]["cache_control"] = _mark("5m")
            messages.append({"role": "user", "content": told})
    return Conversation(tools, _marked(stable, ttl), messages)


def output(request: Request, effort: Effort | None, *, constrained: bool = True) -> OutputConfigParam:
    """The form that the answer must have (left out where not `constrained`), and the effort where one is given."""
    import anthropic

    found: OutputConfigParam = {"effort": effort} if effort else {}
    if constrained:
        found["format"] = {"type": "json_schema", "schema": anthropic.transform_schema(dict(wire(answers.schema(request))))}
    return found


def _marked(blocks: Sequence[Block], ttl: Ttl, *, last: bool = True) -> list[TextBlockParam]:
    """`blocks` with a cache mark where each scope ends; behind those of the iteration only if that is the `last` of the prompt."""
    found: list[TextBlockParam] = []
    for index, block in enumerate(blocks):
        text: TextBlockParam = {"type": "text", "text": block.text}
        if (index == len(blocks) - 1 or blocks[index + 1].scope != block.scope) and (last or block.scope != "iteration"):
            text["cache_control"] = _mark("5m" if block.scope == "iteration" else ttl)
        found.append(text)
    return found


def _mark(ttl: Ttl) -> CacheControlEphemeralParam:
    return {"type": "ephemeral", "ttl": ttl}


def _told(turn: Turn) -> Content:
    """What the model was told after it had spoken; results of tools come first, as the API wants."""
    told: Content = []
    for result in turn.results:
        told.append({"type": "tool_result", "tool_use_id": result.id, "content": result.text, "is_error": result.failed})
    if turn.refused:
        told.append({"type": "text", "text": answers.told(turn.refused)})
    return told


# ---------------------------------------------------------------- what comes back


def heard(said: str) -> list[MessageParam]:
    """The messages that `said` keeps."""
    return cast("list[MessageParam]", json.loads(said)) if said else []


def kept(messages: Sequence[MessageParam]) -> str:
    """`messages`, the last being the model's, as `said` of a reply."""
    return json.dumps(messages, ensure_ascii=False)


def spoken(message: Message, *, broken: bool = False) -> list[MessageParam]:
    """The model's content exactly as returned, thinking included, as a message to send back; none where it said nothing.

    `broken`: it was cut off, so that only its text can be sent back: a call without its end, or thinking alone, would be refused.
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
