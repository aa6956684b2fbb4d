"""Reads the options beside `provider:` in a config into the provider's own options class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from agents.models.credentials import refuse_pasted_keys
from tools.cli.validation import validation_sentences
from tools.errors import SettingsError


class ProviderOptions(BaseModel):
    """Base class of every provider's options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _check_address(value: str) -> str:
    try:
        split = urlsplit(value)
        # Reading the port checks it: one above 65535 is a ValueError.
        usable = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an address such as http://localhost:8000; write it with http:// or https://")
    return value


ServerAddress = Annotated[str, AfterValidator(_check_address)]
"""Address of a server, http or https."""
OptionsT = TypeVar("OptionsT", bound=ProviderOptions)


def read_options(provider: str, kind: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """Return `given` as an instance of `kind`; SettingsError names each wrong option, or an option that contains a
    pasted key."""
    refuse_pasted_keys(given)
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise SettingsError(f"{validation_sentences(error, kind, 'models.')} (provider {provider})") from None
