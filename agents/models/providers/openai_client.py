"""A server of chat completions: the options of `provider: openai_compatible`, the `openai` SDK's client, and its
refusals as ours."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, field_validator

from agents.models import options as given
from agents.models.credentials import from_environment
from agents.models.providers.server_failures import NO_KEY, Server
from agents.models.time_limits import hooks
from tools.errors import ProviderError

START = (
    "start it (for example `vllm serve MODEL`, `python -m sglang.launch_server`, `llama-server -m FILE`, "
    "`ollama serve`)"
)
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


class Opened(Server):
    """A client of a server of chat completions."""

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


def open_client(options: Options) -> Opened:
    """The client; nothing is sent yet. SettingsError names the variable that is missing."""
    import openai

    key = from_environment(options.api_key_env) if options.api_key_env else ""
    http_client = openai.DefaultHttpxClient(event_hooks=hooks(options.timeout_s))
    client = openai.OpenAI(api_key=key or NO_KEY, base_url=options.base_url, http_client=http_client)
    return Opened(client, options, key)
