"""The provider `openai_compatible`: any server for chat completions (vLLM, SGLang, llama.cpp, Ollama, hosted services),
through the official `openai` SDK.

Servers support different parameters. A parameter that one refuses (a response format, tools, the newer or older name of
max_tokens, usage in a stream) is left out for the rest of the process, and the prompt says it in words instead.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from agents.models import options as provider_options
from agents.models.answers import parsing
from agents.models.answers.json_schema import close_schema
from agents.models.base import (
    CHARACTERS_PER_TOKEN,
    Model,
    Reply,
    Request,
    ToolCall,
    ToolCallReply,
    Turn,
    UnfitReply,
    Usage,
)
from agents.models.providers.openai_client import OpenAIOptions, open_openai_client
from agents.models.providers.openai_stream import StreamAccumulator, StreamedAnswer, StreamedMessage
from agents.models.providers.server_failures import CONTENT_FILTER_PATTERN, CONTEXT_FULL_PATTERN
from agents.models.time_limits import (
    affordable_retries,
    hold_to_deadline,
    limit_stream,
    silence_timeout,
    time_is_up_error,
)
from tools.errors import KernelwrightError, ProviderError, RefusalError

if TYPE_CHECKING:
    from openai import APIStatusError

MAX_CONTINUATIONS = 2
"""How often an answer that reached max_tokens is continued."""
MAX_BROKEN_STREAMS = 1
"""How often in an exchange a stream that broke off is requested again; before the first byte, max_retries applies."""
UNSUPPORTED_STATUSES = (400, 404, 422, 500, 501)
"""Statuses with which servers refuse an unknown parameter."""
REFUSAL_PATTERNS = {
    "tools": re.compile(r"\btools?\b|tool[_ -]?choice|function call", re.I),
    "usage": re.compile(r"stream_options|include_usage", re.I),
    "structured": re.compile(r"response_format|schema|grammar|guided|structured", re.I),
    "newer_limit": re.compile(r"max_completion_tokens", re.I),
}
"""Parameter -> pattern of a server's message that refuses it."""


@dataclass
class ServerSupport:
    """Parameters that this server supports, as far as is known."""

    structured: bool = True
    tools: bool = True
    usage: bool = True
    wants_max_completion_tokens: bool = False
    """Whether the limit must be named max_completion_tokens."""
    left_out_parameters: list[str] = field(default_factory=list)


@dataclass
class ExchangeMeter:
    """Sums the usage of all calls of one exchange."""

    total: Usage
    broken_streams: int = 0
    """Number of streams that broke off."""


class OpenAICompatible(Model):
    """A model on a server for chat completions; `options` as in OpenAIOptions."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.settings = provider_options.read_options("openai_compatible", OpenAIOptions, options)
        self.client = open_openai_client(self.settings)
        # A server without tool support is asked without tools, but `Request` stays the same: otherwise a resumed run,
        # which does not know yet that tools are unsupported, would not recognise its own questions and pay again.
        self.calls_tools = self.settings.tools == "auto"
        self._support = ServerSupport()

    def ask(self, request: Request) -> Reply:
        """Perform one exchange, with several calls if the answer is long or the server refuses a parameter.

        ProviderError and its subclasses when the server is missing, fails, refuses or is overloaded; SettingsError for
        an unknown key, model or address.
        """
        meter = ExchangeMeter(Usage(model=self.settings.model))
        try:
            return self._ask_until_complete(request, meter)
        except KernelwrightError as error:
            if meter.total.seconds:
                error.usage = meter.total.model_dump()
            raise

    def require_access(self, entry: str) -> None:
        self.client.require_access(entry)

    def _ask_until_complete(self, request: Request, meter: ExchangeMeter) -> Reply:
        done = self._exchange(self._messages(request), request, meter)
        text = done.message.content
        for _ in range(MAX_CONTINUATIONS):
            if done.finish_reason != "length" or done.message.tool_calls or not done.message.content.strip():
                break
            messages: list[dict[str, JsonValue]] = [
                *self._messages(request),
                {"role": "assistant", "content": text},
                _user_message(parsing.continuation_text()),
            ]
            done = self._exchange(messages, request, meter, more=True)
            text = parsing.join_continuation(text, done.message.content)
        usage, said = meter.total, done.message.model_copy(update={"content": text})
        if said.refusal or done.finish_reason == "content_filter":
            why = self.client.shorten(said.refusal) or "its content filter stopped it"
            raise RefusalError(f"models.{request.role}: {self.settings.model} declined to answer: {why}")
        if said.tool_calls:
            return ToolCallReply(
                calls=tuple(_tool_call(one) for one in said.tool_calls), said=said.as_turn_text(), usage=usage
            )
        if done.finish_reason == "length":
            return UnfitReply(faults=(self._too_long_fault(text, request.role),), said=said.as_turn_text(), usage=usage)
        if not text.strip():
            return UnfitReply(faults=("the answer is empty; write it in full",), said=said.as_turn_text(), usage=usage)
        return parsing.parse_answer(text, request, said=said.as_turn_text(), usage=usage)

    def usage_bound(self, request: Request) -> Usage:
        """Estimate from characters: the prompt and max_tokens, once for each call that an answer may take."""
        calls = 1 + MAX_CONTINUATIONS + MAX_BROKEN_STREAMS
        prompt = len(json.dumps(self._messages(request))) + len(json.dumps(self._body(request)))
        output = self.settings.max_tokens
        # Each continuation reads the text written so far again.
        read = calls * (prompt // CHARACTERS_PER_TOKEN + 1) + output * sum(range(calls))
        return Usage(model=self.settings.model, input=read, output=calls * output)

    def _too_long_fault(self, text: str, role: str) -> str:
        limit, option = self.settings.max_tokens, f"models.{role}.max_tokens"
        if not text.strip():
            return (
                f"all {limit} tokens were used before an answer began; think less (or raise {option}, or lower "
                f"models.{role}.effort)"
            )
        return (
            f"the answer did not end within {1 + MAX_CONTINUATIONS} times {limit} tokens; give a shorter one (or raise "
            f"{option})"
        )

    # ------------------------------------------------------------ the request

    def _offers_tools(self, request: Request) -> bool:
        """Return whether the request offers tools to the server."""
        return bool(request.tools) and self.calls_tools and self._support.tools

    def _response_form(self, request: Request) -> Literal["json_schema", "json_object", "none"]:
        """Return the response format of this answer; none if tools are offered, since several servers could then call
        no tool."""
        wanted = self.settings.structured
        if not self._support.structured or self._offers_tools(request):
            return "none"
        if wanted == "auto":
            return "none" if parsing.is_written_as_code(request.answer) else "json_schema"
        return wanted

    def _messages(self, request: Request) -> list[dict[str, JsonValue]]:
        """Return stable blocks as one system message and all others as one user message, since many chat templates
        allow no two messages of a role in a row; the turns follow."""
        # Local servers do not show the model the schema that they enforce, so the prompt contains it in any case.
        prompt = parsing.add_answer_instructions(request, self._response_form(request) != "none")
        system = "\n\n".join(block.text for block in prompt if block.scope == "stable")
        asked = "\n\n".join(block.text for block in prompt if block.scope != "stable")
        messages: list[dict[str, JsonValue]] = [{"role": "system", "content": system}, _user_message(asked)]
        for turn in request.turns:
            messages.extend(_turn_messages(turn))
        return messages

    def _body(self, request: Request, more: bool = False) -> dict[str, Any]:
        """Return the request's body without its messages. `more`: the call continues an answer, which fits no
        format."""
        settings, support = self.settings, self._support
        body: dict[str, Any] = {
            "max_completion_tokens" if support.wants_max_completion_tokens else "max_tokens": settings.max_tokens
        }
        if support.usage:
            body["stream_options"] = {"include_usage": True}
        if settings.effort:
            body["reasoning_effort"] = settings.effort
        if self._offers_tools(request):
            body["tools"] = [{"type": "function", "function": tool.model_dump()} for tool in request.tools]
        form = "none" if more else self._response_form(request)
        if form == "json_object":
            body["response_format"] = {"type": form}
        elif form == "json_schema":
            # Strict mode supports no free-form maps, and the answer is checked here in any case.
            asked = {
                "name": request.answer,
                "schema": close_schema(parsing.answer_schema(request), maps=True),
                "strict": False,
            }
            body["response_format"] = {"type": form, "json_schema": asked}
        return body

    # ------------------------------------------------------------ the call

    def _exchange(
        self, messages: list[dict[str, JsonValue]], request: Request, meter: ExchangeMeter, more: bool = False
    ) -> StreamedAnswer:
        """Return the answer of one successful call; parameters that the server refuses are left out first."""
        import openai

        for _ in range(len(REFUSAL_PATTERNS) + 2):
            body = self._body(request, more)
            try:
                return self._stream(messages, body, request, meter)
            except openai.APIStatusError as error:
                self._leave_out_unsupported(error, body, request.role)
                messages[:2] = self._messages(request)[:2]
        left_out = ", ".join(self._support.left_out_parameters)
        raise ProviderError(
            f"models.{request.role}: {self.client.model_and_address} refused every form of the request, even without "
            f"{left_out}"
        )

    def _leave_out_unsupported(self, error: APIStatusError, body: dict[str, Any], role: str) -> None:
        """Leave out the parameter that `error` refuses; raise the translated error if there is none to leave out."""
        said, support = self.client.error_message(error), self._support
        if (
            error.status_code not in UNSUPPORTED_STATUSES
            or CONTENT_FILTER_PATTERN.search(said)
            or CONTEXT_FULL_PATTERN.search(said)
        ):
            raise self.client.translate_error(error, role) from error
        if REFUSAL_PATTERNS["newer_limit"].search(said) and "max_tokens" in body:
            support.wants_max_completion_tokens = True
        elif REFUSAL_PATTERNS["usage"].search(said) and "stream_options" in body:
            support.usage = False
            support.left_out_parameters.append("stream_options")
        elif REFUSAL_PATTERNS["tools"].search(said) and "tools" in body:
            support.tools = False
            support.left_out_parameters.append("tools")
        elif "response_format" in body and (
            error.status_code in (400, 422, 501) or REFUSAL_PATTERNS["structured"].search(said)
        ):
            support.structured = False
            support.left_out_parameters.append("response_format")
        else:
            raise self.client.translate_error(error, role) from error

    def _stream(
        self, messages: list[dict[str, JsonValue]], body: dict[str, Any], request: Request, meter: ExchangeMeter
    ) -> StreamedAnswer:
        """Return one streamed answer; a stream that breaks off is counted and requested again."""
        while True:
            accumulated = StreamAccumulator()
            broke = self._read_stream(messages, body, request, meter, accumulated)
            if not broke and accumulated.finish_reason:
                return accumulated.finished_answer()
            meter.broken_streams += 1
            if meter.broken_streams > MAX_BROKEN_STREAMS:
                why = broke or "it ended before the answer did"
                times = f"which broke off {meter.broken_streams} times in this exchange"
                raise ProviderError(
                    f"models.{request.role}: the stream from {self.client.model_and_address}, {times}, cannot be "
                    f"used: {why}"
                )

    def _read_stream(
        self,
        messages: list[dict[str, JsonValue]],
        body: dict[str, Any],
        request: Request,
        meter: ExchangeMeter,
        accumulated: StreamAccumulator,
    ) -> str | None:
        """Read one stream and add its usage to `meter`; return why it broke off, or None. Raises if none began."""
        import openai

        settings, role, began, started = self.settings, request.role, time.monotonic(), False
        client = self.client.sdk.with_options(max_retries=affordable_retries(request, settings.max_retries))
        create: Any = client.chat.completions.create
        call = {"model": settings.model, "messages": messages, "extra_body": settings.extra or None, **body}
        timeout = silence_timeout(request.clip_timeout_s(settings.timeout_s))
        try:
            with hold_to_deadline(request), create(stream=True, timeout=timeout, **call) as chunks:
                started = True
                limit_stream(chunks.response, time.monotonic() + request.clip_timeout_s(settings.answer_s))
                for chunk in chunks:
                    accumulated.add_chunk(chunk)
        except openai.APIStatusError:
            raise
        except (openai.APITimeoutError, TimeoutError) as error:
            if request.remaining_s <= 0:
                raise time_is_up_error(request) from error
            raise (
                self.client.silence_error(role)
                if isinstance(error, openai.APITimeoutError)
                else self.client.slow_answer_error(role)
            ) from error
        except openai.APIConnectionError as error:
            if not started:
                raise self.client.no_server_error(role) from error
            return self.client.shorten(str(error.__cause__ or error))
        except openai.APIError as error:
            return self.client.shorten(error.message)
        except ValueError:
            return "it contains data that is not JSON"
        finally:
            if started:
                took = accumulated.usage_or_estimate(len(json.dumps(messages)))
                meter.total = meter.total.combined_with(took.model_copy(update={"seconds": time.monotonic() - began}))
        return None


def _user_message(text: str) -> dict[str, JsonValue]:
    return {"role": "user", "content": text}


def _turn_messages(turn: Turn) -> Iterator[dict[str, JsonValue]]:
    """Yield a turn as messages: the model's, then what it was told. Every call gets a result, as the format
    requires."""
    said = StreamedMessage.model_validate_json(turn.said)
    yield said.as_request_message()
    results = {result.id: result for result in turn.results}
    for call in said.tool_calls:
        result = results.get(call.id)
        failed = result is None or result.failed
        text = result.text if result else "; ".join(turn.refused)
        yield {"role": "tool", "tool_call_id": call.id, "content": f"failed: {text}" if failed else text}
    if turn.refused:
        yield _user_message("\n".join(turn.refused) if said.tool_calls else parsing.refusal_text(turn.refused))


def _tool_call(one: Any) -> ToolCall:
    return ToolCall(id=one.id, name=one.name, arguments=one.parsed_arguments, fault=one.fault)
