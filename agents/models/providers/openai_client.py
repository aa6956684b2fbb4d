"""The options of `provider: openai_compatible`, the `openai` SDK's client, and the translation of its errors."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, field_validator

from agents.models import options as provider_options
from agents.models.credentials import read_key_from_environment
from agents.models.providers.server_failures import PLACEHOLDER_KEY, SdkClient
from agents.models.time_limits import http_event_hooks
from tools.errors import KernelwrightError, ProviderError

START_SERVER_HINT = (
    "start it (for example `vllm serve MODEL`, `python -m sglang.launch_server`, `llama-server -m FILE`, "
    "`ollama serve`)"
)
RESERVED_BODY_KEYS = (
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
"""Keys of a request's body that Kernelwright writes itself."""


class OpenAIOptions(provider_options.ProviderOptions):
    """Options of the provider `openai_compatible`."""

    model: str = Field(min_length=1)
    """Name of the model on the server."""
    base_url: provider_options.ServerAddress
    """Address of the server. It is required for hosted services too, so that no prompt goes to an address that the
    config does not name."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. Default: no key is sent."""
    max_tokens: int = Field(default=16_000, ge=1)
    """Output tokens of one call, including thinking. An answer that reaches the limit is continued at most twice."""
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Longest silence of the server in seconds; a streamed answer may take longer. A server that asks for a longer wait
    counts as overloaded."""
    answer_s: float = Field(default=3600.0, gt=0, allow_inf_nan=False)
    """Seconds that one whole answer may take; some servers send keep-alive bytes for ever."""
    max_retries: int = Field(default=4, ge=0, le=20)
    """How often a request is sent again when the server could not accept it."""
    structured: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    """How the server is asked for the format of answers. auto: a JSON schema, except for drafts, which are code in
    fenced blocks."""
    tools: Literal["auto", "off"] = "auto"
    """Whether the coder may call tools. auto: yes, unless the server proves to support none."""
    effort: str | None = None
    """Value of the request's reasoning_effort. Default: not sent."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Further keys of the request's body, as the server names them."""

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted(set(value) & set(RESERVED_BODY_KEYS)):
            raise ValueError(f"must not hold {', '.join(taken)}, which Kernelwright writes itself; remove it")
        return value


class OpenAIClient(SdkClient):
    """The SDK client of a server for chat completions."""

    @property
    def error_types(self) -> tuple[type[Exception], ...]:
        import openai

        return (openai.OpenAIError,)

    def translate_error(self, error: Exception, role: str) -> KernelwrightError:
        """Translate an SDK error, one without an answer too."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            return self.silence_error(role)
        if isinstance(error, openai.APIConnectionError):
            return self.no_server_error(role)
        return super().translate_error(error, role)

    def silence_error(self, role: str) -> ProviderError:
        """Return the error for a server that stays silent longer than timeout_s."""
        quiet = f"sent nothing for {self.options.timeout_s:g} s; raise models.{role}.timeout_s, or check the server"
        return ProviderError(f"models.{role}: {self.model_and_address} {quiet}")

    def slow_answer_error(self, role: str) -> ProviderError:
        """Return the error for an answer that takes longer than answer_s."""
        too_long = (
            f"has not finished after {self.options.answer_s:g} s; raise models.{role}.answer_s, or lower max_tokens"
        )
        return ProviderError(f"models.{role}: {self.model_and_address} {too_long}")

    def no_server_error(self, role: str) -> ProviderError:
        """Return the error for an address where no server answers."""
        return ProviderError(
            f"models.{role}: no server answers at {self.options.base_url}; {START_SERVER_HINT}, or start a new run "
            f"with another base_url"
        )


def open_openai_client(options: OpenAIOptions) -> OpenAIClient:
    """Return the client without sending anything. SettingsError names a missing variable."""
    import openai

    key = read_key_from_environment(options.api_key_env) if options.api_key_env else ""
    http_client = openai.DefaultHttpxClient(event_hooks=http_event_hooks(options.timeout_s))
    client = openai.OpenAI(api_key=key or PLACEHOLDER_KEY, base_url=options.base_url, http_client=http_client)
    return OpenAIClient(client, options, key)
