"""The provider `anthropic`: Anthropic's models through the official SDK, at Anthropic, on Bedrock or Vertex, or on any
server that implements the Messages API."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from agents.models import options as provider_options
from agents.models.answers.parsing import continuation_text, is_written_as_code, join_continuation, parse_answer
from agents.models.base import CHARACTERS_PER_TOKEN, AnswerReply, Model, Request, ToolCallReply, UnfitReply, Usage
from agents.models.providers import anthropic_messages as wire
from agents.models.providers.anthropic_client import AnthropicOptions, open_anthropic_client
from agents.models.time_limits import (
    affordable_retries,
    hold_to_deadline,
    limit_stream,
    silence_timeout,
    time_is_up_error,
)
from tools.errors import KernelwrightError, ProviderError, RefusalError, SettingsError

if TYPE_CHECKING:
    from anthropic.types import Message, MessageParam, ThinkingConfigParam

MAX_OUTPUT_FACTOR = 3
"""An exchange generates at most this many times `max_tokens`. Broken streams, an answer requested again with twice the
limit, and continuations all count towards it, so that `usage_bound` holds."""
COUNT_MARGIN_DIVISOR = 20
"""The API's own count is an estimate: one token is added for each this many tokens."""
COUNT_TIMEOUT_S = 30
TOO_LONG_FAULT = (
    "the answer was cut off after {tokens} tokens, before its end; give a shorter one: fewer drafts, no "
    "comments that repeat the code, "
    "short texts"
)


class Anthropic(Model):
    """A model of Anthropic. Forced tools, sampling parameters and prefill are never used: newer models refuse them."""

    calls_tools = True

    def __init__(self, options: dict[str, Any]) -> None:
        """SettingsError for an unusable option, a pasted or missing key, or a package that is not installed."""
        super().__init__(options)
        self.settings = provider_options.read_options("anthropic", AnthropicOptions, options)
        self.client = open_anthropic_client(self.settings)
        self.server_counts_tokens = True
        """False once the server has proved to have no token count."""

    def ask(self, request: Request) -> AnswerReply | ToolCallReply | UnfitReply:
        """Perform one exchange, with several API calls if an answer is cut off; `usage` is the sum of all.

        RefusalError, OverloadedError, ProviderError or SettingsError, naming `models.<role>`, when no answer comes.
        """
        meter = wire.UsageMeter(Usage(model=self.settings.model))
        try:
            return self._ask_until_complete(request, meter)
        except KernelwrightError as error:
            if meter.total.seconds:
                error.usage = meter.total.model_dump()
            raise

    def require_access(self, entry: str) -> None:
        """See `Model`; Bedrock and Vertex have no such call."""
        if self.settings.platform == "anthropic":
            self.client.require_access(entry, limit=1)

    def _ask_until_complete(self, request: Request, meter: wire.UsageMeter) -> AnswerReply | ToolCallReply | UnfitReply:
        limit, room = self.settings.max_tokens, MAX_OUTPUT_FACTOR * self.settings.max_tokens
        text, said, before = "", "", list["MessageParam"]()
        while True:
            room -= limit
            try:
                message = self._generate(request, before, limit, meter)
            except SettingsError:
                if limit == self.settings.max_tokens:
                    raise
                # The model cannot write twice as much; the earlier answer has been paid for and is reported.
                return UnfitReply(
                    faults=(TOO_LONG_FAULT.format(tokens=meter.total.output),), said=said, usage=meter.total
                )
            if isinstance(message, KernelwrightError):
                if room < limit:
                    raise message
                continue
            if message.stop_reason != "max_tokens":
                break
            text = join_continuation(text, wire.message_text(message))
            half = wire.assistant_messages(message, broken=True)
            said = wire.dump_messages([*before, *half])
            # Free text can be continued. Half a call or JSON object cannot: the required format would make the next
            # answer begin a new one.
            if before or not (wire.tool_calls(message) or text.lstrip()[:1] in ("", "{")):
                before += [*half, {"role": "user", "content": continuation_text()}]
            else:
                text, limit = "", 2 * limit
            if room < limit:
                return UnfitReply(
                    faults=(TOO_LONG_FAULT.format(tokens=meter.total.output),), said=said, usage=meter.total
                )
        return self._read_reply(request, message, before, text, meter.total)

    def usage_bound(self, request: Request) -> Usage:
        """Assume that every token that is read is also written to the cache, and that all output tokens are used."""
        return self._bound_for_prompt(self._count_prompt_tokens(request))

    def estimated_usage_bound(self, request: Request) -> Usage:
        """Return the bound with the prompt's tokens estimated from its characters."""
        return self._bound_for_prompt(_tokens_by_characters(self._call_arguments(request, [])))

    def _bound_for_prompt(self, counted: int) -> Usage:
        output = MAX_OUTPUT_FACTOR * self.settings.max_tokens
        read_in_all = MAX_OUTPUT_FACTOR * (counted + counted // COUNT_MARGIN_DIVISOR) + output
        written = {"cache_write_1h" if self.settings.cache_ttl == "1h" else "cache_write": read_in_all}
        return Usage(model=self.settings.model, output=output, **written)

    def _read_reply(
        self, request: Request, message: Message, before: list[MessageParam], text: str, usage: Usage
    ) -> AnswerReply | ToolCallReply | UnfitReply:
        if message.stop_reason == "refusal":
            details = message.stop_details
            why = (details and (details.explanation or details.category)) or "no reason given"
            raise RefusalError(f"models.{request.role}: {self.settings.model} declined to answer ({why})")
        if message.stop_reason == "model_context_window_exceeded":
            raise ProviderError(
                f"models.{request.role}: the prompt and the answer do not fit into the context of {self.settings.model}"
            )
        said = wire.dump_messages([*before, *wire.assistant_messages(message)])
        if calls := wire.tool_calls(message):
            return ToolCallReply(calls=calls, said=said, usage=usage)
        return parse_answer(join_continuation(text, wire.message_text(message)), request, said=said, usage=usage)

    def _generate(
        self, request: Request, before: list[MessageParam], limit: int, meter: wire.UsageMeter
    ) -> Message | KernelwrightError:
        """Return one answer of the API, or the error to raise if its stream broke off and no retry is left.

        A broken stream is requested again at once: if the server is overloaded, it makes the new request wait.
        """
        import anthropic
        import httpx2  # The SDK passes on its errors while a stream is read.

        settings = self.settings
        client = self.client.sdk.with_options(max_retries=affordable_retries(request, settings.max_retries))
        timeout = silence_timeout(request.clip_timeout_s(settings.timeout_s))
        began, message = time.monotonic(), None
        broke: KernelwrightError = self._broken_stream_error(request, "its stream ended early")
        try:
            call = self._call_arguments(request, before)
            with hold_to_deadline(request), client.messages.stream(max_tokens=limit, timeout=timeout, **call) as stream:
                # The time starts here: earlier attempts had their own.
                limit_stream(stream.response, time.monotonic() + request.clip_timeout_s(settings.timeout_s))
                try:
                    for event in stream:
                        if event.type == "message_start":
                            message = stream.current_message_snapshot
                except (TimeoutError, httpx2.TimeoutException):
                    late = self._broken_stream_error(request, f"it took longer than {settings.timeout_s:g} s")
                    broke = time_is_up_error(request) if request.remaining_s <= 0 else late
                except anthropic.APIStatusError as error:
                    broke = self.client.translate_error(error, request.role)
                except (httpx2.HTTPError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
                    # Damaged events make the SDK raise errors that it does not document.
                    broke = self._broken_stream_error(request, f"{type(error).__name__} while its answer was read")
        except self.client.error_types as error:
            out_of_time = request.remaining_s <= 0 and isinstance(error, anthropic.APIConnectionError)
            raise (
                time_is_up_error(request) if out_of_time else self.client.translate_error(error, request.role)
            ) from error
        meter.add_message(message, time.monotonic() - began)
        return broke if message is None or message.stop_reason is None else message

    def _broken_stream_error(self, request: Request, why: str) -> ProviderError:
        return ProviderError(
            f"models.{request.role}: {self.settings.model} gave no complete answer, even when asked again: {why}"
        )

    def _call_arguments(self, request: Request, before: list[MessageParam]) -> dict[str, Any]:
        """Return the SDK arguments that a call and its token count share, without unused ones."""
        structured = self.settings.structured == "json_schema" and not is_written_as_code(request.answer)
        talk = wire.build_conversation(request, self.settings.cache_ttl, structured=structured)
        thinking: dict[str, ThinkingConfigParam] = {"adaptive": {"type": "adaptive"}, "off": {"type": "disabled"}}
        call = {
            "tools": talk.tools,
            "system": talk.system,
            "output_config": wire.output_config(request, self.settings.effort, constrained=structured and not before),
            "thinking": thinking.get(self.settings.thinking or ""),
        }
        return {
            "model": self.settings.model,
            "messages": [*talk.messages, *before],
            **{name: part for name, part in call.items() if part},
        }

    def _count_prompt_tokens(self, request: Request) -> int:
        """Return the prompt's tokens as the server counts them, or estimated from the characters."""
        import anthropic

        call = self._call_arguments(request, [])
        if self.server_counts_tokens:
            try:
                client = self.client.sdk.with_options(
                    max_retries=0, timeout=request.clip_timeout_s(min(COUNT_TIMEOUT_S, self.settings.timeout_s))
                )
                return int(client.messages.count_tokens(**call).input_tokens)
            except (anthropic.AuthenticationError, anthropic.PermissionDeniedError) as error:
                raise self.client.translate_error(error, request.role) from error
            except self.client.error_types as error:
                # A server without this call will not have it later either; an overloaded one may.
                self.server_counts_tokens = getattr(error, "status_code", None) not in (404, 405, 501)
        return _tokens_by_characters(call)


def _tokens_by_characters(call: dict[str, Any]) -> int:
    """Return an upper bound of a prompt's tokens from its characters."""
    read = [call.get(part) for part in ("tools", "system", "messages")]
    return len(json.dumps(read, ensure_ascii=False)) // CHARACTERS_PER_TOKEN
