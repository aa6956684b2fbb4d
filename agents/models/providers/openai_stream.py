"""Assembles a streamed chat completion: the message for the conversation, why it ended, and its usage."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue

from agents.models.base import CHARACTERS_PER_TOKEN, Usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
    from openai.types.completion_usage import CompletionUsage

THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which servers send a model's thoughts; some want them back with the tool results."""


class StreamedCall(BaseModel):
    """A complete tool call of a message."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    arguments: str = "{}"
    """A JSON object as text. Unreadable arguments are replaced by an empty object, since servers parse a conversation's
    calls again."""
    fault: str = ""
    """Why the arguments that the model wrote cannot be read; empty if they can."""

    @property
    def parsed_arguments(self) -> dict[str, JsonValue]:
        """The arguments as a dictionary."""
        found: dict[str, JsonValue] = json.loads(self.arguments)
        return found


class StreamedMessage(BaseModel):
    """A whole message of the model."""

    model_config = ConfigDict(frozen=True)

    content: str = ""
    refusal: str = ""
    thoughts: dict[str, str] = {}
    """The server's field name -> text; kept only together with tool calls."""
    tool_calls: tuple[StreamedCall, ...] = ()

    def as_turn_text(self) -> str:
        """Return the message as the text `said` of a turn."""
        return self.model_dump_json(exclude_defaults=True)

    def as_request_message(self) -> dict[str, JsonValue]:
        """Return the message as a later request contains it."""
        found: dict[str, JsonValue] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            calls: list[JsonValue] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
            found |= {"content": self.content or None, "tool_calls": calls, **self.thoughts}
        return found


class StreamedAnswer(NamedTuple):
    """A message and the server's finish reason, which is empty if the stream ended before the answer did."""

    message: StreamedMessage
    finish_reason: str


@dataclass
class _PartialCall:
    """A tool call of which more pieces may arrive."""

    index: int | None
    id: str
    name: str = ""
    arguments: str = ""


class StreamAccumulator:
    """Collects the chunks of a stream. The SDK's own accumulator needs an index with every piece of a call, which some
    servers do not send."""

    def __init__(self) -> None:
        self.content, self.refusal, self.finish_reason = "", "", ""
        self.thoughts: dict[str, str] = {}
        self.usage: Usage | None = None
        self._calls: list[_PartialCall] = []

    def add_chunk(self, chunk: ChatCompletionChunk) -> None:
        """Add one chunk of the stream."""
        if chunk.usage:
            self.usage = usage_of(chunk.usage)
        for choice in (chunk.choices or ())[:1]:
            self.finish_reason = choice.finish_reason or self.finish_reason
            if delta := choice.delta:
                self.content += delta.content or ""
                self.refusal += delta.refusal or ""
                for piece in delta.tool_calls or ():
                    self._add_call(piece)
                extra = delta.model_extra or {}
                for name in THOUGHT_FIELDS:
                    if isinstance(extra.get(name), str):
                        self.thoughts[name] = self.thoughts.get(name, "") + extra[name]

    def _add_call(self, piece: ChoiceDeltaToolCall) -> None:
        """Add a piece of a tool call. A new id also begins a new call, since some servers send no or equal indices."""
        call = next((one for one in reversed(self._calls) if one.index == piece.index), None)
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = _PartialCall(piece.index, piece.id or f"call_{len(self._calls)}")
            self._calls.append(call)
        if piece.function:
            call.name += piece.function.name or ""
            call.arguments += piece.function.arguments or ""

    def usage_or_estimate(self, sent: int) -> Usage:
        """Return the usage by the server's count, else estimated from characters; `sent`: characters of the prompt."""
        texts = [
            self.content,
            self.refusal,
            *self.thoughts.values(),
            *(call.name + call.arguments for call in self._calls),
        ]
        written = sum(map(len, texts))
        return self.usage or Usage(input=sent // CHARACTERS_PER_TOKEN, output=written // CHARACTERS_PER_TOKEN)

    def finished_answer(self) -> StreamedAnswer:
        """Return the collected message and its finish reason."""
        calls = tuple(_check_call(one.id, one.name, one.arguments) for one in self._calls)
        message = StreamedMessage(
            content=self.content, refusal=self.refusal, thoughts=self.thoughts if calls else {}, tool_calls=calls
        )
        return StreamedAnswer(message, self.finish_reason)


def usage_of(usage: CompletionUsage) -> Usage:
    """Return the server's token count. `prompt_tokens` includes cached tokens, `Usage.input` does not."""
    details, more = usage.prompt_tokens_details, usage.model_extra or {}
    read = (details.cached_tokens if details else None) or more.get("prompt_cache_hit_tokens") or 0
    written = (details.cache_write_tokens if details else None) or 0
    return Usage(
        input=max(0, (usage.prompt_tokens or 0) - read - written),
        cache_read=read,
        cache_write=written,
        output=usage.completion_tokens or 0,
    )


def _check_call(identity: str, name: str, written: str) -> StreamedCall:
    try:
        arguments = json.loads(written) if written.strip() else {}
    except ValueError as error:
        return StreamedCall(
            id=identity, name=name, fault=f"the arguments of {name} are not JSON ({error}); write one JSON object"
        )
    if not isinstance(arguments, dict):
        return StreamedCall(
            id=identity,
            name=name,
            fault=f"the arguments of {name} must be one JSON object, not {type(arguments).__name__}",
        )
    return StreamedCall(id=identity, name=name, arguments=json.dumps(arguments))
