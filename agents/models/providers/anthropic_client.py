"""The options of `provider: anthropic`, the SDK client that they select, and the translation of its errors."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from agents.models import options as provider_options
from agents.models.credentials import read_key_from_environment
from agents.models.providers.server_failures import CONTEXT_FULL_PATTERN, PLACEHOLDER_KEY, SdkClient
from agents.models.time_limits import http_event_hooks
from tools.errors import KernelwrightError, ProviderError, SettingsError

KEY_VARIABLE = "ANTHROPIC_API_KEY"


class AnthropicOptions(provider_options.ProviderOptions):
    """Options of the provider `anthropic`."""

    model: str = Field(min_length=1)
    """Name of the model in the API."""
    max_tokens: int = Field(default=16_000, ge=1)
    """Output tokens of one answer, including thinking. An answer that does not fit is requested once more with twice as
    many."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """How much effort the model puts into an answer. Default: the model's own."""
    thinking: Literal["adaptive", "off"] | None = None
    """Whether the model thinks before it answers. Default: the model's own. Some models refuse `off`."""
    base_url: provider_options.ServerAddress | None = None
    """Address of another server with the same protocol; it receives no key unless `api_key_env` is given."""
    structured: Literal["none", "json_schema"] = "none"
    """Whether the server enforces the JSON schema of answers; drafts, which are code, are fenced in any case. The
    schema is part of the server's cache key, so that roles with different answers then share no cache. Without it
    the prompt explains the format, and an unreadable answer is requested again."""
    cache_ttl: Literal["5m", "1h"] = "1h"
    """How long the parts of a prompt that outlive an iteration stay in the cache; the other parts stay five minutes."""
    timeout_s: float = Field(default=900, gt=0, allow_inf_nan=False)
    """Seconds that one attempt may take, from the request to the end of the answer. A server that asks for a longer
    wait counts as overloaded."""
    max_retries: int = Field(default=4, ge=0, le=20)
    """How often a request is sent again when the server could not accept it."""
    platform: Literal["anthropic", "bedrock", "vertex"] = "anthropic"
    """Platform that serves the model: Anthropic (or `base_url`), Amazon Bedrock or Google Vertex AI."""
    region: str | None = None
    """Region of bedrock or vertex. Default: the region of their own environment."""
    project: str | None = None
    """Project of vertex. Default: the project of its own environment."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. Default: ANTHROPIC_API_KEY at Anthropic's own address, no
    key elsewhere."""

    @model_validator(mode="after")
    def _fits_platform(self) -> AnthropicOptions:
        if self.region is not None and self.platform == "anthropic":
            raise ValueError("region: only bedrock and vertex have one; remove it or choose one of these platforms")
        if self.project is not None and self.platform != "vertex":
            raise ValueError("project: only vertex has one; remove it or choose that platform")
        if self.api_key_env is not None and self.platform == "vertex":
            raise ValueError("api_key_env: vertex uses Google's application default credentials, not a key; remove it")
        return self


@dataclass(frozen=True)
class AnthropicClient(SdkClient):
    """The SDK client of the platform that the options name."""

    credential_error_types: tuple[type[Exception], ...] = ()
    """Exceptions that the platform's package raises about credentials."""

    @property
    def error_types(self) -> tuple[type[Exception], ...]:
        """Exceptions that a call can raise."""
        import anthropic

        return (anthropic.AnthropicError, *self.credential_error_types)

    @property
    def credentials_text(self) -> str:
        """The name of the key's variable, or a text about the platform's credentials."""
        return self.options.api_key_env or (
            KEY_VARIABLE if self.key else f"the credentials of platform {self.options.platform}"
        )

    def translate_error(self, error: Exception, role: str) -> KernelwrightError:
        """Translate an SDK error; covers errors without a status and the API's 400, which names the wrong option."""
        import anthropic

        said, entry = self.error_message(error), f"models.{role}"
        if isinstance(error, self.credential_error_types):
            return SettingsError(f"{entry}: {self.credentials_text} does not give access ({said}); correct it")
        if isinstance(error, anthropic.BadRequestError) and not CONTEXT_FULL_PATTERN.search(said):
            return SettingsError(f"{entry}: the server refuses the request ({said}); change the option that it names")
        if isinstance(error, anthropic.APITimeoutError):
            return ProviderError(
                f"{entry}: no answer came within {self.options.timeout_s:g} s, even after "
                f"{self.options.max_retries} retries"
            )
        if isinstance(error, anthropic.APIConnectionError):
            return ProviderError(
                f"{entry}: no server answers at {self.sdk.base_url}; check the network, or start a new run with "
                f"another base_url"
            )
        return super().translate_error(error, role)


def open_anthropic_client(options: AnthropicOptions) -> AnthropicClient:
    """Return the client without sending anything. SettingsError names a missing variable, package or option."""
    if options.platform == "bedrock":
        return _open_bedrock_client(options)
    if options.platform == "vertex":
        return _open_vertex_client(options)
    import anthropic

    variable = options.api_key_env or (None if options.base_url else KEY_VARIABLE)
    key = read_key_from_environment(variable) if variable else ""
    client = anthropic.Anthropic(api_key=key or PLACEHOLDER_KEY, **_client_arguments(options))
    return AnthropicClient(client, options, key)


def _open_bedrock_client(options: AnthropicOptions) -> AnthropicClient:
    import anthropic

    boto3, refusals = _import_optional("boto3", "bedrock"), _import_optional("botocore.exceptions", "bedrock")
    key = read_key_from_environment(options.api_key_env) if options.api_key_env else ""
    refused: tuple[type[Exception], ...] = (refusals.BotoCoreError, RuntimeError, ValueError)
    try:
        client = anthropic.AnthropicBedrock(
            aws_region=options.region, api_key=key or None, **_client_arguments(options)
        )
        found = client.api_key or boto3.Session().get_credentials()
    except refused as error:
        raise SettingsError(
            f"models.region: bedrock cannot be set up ({error}); give a region, or correct your AWS configuration"
        ) from error
    if not found:
        raise SettingsError(
            "models.platform: bedrock finds no AWS credentials; run `aws configure`, or name a variable in api_key_env"
        )
    return AnthropicClient(client, options, client.api_key or "", refused[:2])


def _open_vertex_client(options: AnthropicOptions) -> AnthropicClient:
    import anthropic

    auth, refusals = _import_optional("google.auth", "vertex"), _import_optional("google.auth.exceptions", "vertex")
    refused: tuple[type[Exception], ...] = (refusals.GoogleAuthError, RuntimeError)
    try:
        credentials, project = auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        project = options.project or project
        if not project:
            raise SettingsError("models.project: vertex needs a project, and your credentials name none; add it")
        region = options.region or anthropic.not_given
        client = anthropic.AnthropicVertex(
            project_id=project, region=region, credentials=credentials, **_client_arguments(options)
        )
    except refused as error:
        raise SettingsError(
            f"models.platform: vertex finds no credentials ({error}); run `gcloud auth application-default login`"
        ) from error
    except ValueError as error:
        raise SettingsError("models.region: vertex needs a region; add it, or set CLOUD_ML_REGION") from error
    return AnthropicClient(client, options, "", refused)


def _import_optional(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SettingsError(
            f'models.platform: {extra} needs another package; run `pip install "kernelwright[{extra}]"`'
        ) from error


def _client_arguments(options: AnthropicOptions) -> dict[str, Any]:
    """Return the arguments that all SDK clients take."""
    import anthropic

    return {
        "base_url": options.base_url,
        "http_client": anthropic.DefaultHttpxClient(event_hooks=http_event_hooks(options.timeout_s)),
    }
