"""Translates a request into the Messages API's tools, system and messages with cache marks, and the API's message back.
Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from pydantic import JsonValue

from agents.models.answers import parsing
from agents.models.answers.json_schema import close_schema
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

CacheTtl = Literal["5m", "1h"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]
UserContent = list["TextBlockParam | ToolResultBlockParam"]

MAX_CACHE_MARKS = 4
OPENING_TEXT = "Begin."
"""Text of the first message where the prompt has none: a message must not be empty."""


@dataclass(frozen=True)
class Conversation:
    """The content of an API call, byte for byte the same for the same request, in the order of caching: tools, system,
    messages."""

    tools: list[ToolParam]
    system: list[TextBlockParam]
    messages: list[MessageParam]


def build_conversation(request: Request, ttl: CacheTtl, *, structured: bool = False) -> Conversation:
    """Return stable blocks as the system prompt, the others as the first user message, and the turns after it.

    Cache marks, of which the API allows four, stand at the ends of the last blocks that outlive an iteration and last
    for `ttl`; earlier blocks are found as well, since a look-up goes back from each mark. If tools are offered, the
    conversation is likely to continue, so blocks of the iteration and the end of the conversation are cached too, for
    five minutes. Otherwise they are not: a cache entry that nobody reads costs more than none.
    """
    prompt = parsing.add_answer_instructions(request, structured, shown=not structured) if request.prompt else ()
    tools: list[ToolParam] = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
        for tool in request.tools
    ]
    if tools:
        marked = list(range(len(prompt) - 1))[1 - MAX_CACHE_MARKS :]
    else:
        marked = [index for index, block in enumerate(prompt) if block.scope != "iteration"][-MAX_CACHE_MARKS:]
    if tools and not prompt:
        tools[-1]["cache_control"] = _cache_mark(ttl)
    texts: list[TextBlockParam] = [{"type": "text", "text": block.text} for block in prompt]
    for index in marked:
        texts[index]["cache_control"] = _cache_mark("5m" if prompt[index].scope == "iteration" else ttl)
    stable = sum(block.scope == "stable" for block in prompt)
    opening: UserContent = list(texts[stable:]) or [{"type": "text", "text": OPENING_TEXT}]
    messages: list[MessageParam] = [{"role": "user", "content": opening}]
    last: UserContent = opening
    for turn in request.turns:
        messages += load_messages(turn.said)
        if told := _feedback_content(turn):
            messages.append({"role": "user", "content": told})
            last = told
    if tools:
        last[-1].setdefault("cache_control", _cache_mark("5m"))
    return Conversation(tools, texts[:stable], messages)


def output_config(request: Request, effort: Effort | None, *, constrained: bool = True) -> OutputConfigParam:
    """Return the output options: the answer's schema if `constrained`, and the effort if given."""
    import anthropic

    found: OutputConfigParam = {"effort": effort} if effort else {}
    if constrained:
        found["format"] = {
            "type": "json_schema",
            "schema": anthropic.transform_schema(dict(close_schema(parsing.answer_schema(request), maps=False))),
        }
    return found


def _cache_mark(ttl: CacheTtl) -> CacheControlEphemeralParam:
    return {"type": "ephemeral", "ttl": ttl}


def _feedback_content(turn: Turn) -> UserContent:
    """Return what the model was told in a turn; tool results come first, as the API requires."""
    told: UserContent = []
    for result in turn.results:
        said: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": result.id, "content": result.text}
        told.append({**said, "is_error": True} if result.failed else said)
    if turn.refused:
        told.append({"type": "text", "text": parsing.refusal_text(turn.refused)})
    return told


# ---------------------------------------------------------------- what comes back


def load_messages(said: str) -> list[MessageParam]:
    """Return the messages that the text `said` of a turn holds."""
    return cast("list[MessageParam]", json.loads(said)) if said else []


def dump_messages(messages: Sequence[MessageParam]) -> str:
    """Return `messages`, of which the last is the model's, as the text `said` of a reply."""
    return json.dumps(messages, ensure_ascii=False)


def assistant_messages(message: Message, *, broken: bool = False) -> list[MessageParam]:
    """Return the model's content exactly as received, including thinking, as a message to send back; empty if there is
    no content.

    `broken`: the message was cut off, so only its text is returned: the API refuses an incomplete call or thinking
    alone.
    """
    blocks = [block.to_dict(mode="json") for block in message.content]
    blocks = [block for block in blocks if block["type"] != "text" or str(block["text"]).strip()]
    if broken:
        blocks = [block for block in blocks if block["type"] == "text"]
    return cast("list[MessageParam]", [{"role": "assistant", "content": blocks}]) if blocks else []


def message_text(message: Message) -> str:
    """Return the text of a message, without thinking and calls."""
    return "".join(block.text for block in message.content if block.type == "text")


def tool_calls(message: Message) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message."""
    return tuple(
        ToolCall(id=block.id, name=block.name, arguments=cast("dict[str, JsonValue]", block.input))
        for block in message.content
        if block.type == "tool_use"
    )


@dataclass
class UsageMeter:
    """Sums the usage of all answers of one exchange, including those that broke off."""

    total: Usage

    def add_message(self, message: Message | None, seconds: float) -> None:
        """Add an answer by the API's own count. Some servers with the same protocol count less, or nothing."""
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
            # The final count comes at the end of a stream; before, it covers the first token only.
            tokens["output"] = max(tokens["output"], len(message_text(message)) // CHARACTERS_PER_TOKEN)
        self.total = self.total.combined_with(Usage.model_validate({**tokens, "seconds": seconds}))
