"""Any server that speaks chat completions: vLLM, SGLang, llama.cpp, Ollama, hosted services. Through the official `openai` SDK.

Servers differ in what they take. What one refuses (a response format, tools, the newer or older name of max_tokens, usage in a stream)
is left out from then on and replaced by words in the prompt; that memory lasts as long as the process.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue, ValidationError

from agents.models import answers
from agents.models.base import CHARACTERS_PER_TOKEN, Called, Model, Reply, Request, ToolCall, Turn, Unfit, Usage
from agents.models.chat_options import Options
from agents.models.keys import redacted, refuse_pasted
from agents.models.streamed import Message, Streamed, gather
from tools.errors import InfrastructureError, OverloadedError, ProviderError, RefusalError, SettingsError
from tools.validation import sentence

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

CONTINUATIONS = 2
"""Times that an answer which ran into max_tokens is asked to go on."""
BROKEN = 1
"""Times that an exchange is repeated whose stream broke off in the middle; before its first byte, max_retries counts."""
NO_KEY = "none"
"""Sent where no key is wanted: the SDK takes one from OPENAI_API_KEY otherwise, and a local server must not be told that."""
START = "start it (for example `vllm serve MODEL`, `python -m sglang.launch_server`, `llama-server -m FILE`, `ollama serve`)"
UNDERSTANDS_NOT = (400, 404, 422, 500, 501)
"""Statuses with which servers answer to a parameter that they do not know."""
WORDS = {
    "tools": re.compile(r"\btools?\b|tool[_ -]?choice|function call", re.I),
    "usage": re.compile(r"stream_options|include_usage", re.I),
    "structured": re.compile(r"response_format|schema|grammar|guided|structured", re.I),
    "newer_limit": re.compile(r"max_completion_tokens", re.I),
}
"""How a server's refusal names what it does not take."""

FILTERED = re.compile(r"content_filter|content management policy", re.I)
TOO_LONG = re.compile(r"context[ _](?:length|size|window)|maximum context|too many tokens|prompt is too long", re.I)


@dataclass
class Learnt:
    """What this server has been found not to take."""

    structured: bool = True
    tools: bool = True
    usage: bool = True
    newer_limit: bool = False
    """It wants the limit as max_completion_tokens."""
    left_out: list[str] = field(default_factory=list)


class OpenAICompatible(Model):
    """A model behind chat completions; `options` as in Options."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        if "api_key" in options:
            raise SettingsError("models.api_key: keys do not stand in a config; put it in a variable and write api_key_env: NAME_OF_IT")
        # Of these two the options themselves say what is wrong.
        refuse_pasted({name: value for name, value in options.items() if name not in ("api_key_env", "base_url")})
        try:
            self.settings = Options.model_validate(options)
        except ValidationError as error:
            raise SettingsError(f"models.{sentence(error, Options)}") from None
        self._learnt = Learnt()
        self._client: OpenAI | None = None
        self._key()

    @property
    def calls_tools(self) -> bool:  # type: ignore[override]
        """Until the server is found to take none."""
        return self.settings.tools == "auto" and self._learnt.tools

    def ask(self, request: Request) -> Reply:
        """One exchange, of several calls where the answer is long or the server must first be understood.

        ProviderError and its kinds when there is no server, it fails, refuses or has no room; SettingsError when it does not know the
        key, the model or the address.
        """
        started = time.monotonic()
        done = self._exchange(self._messages(request), request)
        text, usage = done.message.content, done.usage
        for _ in range(CONTINUATIONS):
            if done.finish != "length" or done.message.tool_calls or not done.message.content.strip():
                break
            done = self._exchange(
                [*self._messages(request), {"role": "assistant", "content": text}, _user(answers.go_on())], request, more=True
            )
            text = answers.joined(text, done.message.content)
            usage = _sum(usage, done.usage)
        usage = usage.model_copy(update={"seconds": time.monotonic() - started})
        said = done.message.model_copy(update={"content": text})
        if said.refusal or done.finish == "content_filter":
            raise RefusalError(f"models: {self.settings.model} declined to answer: {said.refusal or 'its content filter stopped it'}")
        if said.tool_calls:
            return Called(calls=tuple(_call(one) for one in said.tool_calls), said=said.kept(), usage=usage)
        if done.finish == "length":
            return Unfit(faults=(self._too_long(text),), said=said.kept(), usage=usage)
        if not text.strip():
            return Unfit(faults=("the answer is empty; write it out",), said=said.kept(), usage=usage)
        return answers.read(text, request, said=said.kept(), usage=usage)

    def bound(self, request: Request) -> Usage:
        """By characters: the prompt once for each call that an answer may take, and as many times max_tokens."""
        calls = 1 + CONTINUATIONS
        prompt = len(json.dumps(self._messages(request))) + len(json.dumps(self._body(request)))
        output = self.settings.max_tokens
        # What was written so far is read again by each continuation.
        read = calls * (prompt // CHARACTERS_PER_TOKEN + 1) + output * sum(range(calls))
        return Usage(model=self.settings.model, input=read, output=calls * output)

    def _too_long(self, text: str) -> str:
        limit = self.settings.max_tokens
        if not text.strip():
            return f"all {limit} tokens went before an answer began; think less (or raise models.max_tokens, or lower models.effort)"
        return f"the answer did not end within {1 + CONTINUATIONS} times {limit} tokens; give a shorter one (or raise models.max_tokens)"

    # ------------------------------------------------------------ the request

    def _form(self, request: Request) -> Literal["json_schema", "json_object", "none"]:
        """What is asked of the server for this answer. With tools offered nothing is: several servers could then call none."""
        wanted = self.settings.structured
        if not self._learnt.structured or (request.tools and self.calls_tools):
            return "none"
        if wanted == "auto":
            return "none" if answers.as_code(request.answer) else "json_schema"
        return wanted

    def _messages(self, request: Request) -> list[dict[str, JsonValue]]:
        """System (stable), user (run, iteration): one message each, since many chat templates allow no two of a role in a row."""
        # Local servers show a model nothing of the schema that they hold it to, so that it stands in the prompt in any case.
        stable = [block.text for block in request.prompt if block.scope == "stable"]
        system = "\n\n".join([*stable, answers.how_to_answer(request.answer, self._form(request) != "none")])
        asked = "\n\n".join(block.text for block in request.prompt if block.scope != "stable")
        messages: list[dict[str, JsonValue]] = [{"role": "system", "content": system}, _user(asked)]
        for turn in request.turns:
            messages.extend(_told(turn))
        return messages

    def _body(self, request: Request, more: bool = False) -> dict[str, Any]:
        """All of the request but its messages. `more`: an answer that was cut off goes on, which fits no form."""
        settings, learnt = self.settings, self._learnt
        body: dict[str, Any] = {"max_completion_tokens" if learnt.newer_limit else "max_tokens": settings.max_tokens}
        if learnt.usage:
            body["stream_options"] = {"include_usage": True}
        if settings.effort:
            body["reasoning_effort"] = settings.effort
        if request.tools and self.calls_tools:
            body["tools"] = [{"type": "function", "function": tool.model_dump()} for tool in request.tools]
        form = "none" if more else self._form(request)
        if form == "json_object":
            body["response_format"] = {"type": form}
        elif form == "json_schema":
            # Strict mode knows no free-form maps, and what comes back is checked here in any case.
            asked = {"name": request.answer, "schema": answers.schema(request), "strict": False}
            body["response_format"] = {"type": form, "json_schema": asked}
        return body

    # ------------------------------------------------------------ the call

    def _exchange(self, messages: list[dict[str, JsonValue]], request: Request, more: bool = False) -> Streamed:
        """One call that succeeded; what the server does not take is left out first."""
        for _ in range(len(WORDS) + 2):
            body = self._body(request, more)
            try:
                done = self._stream(messages, body)
            except _Refused as refused:
                self._give_way(refused.status, body)
                messages[:2] = self._messages(request)[:2]
                continue
            if done.usage == Usage():
                characters = len(json.dumps(messages)), len(done.message.kept())
                counted = Usage(input=characters[0] // CHARACTERS_PER_TOKEN, output=characters[1] // CHARACTERS_PER_TOKEN)
                done = Streamed(done.message, done.finish, counted)
            return Streamed(done.message, done.finish, done.usage.model_copy(update={"model": self.settings.model}))
        raise ProviderError(f"models: {self._where()} refused every form of the request, left out were {', '.join(self._learnt.left_out)}")

    def _give_way(self, error: APIStatusError, body: dict[str, Any]) -> None:
        """Leave out what `error` is about; raises what it means where nothing is left to leave out."""
        said, learnt = _said(error), self._learnt
        if FILTERED.search(said) or TOO_LONG.search(said):
            raise self._failure(error) from error
        if WORDS["newer_limit"].search(said) and "max_tokens" in body:
            learnt.newer_limit = True
        elif WORDS["usage"].search(said) and "stream_options" in body:
            learnt.usage = False
            learnt.left_out.append("stream_options")
        elif WORDS["tools"].search(said) and "tools" in body:
            learnt.tools = False
            learnt.left_out.append("tools")
        elif "response_format" in body and (error.status_code in (400, 422, 501) or WORDS["structured"].search(said)):
            learnt.structured = False
            learnt.left_out.append("response_format")
        else:
            raise self._failure(error) from error

    def _stream(self, messages: list[dict[str, JsonValue]], body: dict[str, Any]) -> Streamed:
        import openai

        settings = self.settings
        for attempt in range(1 + BROKEN):
            begun = False
            try:
                create: Any = self._opened().chat.completions.create
                with create(model=settings.model, messages=messages, stream=True, extra_body=settings.extra or None, **body) as chunks:
                    begun = True
                    done = gather(chunks)
            except openai.APIStatusError as error:
                if error.status_code in UNDERSTANDS_NOT:
                    raise _Refused(error) from error
                raise self._failure(error) from error
            except openai.APITimeoutError as error:
                silent = f"said nothing for {settings.timeout_s:g} s; raise models.timeout_s, or see what keeps the server"
                raise ProviderError(f"models: {self._where()} {silent}") from error
            except openai.APIConnectionError as error:
                if not begun:
                    raise ProviderError(f"models: no server answers at {settings.base_url}; {START} or mend base_url") from error
                broke = self._shown(str(error.__cause__ or error))
            except openai.APIError as error:
                broke = self._shown(error.message)
            except (ValueError, ValidationError):
                broke = "it holds what is no JSON"
            else:
                if done.finish:
                    return done
                broke = "it ended before the answer did"
            if attempt == BROKEN:
                raise ProviderError(f"models: the stream from {self._where()} cannot be used, asked {1 + BROKEN} times: {broke}")
        raise AssertionError

    def _failure(self, error: APIStatusError) -> InfrastructureError | SettingsError:
        """What a status means to the user."""
        said, status, settings = self._shown(_said(error)), error.status_code, self.settings
        if FILTERED.search(said):
            return RefusalError(f"models: {settings.model} declined to answer: {said}")
        if status in (401, 403):
            where = (
                f"the key in {settings.api_key_env}"
                if settings.api_key_env
                else "a request without a key; name its variable in api_key_env"
            )
            return SettingsError(f"models.api_key_env: {settings.base_url} refuses {where} ({said})")
        if status == 404:
            return SettingsError(
                f"models.model: {settings.base_url} knows no {settings.model!r} or is no such API ({said}); mend model or base_url"
            )
        if status == 429 and re.search(r"insufficient_quota|billing|credit", said):
            return ProviderError(f"models: the account at {settings.base_url} has no money left ({said}); fill it or choose another model")
        if status in (429, 503, 529):
            return OverloadedError(f"models: {self._where()} had no room, asked {1 + settings.max_retries} times: {said}")
        if TOO_LONG.search(said):
            return ProviderError(
                f"models: {self._where()} has no room for prompt and models.max_tokens {settings.max_tokens} ({said}); lower it"
            )
        return ProviderError(f"models: {self._where()} answered {status}: {said}")

    def _shown(self, text: str) -> str:
        """What came from the server, without the key should it repeat it."""
        return redacted(text, self._key() if self.settings.api_key_env else "")

    def _where(self) -> str:
        return f"{self.settings.model} at {self.settings.base_url}"

    def _key(self) -> str:
        name = self.settings.api_key_env
        if name is None:
            return NO_KEY
        value = os.environ.get(name, "").strip()
        if not value:
            raise SettingsError(f"models.api_key_env: the variable {name} is not set; export it, or name another")
        return value

    def _opened(self) -> OpenAI:
        if self._client is None:
            import openai

            timeout = openai.Timeout(self.settings.timeout_s, connect=min(10.0, self.settings.timeout_s))
            self._client = openai.OpenAI(
                api_key=self._key(), base_url=self.settings.base_url, timeout=timeout, max_retries=self.settings.max_retries
            )
        return self._client


class _Refused(Exception):
    """The server does not understand the request as it is."""

    def __init__(self, status: APIStatusError) -> None:
        super().__init__(status)
        self.status = status


def _said(error: APIStatusError) -> str:
    """The server's own words, code included, on one line."""
    code = f"{error.code}: " if error.code else ""
    body = error.body.get("message") if isinstance(error.body, dict) else None
    return " ".join(f"{code}{body or error.message}".split())[:400]


def _user(text: str) -> dict[str, JsonValue]:
    return {"role": "user", "content": text}


def _told(turn: Turn) -> Iterator[dict[str, JsonValue]]:
    """A turn as messages: what the model said, then what it was told. Every call is given a result, as the format demands."""
    said = Message.model_validate_json(turn.said)
    yield said.wire()
    results = {result.id: result for result in turn.results}
    for call in said.tool_calls:
        result = results.get(call.id)
        failed = result is None or result.failed
        text = result.text if result else "; ".join(turn.refused)
        yield {"role": "tool", "tool_call_id": call.id, "content": f"failed: {text}" if failed else text}
    if turn.refused:
        yield _user("\n".join(turn.refused) if said.tool_calls else answers.told(turn.refused))


def _call(one: Any) -> ToolCall:
    return ToolCall(id=one.id, name=one.name, arguments=one.read, fault=one.fault)


def _sum(first: Usage, second: Usage) -> Usage:
    counted: Iterable[str] = ("input", "cache_read", "cache_write", "output")
    return first.model_copy(update={name: getattr(first, name) + getattr(second, name) for name in counted})
