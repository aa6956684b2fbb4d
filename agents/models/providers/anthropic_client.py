"""How to reach Anthropic's models: the options of `provider: anthropic`, the SDK's client that they ask for, and its
errors as ours."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from agents.models import options as given
from agents.models.credentials import from_environment
from agents.models.providers.server_failures import NO_KEY, TOO_LONG, Server
from agents.models.time_limits import hooks
from tools.errors import KernelwrightError, ProviderError, SettingsError

KEY = "ANTHROPIC_API_KEY"


class Options(given.Options):
    """A role's entry in the config, less `provider`."""

    model: str = Field(min_length=1)
    """As the API names it."""
    max_tokens: int = Field(default=16_000, ge=1)
    """Output of one answer, thinking included; an answer that does not fit is asked for again with twice as much,
    once."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """Default: the model's own."""
    thinking: Literal["adaptive", "off"] | None = None
    """Default: the model's own. Some models refuse `off`."""
    base_url: given.Address | None = None
    """A server that speaks the same protocol; no key is sent there unless `api_key_env` is given."""
    structured: Literal["none", "json_schema"] = "none"
    """Whether the server holds answers to their JSON schema; drafts, which are code, are fenced all the same. It is
    part of the cache's key there, so that roles, which owe different answers, then share nothing; without it the
    prompt says the form, and what cannot be read is asked for again."""
    cache_ttl: Literal["5m", "1h"] = "1h"
    """How long what outlives an iteration stays in the cache unread; the rest of a prompt is kept for five minutes."""
    timeout_s: float = Field(default=900, gt=0, allow_inf_nan=False)
    """Seconds that one attempt may take, from the request to the answer's end; a server that asks us to wait longer
    is overloaded."""
    max_retries: int = Field(default=4, ge=0, le=20)
    """Times that a request is sent again when the server could not take it."""
    platform: Literal["anthropic", "bedrock", "vertex"] = "anthropic"
    """Who serves it: Anthropic (or `base_url`), Amazon Bedrock, Google Vertex AI."""
    region: str | None = None
    """Of bedrock or vertex; default: what their own environment says."""
    project: str | None = None
    """Of vertex; default: what its own environment says."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. Default: ANTHROPIC_API_KEY at Anthropic's own address,
    none elsewhere."""

    @model_validator(mode="after")
    def _fits_platform(self) -> Options:
        if self.region is not None and self.platform == "anthropic":
            raise ValueError("region: belongs to platform bedrock or vertex; remove it or choose one of them")
        if self.project is not None and self.platform != "vertex":
            raise ValueError("project: belongs to platform vertex; remove it or choose that")
        if self.api_key_env is not None and self.platform == "vertex":
            raise ValueError("api_key_env: vertex takes Google's application default credentials and no key; remove it")
        return self


@dataclass(frozen=True)
class Opened(Server):
    """A client of the platform that the options name."""

    refusals: tuple[type[Exception], ...] = ()
    """What the platform's package raises about credentials."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a call can raise."""
        import anthropic

        return (anthropic.AnthropicError, *self.refusals)

    @property
    def credentials(self) -> str:
        """The variable of the key, or the platform."""
        return self.options.api_key_env or (KEY if self.key else f"the credentials of platform {self.options.platform}")

    def failure(self, error: Exception, role: str) -> KernelwrightError:
        """The same for errors without a status, and for the API's 400, which names the option at fault."""
        import anthropic

        said, entry = self.message(error), f"models.{role}"
        if isinstance(error, self.refusals):
            return SettingsError(f"{entry}: {self.credentials} does not give access ({said}); correct them")
        if isinstance(error, anthropic.BadRequestError) and not TOO_LONG.search(said):
            return SettingsError(f"{entry}: the server refuses the request ({said}); change the option it names")
        if isinstance(error, anthropic.APITimeoutError):
            return ProviderError(
                f"{entry}: no answer within {self.options.timeout_s:g} s, also after {self.options.max_retries} retries"
            )
        if isinstance(error, anthropic.APIConnectionError):
            return ProviderError(
                f"{entry}: no server answers at {self.client.base_url}; mend the network, or start anew with another "
                f"base_url"
            )
        return super().failure(error, role)


def open_client(options: Options) -> Opened:
    """The client; nothing is sent yet. SettingsError names the variable, package or option that is missing."""
    if options.platform == "bedrock":
        return _bedrock(options)
    if options.platform == "vertex":
        return _vertex(options)
    import anthropic

    variable = options.api_key_env or (None if options.base_url else KEY)
    key = from_environment(variable) if variable else ""
    client = anthropic.Anthropic(api_key=key or NO_KEY, **_reached(options))
    return Opened(client, options, key)


def _bedrock(options: Options) -> Opened:
    import anthropic

    boto3, refusals = _extra("boto3", "bedrock"), _extra("botocore.exceptions", "bedrock")
    key = from_environment(options.api_key_env) if options.api_key_env else ""
    refused: tuple[type[Exception], ...] = (refusals.BotoCoreError, RuntimeError, ValueError)
    try:
        client = anthropic.AnthropicBedrock(aws_region=options.region, api_key=key or None, **_reached(options))
        found = client.api_key or boto3.Session().get_credentials()
    except refused as error:
        raise SettingsError(
            f"models.region: bedrock cannot be set up ({error}); give a region, or mend your AWS configuration"
        ) from error
    if not found:
        raise SettingsError(
            "models.platform: bedrock finds no AWS credentials; run `aws configure`, or name a variable in api_key_env"
        )
    return Opened(client, options, client.api_key or "", refused[:2])


def _vertex(options: Options) -> Opened:
    import anthropic

    auth, refusals = _extra("google.auth", "vertex"), _extra("google.auth.exceptions", "vertex")
    refused: tuple[type[Exception], ...] = (refusals.GoogleAuthError, RuntimeError)
    try:
        credentials, project = auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        project = options.project or project
        if not project:
            raise SettingsError("models.project: vertex needs a project and your credentials name none; add it")
        region = options.region or anthropic.not_given
        client = anthropic.AnthropicVertex(
            project_id=project, region=region, credentials=credentials, **_reached(options)
        )
    except refused as error:
        raise SettingsError(
            f"models.platform: vertex finds no credentials ({error}); run `gcloud auth application-default login`"
        ) from error
    except ValueError as error:
        raise SettingsError("models.region: vertex needs one; add it, or set CLOUD_ML_REGION") from error
    return Opened(client, options, "", refused)


def _extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SettingsError(
            f'models.platform: {extra} needs a package more; run `pip install "kernelwright[{extra}]"`'
        ) from error


def _reached(options: Options) -> dict[str, Any]:
    """What all clients take."""
    import anthropic

    return {
        "base_url": options.base_url,
        "http_client": anthropic.DefaultHttpxClient(event_hooks=hooks(options.timeout_s)),
    }
