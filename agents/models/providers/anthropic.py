"""Anthropic's models through the official SDK: at Anthropic, on Bedrock or Vertex, or on any server that speaks the
Messages API."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from agents.models import options as given
from agents.models.answers.parsing import as_code, go_on, joined, read
from agents.models.base import CHARACTERS_PER_TOKEN, Answered, Called, Model, Request, Unfit, Usage
from agents.models.providers import anthropic_messages as wire
from agents.models.providers.anthropic_client import Options, open_client
from agents.models.time_limits import deadline, retries, silence, time_is_up, until
from tools.errors import KernelwrightError, ProviderError, RefusalError, SettingsError

if TYPE_CHECKING:
    from anthropic.types import Message, MessageParam, ThinkingConfigParam

ROOM = 3
"""Times `max_tokens` that one exchange may generate: streams that broke off, an answer asked for again with twice
the room, and continuations all take from it, so that `bound` holds."""
SLACK = 20
"""The API's own count is an estimate: one token in so many is added to it."""
COUNTING_S = 30
TOO_LONG = (
    "the answer broke off after {tokens} tokens, before its end; give a shorter one: fewer drafts, no "
    "comments that repeat the code, "
    "short texts"
)


class Anthropic(Model):
    """Forced tools, sampling parameters and prefill are never used: newer models refuse them."""

    calls_tools = True

    def __init__(self, options: dict[str, Any]) -> None:
        """SettingsError for an option that cannot be used, a key that is pasted or missing, a package that is not
        installed."""
        super().__init__(options)
        self.settings = given.read("anthropic", Options, options)
        self.opened = open_client(self.settings)
        self.counts = True
        """Whether the server counts tokens, as far as is known."""

    def ask(self, request: Request) -> Answered | Called | Unfit:
        """One exchange: more than one answer of the API where one breaks off, `usage` being that of all.

        RefusalError, OverloadedError, ProviderError or SettingsError when nothing can be had, naming `models.<role>`.
        """
        meter = wire.Meter(Usage(model=self.settings.model))
        try:
            return self._asked(request, meter)
        except KernelwrightError as error:
            if meter.total.seconds:
                error.usage = meter.total.model_dump()
            raise

    def _asked(self, request: Request, meter: wire.Meter) -> Answered | Called | Unfit:
        limit, room = self.settings.max_tokens, ROOM * self.settings.max_tokens
        text, said, before = "", "", list["MessageParam"]()
        while True:
            room -= limit
            try:
                message = self._generate(request, before, limit, meter)
            except SettingsError:
                if limit == self.settings.max_tokens:
                    raise
                # More than the model can write is refused; what it wrote before has been paid for and is told.
                return Unfit(faults=(TOO_LONG.format(tokens=meter.total.output),), said=said, usage=meter.total)
            if isinstance(message, KernelwrightError):
                if room < limit:
                    raise message
                continue
            if message.stop_reason != "max_tokens":
                break
            text = joined(text, wire.text(message))
            half = wire.spoken(message, broken=True)
            said = wire.kept([*before, *half])
            # Free text can be joined. Half a call or JSON object cannot: the form owed would make the next answer begin
            # a new one.
            if before or not (wire.calls(message) or text.lstrip()[:1] in ("", "{")):
                before += [*half, {"role": "user", "content": go_on()}]
            else:
                text, limit = "", 2 * limit
            if room < limit:
                return Unfit(faults=(TOO_LONG.format(tokens=meter.total.output),), said=said, usage=meter.total)
        return self._reply(request, message, before, text, meter.total)

    def bound(self, request: Request) -> Usage:
        """As if every token that is read had to be written to the cache, and all room for the answer were used."""
        return self._bound(self._count(request))

    def assumed_bound(self, request: Request) -> Usage:
        """The same, with the prompt's tokens by their characters."""
        return self._bound(_by_characters(self._call(request, [])))

    def _bound(self, counted: int) -> Usage:
        output = ROOM * self.settings.max_tokens
        read_in_all = ROOM * (counted + counted // SLACK) + output
        written = {"cache_write_1h" if self.settings.cache_ttl == "1h" else "cache_write": read_in_all}
        return Usage(model=self.settings.model, output=output, **written)

    def _reply(
        self, request: Request, message: Message, before: list[MessageParam], text: str, usage: Usage
    ) -> Answered | Called | Unfit:
        if message.stop_reason == "refusal":
            details = message.stop_details
            why = (details and (details.explanation or details.category)) or "no reason given"
            raise RefusalError(f"models.{request.role}: {self.settings.model} declines to answer ({why})")
        if message.stop_reason == "model_context_window_exceeded":
            raise ProviderError(
                f"models.{request.role}: prompt and answer do not fit into the context of {self.settings.model}"
            )
        said = wire.kept([*before, *wire.spoken(message)])
        if calls := wire.calls(message):
            return Called(calls=calls, said=said, usage=usage)
        return read(joined(text, wire.text(message)), request, said=said, usage=usage)

    def _generate(
        self, request: Request, before: list[MessageParam], limit: int, meter: wire.Meter
    ) -> Message | KernelwrightError:
        """One answer of the API; the error to end with where its stream broke off.

        A stream that was begun is begun anew at once: where the server has no room, it is the new request that is made
        to wait.
        """
        import anthropic
        import httpx2  # The SDK lets its errors through while a stream is read.

        settings = self.settings
        client = self.opened.client.with_options(max_retries=retries(request, settings.max_retries))
        timeout = silence(request.at_most(settings.timeout_s))
        began, message = time.monotonic(), None
        broke: KernelwrightError = self._broken(request, "its stream ended early")
        try:
            call = self._call(request, before)
            with deadline(request), client.messages.stream(max_tokens=limit, timeout=timeout, **call) as stream:
                # From here: attempts before this one had their own time.
                until(stream.response, time.monotonic() + request.at_most(settings.timeout_s))
                try:
                    for event in stream:
                        if event.type == "message_start":
                            message = stream.current_message_snapshot
                except (TimeoutError, httpx2.TimeoutException):
                    late = self._broken(request, f"it took longer than {settings.timeout_s:g} s")
                    broke = time_is_up(request) if request.left_s <= 0 else late
                except anthropic.APIStatusError as error:
                    broke = self.opened.failure(error, request.role)
                except (httpx2.HTTPError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
                    # What damaged events make the SDK raise is not among its documented errors.
                    broke = self._broken(request, f"{type(error).__name__} while its answer was read")
        except self.opened.errors as error:
            out_of_time = request.left_s <= 0 and isinstance(error, anthropic.APIConnectionError)
            raise (time_is_up(request) if out_of_time else self.opened.failure(error, request.role)) from error
        meter.count(message, time.monotonic() - began)
        return broke if message is None or message.stop_reason is None else message

    def _broken(self, request: Request, why: str) -> ProviderError:
        return ProviderError(
            f"models.{request.role}: {self.settings.model} gave no whole answer, also when asked again: {why}"
        )

    def _call(self, request: Request, before: list[MessageParam]) -> dict[str, Any]:
        """Arguments for the SDK that a call and the counting of its tokens share; what is not wanted is left out."""
        structured = self.settings.structured == "json_schema" and not as_code(request.answer)
        talk = wire.conversation(request, self.settings.cache_ttl, structured=structured)
        thinking: dict[str, ThinkingConfigParam] = {"adaptive": {"type": "adaptive"}, "off": {"type": "disabled"}}
        call = {
            "tools": talk.tools,
            "system": talk.system,
            "output_config": wire.output(request, self.settings.effort, constrained=structured and not before),
            "thinking": thinking.get(self.settings.thinking or ""),
        }
        return {
            "model": self.settings.model,
            "messages": [*talk.messages, *before],
            **{name: part for name, part in call.items() if part},
        }

    def _count(self, request: Request) -> int:
        """Tokens of the prompt: by the server where it counts them, else by their characters."""
        import anthropic

        call = self._call(request, [])
        if self.counts:
            try:
                client = self.opened.client.with_options(
                    max_retries=0, timeout=request.at_most(min(COUNTING_S, self.settings.timeout_s))
                )
                return int(client.messages.count_tokens(**call).input_tokens)
            except (anthropic.AuthenticationError, anthropic.PermissionDeniedError) as error:
                raise self.opened.failure(error, request.role) from error
            except self.opened.errors as error:
                # A server that has no such call will not have it the next time either; one that has no room now may.
                self.counts = getattr(error, "status_code", None) not in (404, 405, 501)
        return _by_characters(call)


def _by_characters(call: dict[str, Any]) -> int:
    """Tokens of a call's prompt where nobody counts them."""
    read = [call.get(part) for part in ("tools", "system", "messages")]
    return len(json.dumps(read, ensure_ascii=False)) // CHARACTERS_PER_TOKEN
