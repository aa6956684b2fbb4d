"""A streamed chat completion put together: the message as it would stand in a conversation, why it ended, and what it took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue

from agents.models.base import CHARACTERS_PER_TOKEN, Usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
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
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in self.tool_calls
            ]
            found |= {"content": self.content or None, "tool_calls": calls, **self.thoughts}
        return found


class Streamed(NamedTuple):
    """A call's outcome. `finish` is the server's own word; empty: the stream ended before the answer did."""

    message: Message
    finish: str


class _Building:
    """Calls as their pieces come in. Some servers give no index, or the same for all: a new id begins a new call, too."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.index: list[int | None] = []

    def add(self, piece: ChoiceDeltaToolCall) -> None:
        """Take one piece in."""
        position = next((i for i in reversed(range(len(self.index))) if self.index[i] == piece.index), None)
        if position is None or (piece.id and self.calls[position][0] and piece.id != self.calls[position][0]):
            self.calls.append([piece.id or f"call_{len(self.calls)}", "", ""])
            self.index.append(piece.index)
            position = len(self.calls) - 1
        call = self.calls[position]
        if piece.function:
            call[1] += piece.function.name or ""
            call[2] += piece.function.arguments or ""

    @property
    def size(self) -> int:
        """Characters of all of them."""
        return sum(len(name) + len(written) for _, name, written in self.calls)

    def done(self) -> tuple[Call, ...]:
        """All of them, arguments read."""
        return tuple(_call(*call) for call in self.calls)


class Gathering:
    """A stream as far as it has come."""

    def __init__(self) -> None:
        self.content, self.refusal, self.finish = "", "", ""
        self.thoughts: dict[str, str] = {}
        self.usage: Usage | None = None
        self._building = _Building()

    def add(self, chunk: ChatCompletionChunk) -> None:
        """Take one chunk in."""
        if chunk.usage:
            self.usage = counted(chunk.usage)
        for choice in (chunk.choices or ())[:1]:
            delta = choice.delta
            self.content += (delta.content or "") if delta else ""
            self.refusal += (delta.refusal or "") if delta else ""
            for piece in (delta.tool_calls if delta else None) or ():
                self._building.add(piece)
            for name, text in _thoughts(delta):
                self.thoughts[name] = self.thoughts.get(name, "") + text
            self.finish = choice.finish_reason or self.finish

    def took(self, sent: int) -> Usage:
        """By the server's count, or, where it tells none, by characters; `sent`: those of the prompt."""
        written = len(self.content) + len(self.refusal) + sum(map(len, self.thoughts.values())) + self._building.size
        return self.usage or Usage(input=sent // CHARACTERS_PER_TOKEN, output=written // CHARACTERS_PER_TOKEN)

    def done(self) -> Streamed:
        """The whole message."""
        calls = self._building.done()
        message = Message(content=self.content, refusal=self.refusal, thoughts=self.thoughts if calls else {}, tool_calls=calls)
        return Streamed(message, self.finish)


def counted(usage: CompletionUsage) -> Usage:
    """prompt_tokens holds those read from a cache and written to one; input does not."""
    details, more = usage.prompt_tokens_details, usage.model_extra or {}
    read = (details.cached_tokens if details else None) or more.get("prompt_cache_hit_tokens") or 0
    written = (details.cache_write_tokens if details else None) or 0
    return Usage(
        input=max(0, (usage.prompt_tokens or 0) - read - written), cache_read=read, cache_write=written, output=usage.completion_tokens or 0
    )


def _thoughts(delta: ChoiceDelta | None) -> Iterable[tuple[str, str]]:
    extra = (delta.model_extra or {}) if delta else {}
    return [(name, extra[name]) for name in THOUGHTS if isinstance(extra.get(name), str)]


def _call(identity: str, name: str, written: str) -> Call:
    try:
        arguments = json.loads(written) if written.strip() else {}
    except ValueError as error:
        return Call(id=identity, name=name, fault=f"the arguments of {name} are no JSON ({error}); write one JSON object")
    if not isinstance(arguments, dict):
        return Call(id=identity, name=name, fault=f"the arguments of {name} must be one JSON object, not {type(arguments).__name__}")
    return Call(id=identity, name=name, arguments=json.dumps(arguments))
