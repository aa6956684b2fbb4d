"""What a config may say of a server that speaks chat completions."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, field_validator

from agents.models import options as given

OWN = ("messages", "model", "stream", "stream_options", "tools", "response_format", "max_tokens", "max_completion_tokens", "n")
"""Keys of a request's body that are made here."""


class Options(given.Options):
    """The role's entry in the config, less `provider`."""

    model: str = Field(min_length=1)
    """As the server names it."""
    base_url: str
    """Always written out, for a hosted service too, so that no prompt goes to a place that the config does not name."""
    api_key_env: str | None = None
    """Name of the variable that holds the key; none: no key is sent."""
    max_tokens: int = Field(default=16_000, ge=1)
    """Output of one call, thinking included; an answer that runs into it is asked to go on, twice."""
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds of the longest silence, not the length of the whole answer, which is streamed; a server that asks us to wait longer is
    overloaded."""
    answer_s: float = Field(default=3600.0, gt=0, allow_inf_nan=False)
    """Seconds that one answer may take in all; some servers send signs of life for ever."""
    max_retries: int = Field(default=4, ge=0, le=20)
    """Times that a request is sent again when the server could not take it."""
    structured: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    """How an answer's form is asked of the server; auto: a JSON schema, but drafts, which are code, in fenced blocks."""
    tools: Literal["auto", "off"] = "auto"
    """Whether the coder's tools are offered; auto: until the server is found to take none."""
    effort: str | None = None
    """Sent as reasoning_effort."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """More of the request's body, as the server names it."""

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        try:
            split = urlsplit(value)
            # Read for its own check: a port beyond 65535 is a ValueError.
            usable = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("must be an address such as http://localhost:8000/v1; write it with http:// or https://")
        return value

    @field_validator("extra")
    @classmethod
    def _more(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted(set(value) & set(OWN)):
            raise ValueError(f"must not hold {', '.join(taken)}, which Kernelwright writes itself; take it out")
        return value
