"""A server of chat completions: the options of `provider: openai_compatible`, the `openai` SDK's client, and its
refusals as ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue, field_validator

from agents.models import options as given
from agents.models.credentials import from_environment
from agents.models.redaction import without_keys
from agents.models.time_limits import hooks
from tools.errors import KernelwrightError, OverloadedError, ProviderError, RefusalError, SettingsError

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

NO_KEY = "none"
"""Sent where no key is wanted: the SDK takes one from OPENAI_API_KEY otherwise, and a local server must not be told
that."""
START = (
    "start it (for example `vllm serve MODEL`, `python -m sglang.launch_server`, `llama-server -m FILE`, "
    "`ollama serve`)"
)
SHOWN = 400
"""Characters of a server's message that are repeated to the user."""
FILTERED = re.compile(r"content_filter|content management policy", re.I)
TOO_LONG = re.compile(
    r"context[ _](?:length|size|window|limit)|maximum context|too many tokens|prompt is too long", re.I
)
"""How servers say that prompt and answer pass what their model holds."""
OWN = (
    "messages",
    "model",
    "stream",
    "stream_options",
    "tools",
    "response_format",
    "max_tokens",
    "max_completion_tokens",
    "n",
)
"""Keys of a request's body that are made here."""


class Options(given.Options):
    """The role's entry in the config, less `provider`."""

    model: str = Field(min_length=1)
    """As the server names it."""
    base_url: given.Address
    """Always written out, for a hosted service too, so that no prompt goes to a place that the config does not name."""
    api_key_env: str | None = None
    """Name of the variable that holds the key; none: no key is sent."""
    max_tokens: int = Field(default=16_000, ge=1)
    """Output of one call, thinking included; an answer that runs into it is asked to go on, twice."""
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds of the longest silence, not the length of the whole answer, which is streamed; a server that asks us
    to wait longer is overloaded."""
    answer_s: float = Field(default=3600.0, gt=0, allow_inf_nan=False)
    """Seconds that one answer may take in all; some servers send signs of life for ever."""
    max_retries: int = Field(default=4, ge=0, le=20)
    """Times that a request is sent again when the server could not take it."""
    structured: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    """How an answer's form is asked of the server; auto: a JSON schema, but drafts, which are code, in fenced
    blocks."""
    tools: Literal["auto", "off"] = "auto"
    """Whether the coder's tools are offered; auto: until the server is found to take none."""
    effort: str | None = None
    """Sent as reasoning_effort."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """More of the request's body, as the server names it."""

    @field_validator("extra")
    @classmethod
    def _more(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted(set(value) & set(OWN)):
            raise ValueError(f"must not hold {', '.join(taken)}, which Kernelwright writes itself; take it out")
        return value


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
        quiet = (
            f"said nothing for {self.options.timeout_s:g} s; raise models.{role}.timeout_s, or see what keeps "
            f"the server"
        )
        return ProviderError(f"models.{role}: {self.where} {quiet}")

    def slow(self, role: str) -> ProviderError:
        """It goes on and on."""
        too_long = f"is not done after {self.options.answer_s:g} s; raise models.{role}.answer_s, or lower max_tokens"
        return ProviderError(f"models.{role}: {self.where} {too_long}")

    def absent(self, role: str) -> ProviderError:
        """There is none."""
        return ProviderError(
            f"models.{role}: no server answers at {self.options.base_url}; {START}, or start anew with another base_url"
        )

    def failure(self, error: APIStatusError, role: str) -> KernelwrightError:
        """What a status means."""
        said, status, options = self.said(error), error.status_code, self.options
        entry = f"models.{role}"
        if FILTERED.search(said):
            return RefusalError(f"{entry}: {options.model} declined to answer: {said}")
        if status in (401, 403):
            where = (
                f"the key in {options.api_key_env}"
                if options.api_key_env
                else "a request without a key; name its variable there"
            )
            return SettingsError(f"{entry}.api_key_env: {options.base_url} refuses {where} ({said})")
        if status == 404:
            unknown = f"{options.base_url} knows no {options.model!r} or is no such API ({said})"
            return SettingsError(f"{entry}.model: {unknown}; mend model or base_url")
        if status == 402 or (status == 429 and re.search(r"insufficient_quota|billing|credit", said)):
            return ProviderError(
                f"{entry}: the account at {options.base_url} has no money left ({said}); fill it or choose "
                f"another model"
            )
        if status in (429, 503, 529):
            return OverloadedError(
                f"{entry}: {self.where} had no room, asked up to {1 + options.max_retries} times: {said}"
            )
        if TOO_LONG.search(said):
            return no_room(role, self.where, options.max_tokens, said)
        return ProviderError(f"{entry}: {self.where} answered {status}: {said}")


def no_room(role: str, where: str, max_tokens: int, said: str) -> ProviderError:
    """Prompt and answer pass the context of the server, which is not ours to change; the run goes on where it has a
    larger one."""
    limit = f"models.{role}.max_tokens {max_tokens}"
    return ProviderError(
        f"models.{role}: {where} has no room for the prompt and {limit} ({said}); give it a larger context, or "
        f"lower that"
    )


def open_client(options: Options) -> Opened:
    """The client; nothing is sent yet. SettingsError names the variable that is missing."""
    import openai

    key = from_environment(options.api_key_env) if options.api_key_env else ""
    http_client = openai.DefaultHttpxClient(event_hooks=hooks(options.timeout_s))
    client = openai.OpenAI(api_key=key or NO_KEY, base_url=options.base_url, http_client=http_client)
    return Opened(client, options, key)
