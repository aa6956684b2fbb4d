"""A streamed chat completion put together: the message as it would stand in a conversation, why it ended, and what
it took."""

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

THOUGHTS = ("reasoning_content", "reasoning")
"""Where servers put a model's thoughts; some want them back with the results of the tools."""


class Call(BaseModel):
    """A tool call of a message."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    arguments: str = "{}"
    """JSON, always an object: what cannot be read is not sent back, since servers read a conversation's calls again."""
    fault: str = ""
    """Why what was written for arguments cannot be read."""

    @property
    def read(self) -> dict[str, JsonValue]:
        """The arguments."""
        found: dict[str, JsonValue] = json.loads(self.arguments)
        return found


class Message(BaseModel):
    """What the model said."""

    model_config = ConfigDict(frozen=True)

    content: str = ""
    refusal: str = ""
    thoughts: dict[str, str] = {}
    """By the server's own name for them; kept only beside tool calls."""
    tool_calls: tuple[Call, ...] = ()

    def kept(self) -> str:
        """As a turn keeps it."""
        return self.model_dump_json(exclude_defaults=True)

    def wire(self) -> dict[str, JsonValue]:
        """As it stands in a request."""
        found: dict[str, JsonValue] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            calls: list[JsonValue] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
            found |= {"content": self.content or None, "tool_calls": calls, **self.thoughts}
        return found


class Streamed(NamedTuple):
    """A call's outcome. `finish` is the server's own word; empty: the stream ended before the answer did."""

    message: Message
    finish: str


@dataclass
class _PartialCall:
    """A tool call as far as it has come in."""

    index: int | None
    id: str
    name: str = ""
    arguments: str = ""


class StreamAccumulator:
    """A stream as far as it has come. The SDK's own accumulator needs an index with every piece of a call, which not
    all servers give."""

    def __init__(self) -> None:
        self.content, self.refusal, self.finish = "", "", ""
        self.thoughts: dict[str, str] = {}
        self.usage: Usage | None = None
        self._calls: list[_PartialCall] = []

    def add(self, chunk: ChatCompletionChunk) -> None:
        """Take one chunk in."""
        if chunk.usage:
            self.usage = counted(chunk.usage)
        for choice in (chunk.choices or ())[:1]:
            self.finish = choice.finish_reason or self.finish
            if delta := choice.delta:
                self.content += delta.content or ""
                self.refusal += delta.refusal or ""
                for piece in delta.tool_calls or ():
                    self._add_call(piece)
                extra = delta.model_extra or {}
                for name in THOUGHTS:
                    if isinstance(extra.get(name), str):
                        self.thoughts[name] = self.thoughts.get(name, "") + extra[name]

    def _add_call(self, piece: ChoiceDeltaToolCall) -> None:
        """Some servers give no index, or the same for all: a new id begins a new call, too."""
        call = next((one for one in reversed(self._calls) if one.index == piece.index), None)
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = _PartialCall(piece.index, piece.id or f"call_{len(self._calls)}")
            self._calls.append(call)
        if piece.function:
            call.name += piece.function.name or ""
            call.arguments += piece.function.arguments or ""

    def took(self, sent: int) -> Usage:
        """By the server's count, or, where it tells none, by characters; `sent`: those of the prompt."""
        texts = [
            self.content,
            self.refusal,
            *self.thoughts.values(),
            *(call.name + call.arguments for call in self._calls),
        ]
        written = sum(map(len, texts))
        return self.usage or Usage(input=sent // CHARACTERS_PER_TOKEN, output=written // CHARACTERS_PER_TOKEN)

    def done(self) -> Streamed:
        """The whole message."""
        calls = tuple(_call(one.id, one.name, one.arguments) for one in self._calls)
        message = Message(
            content=self.content, refusal=self.refusal, thoughts=self.thoughts if calls else {}, tool_calls=calls
        )
        return Streamed(message, self.finish)


def counted(usage: CompletionUsage) -> Usage:
    """prompt_tokens holds those read from a cache and written to one; input does not."""
    details, more = usage.prompt_tokens_details, usage.model_extra or {}
    read = (details.cached_tokens if details else None) or more.get("prompt_cache_hit_tokens") or 0
    written = (details.cache_write_tokens if details else None) or 0
    return Usage(
        input=max(0, (usage.prompt_tokens or 0) - read - written),
        cache_read=read,
        cache_write=written,
        output=usage.completion_tokens or 0,
    )


def _call(identity: str, name: str, written: str) -> Call:
    try:
        arguments = json.loads(written) if written.strip() else {}
    except ValueError as error:
        return Call(
            id=identity, name=name, fault=f"the arguments of {name} are no JSON ({error}); write one JSON object"
        )
    if not isinstance(arguments, dict):
        return Call(
            id=identity,
            name=name,
            fault=f"the arguments of {name} must be one JSON object, not {type(arguments).__name__}",
        )
    return Call(id=identity, name=name, arguments=json.dumps(arguments))
