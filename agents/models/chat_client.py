"""The `openai` SDK's client for a server of chat completions, and what its refusals mean to the user."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.chat_options import Options
from agents.models.keys import from_environment
from agents.models.redaction import without_keys
from tools.errors import KernelwrightError, OverloadedError, ProviderError, RefusalError, SettingsError

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

NO_KEY = "none"
"""Sent where no key is wanted: the SDK takes one from OPENAI_API_KEY otherwise, and a local server must not be told that."""
START = "start it (for example `vllm serve MODEL`, `python -m sglang.launch_server`, `llama-server -m FILE`, `ollama serve`)"
SHOWN = 400
"""Characters of a server's message that are repeated to the user."""
FILTERED = re.compile(r"content_filter|content management policy", re.I)
TOO_LONG = re.compile(r"context[ _](?:length|size|window)|maximum context|too many tokens|prompt is too long", re.I)


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

    def within(self, timeout_s: float) -> OpenAI:
        """The client, which bears silences so long at most."""
        return self.client if timeout_s >= self.options.timeout_s else self.client.with_options(timeout=timeout_s)

    def said(self, error: APIStatusError) -> str:
        """The server's own words, code included, on one line and without keys: some repeat the one that they refuse."""
        code = f"{error.code}: " if error.code else ""
        body = error.body.get("message") if isinstance(error.body, dict) else None
        return self.shown(f"{code}{body or error.message}")

    def shown(self, text: str) -> str:
        """`text`, which came from outside, on one line, without keys and not too long."""
        return without_keys(" ".join(text.split()), self.key)[:SHOWN]

    def silent(self, role: str) -> ProviderError:
        """It says nothing."""
        quiet = f"said nothing for {self.options.timeout_s:g} s; raise models.{role}.timeout_s, or see what keeps the server"
        return ProviderError(f"models.{role}: {self.where} {quiet}")

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
            return OverloadedError(f"{entry}: {self.where} had no room, asked {1 + options.max_retries} times: {said}")
        if TOO_LONG.search(said):
            room = f"has no room for prompt and {entry}.max_tokens {options.max_tokens} ({said}); lower it"
            return ProviderError(f"{entry}: {self.where} {room}")
        return ProviderError(f"{entry}: {self.where} answered {status}: {said}")


def open_client(options: Options) -> Opened:
    """The client; nothing is sent yet. SettingsError names the variable that is missing."""
    import openai

    key = from_environment(options.api_key_env) if options.api_key_env else ""
    timeout = openai.Timeout(options.timeout_s, connect=min(10.0, options.timeout_s))
    client = openai.OpenAI(api_key=key or NO_KEY, base_url=options.base_url, timeout=timeout, max_retries=options.max_retries)
    return Opened(client, options, key)
