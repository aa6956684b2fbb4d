"""Any server that speaks chat completions: vLLM, SGLang, llama.cpp, Ollama, hosted services. Through the official
`openai` SDK.

Servers differ in what they take. What one refuses (a response format, tools, the newer or older name of max_tokens,
usage in a stream) is left out from then on and replaced by words in the prompt; that memory lasts as long as the
process.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from agents.models import options as given
from agents.models.answers import parsing
from agents.models.answers.json_schema import wire
from agents.models.base import CHARACTERS_PER_TOKEN, Called, Model, Reply, Request, ToolCall, Turn, Unfit, Usage
from agents.models.providers.openai_client import Options, open_client
from agents.models.providers.openai_stream import Message, StreamAccumulator, Streamed
from agents.models.providers.server_failures import FILTERED, TOO_LONG
from agents.models.time_limits import deadline, retries, silence, time_is_up, until
from tools.errors import KernelwrightError, ProviderError, RefusalError

if TYPE_CHECKING:
    from openai import APIStatusError

CONTINUATIONS = 2
"""Times that an answer which ran into max_tokens is asked to go on."""
BROKEN = 1
"""Times in an exchange that a stream which broke off in the middle is asked for again; before its first byte,
max_retries counts."""
UNDERSTANDS_NOT = (400, 404, 422, 500, 501)
"""Statuses with which servers answer to a parameter that they do not know."""
WORDS = {
    "tools": re.compile(r"\btools?\b|tool[_ -]?choice|function call", re.I),
    "usage": re.compile(r"stream_options|include_usage", re.I),
    "structured": re.compile(r"response_format|schema|grammar|guided|structured", re.I),
    "newer_limit": re.compile(r"max_completion_tokens", re.I),
}
"""How a server's refusal names what it does not take."""


@dataclass
class ServerSupport:
    """What this server takes, as far as has been found out."""

    structured: bool = True
    tools: bool = True
    usage: bool = True
    newer_limit: bool = False
    """It wants the limit as max_completion_tokens."""
    left_out: list[str] = field(default_factory=list)


@dataclass
class Meter:
    """What one exchange has taken so far, in all its calls."""

    total: Usage
    broken: int = 0
    """Streams that broke off."""


class OpenAICompatible(Model):
    """A model behind chat completions; `options` as in Options."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.settings = given.read("openai_compatible", Options, options)
        self.opened = open_client(self.settings)
        # A server that is found to take no tools is asked without them. What is asked stays the same for all that: else
        # a resumed run, which has yet to find out, would not know its own questions again, and pay for the answers once
        # more.
        self.calls_tools = self.settings.tools == "auto"
        self._support = ServerSupport()

    def ask(self, request: Request) -> Reply:
        """One exchange, of several calls where the answer is long or the server must first be understood.

        ProviderError and its kinds when there is no server, it fails, refuses or has no room; SettingsError when it
        does not know the key, the model or the address.
        """
        meter = Meter(Usage(model=self.settings.model))
        try:
            return self._asked(request, meter)
        except KernelwrightError as error:
            if meter.total.seconds:
                error.usage = meter.total.model_dump()
            raise

    def _asked(self, request: Request, meter: Meter) -> Reply:
        done = self._exchange(self._messages(request), request, meter)
        text = done.message.content
        for _ in range(CONTINUATIONS):
            if done.finish != "length" or done.message.tool_calls or not done.message.content.strip():
                break
            messages: list[dict[str, JsonValue]] = [
                *self._messages(request),
                {"role": "assistant", "content": text},
                _user(parsing.go_on()),
            ]
            done = self._exchange(messages, request, meter, more=True)
            text = parsing.joined(text, done.message.content)
        usage, said = meter.total, done.message.model_copy(update={"content": text})
        if said.refusal or done.finish == "content_filter":
            why = self.opened.shown(said.refusal) or "its content filter stopped it"
            raise RefusalError(f"models.{request.role}: {self.settings.model} declined to answer: {why}")
        if said.tool_calls:
            return Called(calls=tuple(_call(one) for one in said.tool_calls), said=said.kept(), usage=usage)
        if done.finish == "length":
            return Unfit(faults=(self._too_long(text, request.role),), said=said.kept(), usage=usage)
        if not text.strip():
            return Unfit(faults=("the answer is empty; write it out",), said=said.kept(), usage=usage)
        return parsing.read(text, request, said=said.kept(), usage=usage)

    def bound(self, request: Request) -> Usage:
        """By characters: the prompt once for each call that an answer may take, and as many times max_tokens."""
        calls = 1 + CONTINUATIONS + BROKEN
        prompt = len(json.dumps(self._messages(request))) + len(json.dumps(self._body(request)))
        output = self.settings.max_tokens
        # What was written so far is read again by each continuation.
        read = calls * (prompt // CHARACTERS_PER_TOKEN + 1) + output * sum(range(calls))
        return Usage(model=self.settings.model, input=read, output=calls * output)

    def _too_long(self, text: str, role: str) -> str:
        limit, option = self.settings.max_tokens, f"models.{role}.max_tokens"
        if not text.strip():
            return (
                f"all {limit} tokens went before an answer began; think less (or raise {option}, or lower "
                f"models.{role}.effort)"
            )
        return (
            f"the answer did not end within {1 + CONTINUATIONS} times {limit} tokens; give a shorter one (or raise "
            f"{option})"
        )

    # ------------------------------------------------------------ the request

    def _tools(self, request: Request) -> bool:
        """Whether the server is offered any."""
        return bool(request.tools) and self.calls_tools and self._support.tools

    def _form(self, request: Request) -> Literal["json_schema", "json_object", "none"]:
        """What is asked of the server for this answer. With tools offered nothing is: several servers could then
        call none."""
        wanted = self.settings.structured
        if not self._support.structured or self._tools(request):
            return "none"
        if wanted == "auto":
            return "none" if parsing.as_code(request.answer) else "json_schema"
        return wanted

    def _messages(self, request: Request) -> list[dict[str, JsonValue]]:
        """System (stable), user (run, iteration): one message each, since many chat templates allow no two of a role
        in a row."""
        # Local servers show a model nothing of the schema that they hold it to, so that it stands in the prompt in any
        # case.
        prompt = parsing.explained(request, self._form(request) != "none")
        system = "\n\n".join(block.text for block in prompt if block.scope == "stable")
        asked = "\n\n".join(block.text for block in prompt if block.scope != "stable")
        messages: list[dict[str, JsonValue]] = [{"role": "system", "content": system}, _user(asked)]
        for turn in request.turns:
            messages.extend(_told(turn))
        return messages

    def _body(self, request: Request, more: bool = False) -> dict[str, Any]:
        """All of the request but its messages. `more`: an answer that was cut off goes on, which fits no form."""
        settings, support = self.settings, self._support
        body: dict[str, Any] = {"max_completion_tokens" if support.newer_limit else "max_tokens": settings.max_tokens}
        if support.usage:
            body["stream_options"] = {"include_usage": True}
        if settings.effort:
            body["reasoning_effort"] = settings.effort
        if self._tools(request):
            body["tools"] = [{"type": "function", "function": tool.model_dump()} for tool in request.tools]
        form = "none" if more else self._form(request)
        if form == "json_object":
            body["response_format"] = {"type": form}
        elif form == "json_schema":
            # Strict mode knows no free-form maps, and what comes back is checked here in any case.
            asked = {"name": request.answer, "schema": wire(parsing.schema(request), maps=True), "strict": False}
            body["response_format"] = {"type": form, "json_schema": asked}
        return body

    # ------------------------------------------------------------ the call

    def _exchange(
        self, messages: list[dict[str, JsonValue]], request: Request, meter: Meter, more: bool = False
    ) -> Streamed:
        """One call that succeeded; what the server does not take is left out first."""
        import openai

        for _ in range(len(WORDS) + 2):
            body = self._body(request, more)
            try:
                return self._stream(messages, body, request, meter)
            except openai.APIStatusError as error:
                self._give_way(error, body, request.role)
                messages[:2] = self._messages(request)[:2]
        left_out = ", ".join(self._support.left_out)
        raise ProviderError(
            f"models.{request.role}: {self.opened.where} refused every form of the request, left out were {left_out}"
        )

    def _give_way(self, error: APIStatusError, body: dict[str, Any], role: str) -> None:
        """Leave out what `error` is about; raises what it means where nothing is left to leave out."""
        said, support = self.opened.message(error), self._support
        if error.status_code not in UNDERSTANDS_NOT or FILTERED.search(said) or TOO_LONG.search(said):
            raise self.opened.failure(error, role) from error
        if WORDS["newer_limit"].search(said) and "max_tokens" in body:
            support.newer_limit = True
        elif WORDS["usage"].search(said) and "stream_options" in body:
            support.usage = False
            support.left_out.append("stream_options")
        elif WORDS["tools"].search(said) and "tools" in body:
            support.tools = False
            support.left_out.append("tools")
        elif "response_format" in body and (error.status_code in (400, 422, 501) or WORDS["structured"].search(said)):
            support.structured = False
            support.left_out.append("response_format")
        else:
            raise self.opened.failure(error, role) from error

    def _stream(
        self, messages: list[dict[str, JsonValue]], body: dict[str, Any], request: Request, meter: Meter
    ) -> Streamed:
        """One answer; a stream that breaks off is paid for and asked for again."""
        while True:
            accumulated = StreamAccumulator()
            broke = self._read(messages, body, request, meter, accumulated)
            if not broke and accumulated.finish:
                return accumulated.done()
            meter.broken += 1
            if meter.broken > BROKEN:
                why = broke or "it ended before the answer did"
                times = f"which broke off {meter.broken} times in this exchange"
                raise ProviderError(
                    f"models.{request.role}: the stream from {self.opened.where}, {times}, cannot be used: {why}"
                )

    def _read(
        self,
        messages: list[dict[str, JsonValue]],
        body: dict[str, Any],
        request: Request,
        meter: Meter,
        accumulated: StreamAccumulator,
    ) -> str | None:
        """Take one stream in, and on the meter; why it broke off, if it did. Raises where none began."""
        import openai

        settings, role, began, started = self.settings, request.role, time.monotonic(), False
        client = self.opened.client.with_options(max_retries=retries(request, settings.max_retries))
        create: Any = client.chat.completions.create
        call = {"model": settings.model, "messages": messages, "extra_body": settings.extra or None, **body}
        timeout = silence(request.at_most(settings.timeout_s))
        try:
            with deadline(request), create(stream=True, timeout=timeout, **call) as chunks:
                started = True
                until(chunks.response, time.monotonic() + request.at_most(settings.answer_s))
                for chunk in chunks:
                    accumulated.add(chunk)
        except openai.APIStatusError:
            raise
        except (openai.APITimeoutError, TimeoutError) as error:
            if request.left_s <= 0:
                raise time_is_up(request) from error
            raise (
                self.opened.silent(role) if isinstance(error, openai.APITimeoutError) else self.opened.slow(role)
            ) from error
        except openai.APIConnectionError as error:
            if not started:
                raise self.opened.absent(role) from error
            return self.opened.shown(str(error.__cause__ or error))
        except openai.APIError as error:
            return self.opened.shown(error.message)
        except ValueError:
            return "it holds what is no JSON"
        finally:
            if started:
                took = accumulated.took(len(json.dumps(messages)))
                meter.total = meter.total.plus(took.model_copy(update={"seconds": time.monotonic() - began}))
        return None


def _user(text: str) -> dict[str, JsonValue]:
    return {"role": "user", "content": text}


def _told(turn: Turn) -> Iterator[dict[str, JsonValue]]:
    """A turn as messages: what the model said, then what it was told. Every call is given a result, as the format
    demands."""
    said = Message.model_validate_json(turn.said)
    yield said.wire()
    results = {result.id: result for result in turn.results}
    for call in said.tool_calls:
        result = results.get(call.id)
        failed = result is None or result.failed
        text = result.text if result else "; ".join(turn.refused)
        yield {"role": "tool", "tool_call_id": call.id, "content": f"failed: {text}" if failed else text}
    if turn.refused:
        yield _user("\n".join(turn.refused) if said.tool_calls else parsing.told(turn.refused))


def _call(one: Any) -> ToolCall:
    return ToolCall(id=one.id, name=one.name, arguments=one.read, fault=one.fault)
