"""The `openai` SDK's client for a server of chat completions, and what its refusals mean to the user."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agents.models.base import Request
from agents.models.chat_options import Options
from agents.models.keys import from_environment
from agents.models.patience import longest_pause_s, pause_s, time_is_up
from agents.models.redaction import without_keys
from tools.errors import KernelwrightError, OverloadedError, ProviderError, RefusalError, SettingsError

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, OpenAI, Timeout

StreamT = TypeVar("StreamT")

NO_KEY = "none"
"""Sent where no key is wanted: the SDK takes one from OPENAI_API_KEY otherwise, and a local server must not be told that."""
START = "start it (for example `vllm serve MODEL`, `python -m sglang.launch_server`, `llama-server -m FILE`, `ollama serve`)"
CONNECT_S = 10.0
SHOWN = 400
"""Characters of a server's message that are repeated to the user."""
FILTERED = re.compile(r"content_filter|content management policy", re.I)
TOO_LONG = re.compile(r"context[ _](?:length|size|window|limit)|maximum context|too many tokens|prompt is too long", re.I)
"""How servers say that prompt and answer pass what their model holds."""


@dataclass(frozen=True)
class Opened:
    """A client, and what is needed to say why a call of it failed."""

    client: OpenAI
    options: Options
    key: str

    @property
    def where(self) -> str:
        """Model and server, for messages."""
        return f"{self.options.model} at {self.options.base_url}"

    def begun(self, asked: Request, send: Callable[[OpenAI], StreamT]) -> StreamT:
        """What `send` returns when it is given a client; called again while the server cannot take the request.

        All attempts, with the pauses between them, end with the run's time; the SDK, which knows nothing of it, makes single ones.
        ProviderError when that time is up, else the SDK's own error of the last attempt.
        """
        import openai

        for attempt in range(1, 2 + self.options.max_retries):
            if asked.left_s <= 0:
                break
            try:
                return send(self.client.with_options(timeout=_silence(asked.at_most(self.options.timeout_s))))
            except (openai.APIConnectionError, openai.APIStatusError) as error:
                if asked.left_s <= 0:
                    raise time_is_up(asked) from error
                wait = pause_s(attempt, error.response.headers if isinstance(error, openai.APIStatusError) else {})
                too_long = wait >= asked.left_s or wait > longest_pause_s(self.options.timeout_s)
                if attempt > self.options.max_retries or not _for_now(error) or too_long:
                    raise
            time.sleep(wait)
        raise time_is_up(asked)

    def said(self, error: APIStatusError) -> str:
        """The server's own words, code included, on one line and without keys: some repeat the one that they refuse."""
        # llama.cpp repeats the status as the code, where others have a word.
        code = f"{error.code}: " if error.code and not str(error.code).isdigit() else ""
        body = error.body.get("message") if isinstance(error.body, dict) else None
        return self.shown(f"{code}{body or error.message}")

    def shown(self, text: str) -> str:
        """`text`, which came from outside, on one line, without keys and not too long."""
        return without_keys(" ".join(text.split()), self.key)[:SHOWN]

    def silent(self, role: str) -> ProviderError:
        """It says nothing."""
        quiet = f"said nothing for {self.options.timeout_s:g} s; raise models.{role}.timeout_s, or see what keeps the server"
        return ProviderError(f"models.{role}: {self.where} {quiet}")

    def slow(self, role: str) -> ProviderError:
        """It goes on and on."""
        too_long = f"is not done after {self.options.answer_s:g} s; raise models.{role}.answer_s, or lower max_tokens"
        return ProviderError(f"models.{role}: {self.where} {too_long}")

    def absent(self, role: str) -> ProviderError:
        """There is none."""
        return ProviderError(f"models.{role}: no server answers at {self.options.base_url}; {START}, or start anew with another base_url")

    def failure(self, error: APIStatusError, role: str) -> KernelwrightError:
        """What a status means."""
        said, status, options = self.said(error), error.status_code, self.options
        entry = f"models.{role}"
        if FILTERED.search(said):
            return RefusalError(f"{entry}: {options.model} declined to answer: {said}")
        if status in (401, 403):
            where = f"the key in {options.api_key_env}" if options.api_key_env else "a request without a key; name its variable there"
            return SettingsError(f"{entry}.api_key_env: {options.base_url} refuses {where} ({said})")
        if status == 404:
            unknown = f"{options.base_url} knows no {options.model!r} or is no such API ({said})"
            return SettingsError(f"{entry}.model: {unknown}; mend model or base_url")
        if status == 402 or (status == 429 and re.search(r"insufficient_quota|billing|credit", said)):
            return ProviderError(f"{entry}: the account at {options.base_url} has no money left ({said}); fill it or choose another model")
        if status in (429, 503, 529):
            return OverloadedError(f"{entry}: {self.where} had no room, asked up to {1 + options.max_retries} times: {said}")
        if TOO_LONG.search(said):
            return no_room(role, self.where, options.max_tokens, said)
        return ProviderError(f"{entry}: {self.where} answered {status}: {said}")


def no_room(role: str, where: str, max_tokens: int, said: str) -> ProviderError:
    """Prompt and answer pass the context of the server, which is not ours to change; the run goes on where it has a larger one."""
    limit = f"models.{role}.max_tokens {max_tokens}"
    return ProviderError(f"models.{role}: {where} has no room for the prompt and {limit} ({said}); give it a larger context, or lower that")


def open_client(options: Options) -> Opened:
    """The client; nothing is sent yet. SettingsError names the variable that is missing."""
    import openai

    key = from_environment(options.api_key_env) if options.api_key_env else ""
    client = openai.OpenAI(api_key=key or NO_KEY, base_url=options.base_url, max_retries=0)
    return Opened(client, options, key)


def _silence(timeout_s: float) -> Timeout:
    """The longest that an attempt bears; to be connected takes less, or there is no server."""
    import openai

    return openai.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))


def _for_now(error: APIConnectionError | APIStatusError) -> bool:
    """Whether it may be gone the next time; a server that says so itself (`x-should-retry`) is believed."""
    import openai

    if not isinstance(error, openai.APIStatusError):
        return True
    said = error.response.headers.get("x-should-retry")
    return said == "true" if said in ("true", "false") else error.status_code in (408, 409, 429) or error.status_code >= 500
