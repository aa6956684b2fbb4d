"""What a user wrote beside `provider:`, read into a provider's own model of its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from agents.models.credentials import refuse_pasted
from tools.cli.validation import validation_sentences
from tools.errors import SettingsError


class Options(BaseModel):
    """Base of every provider's options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _address(value: str) -> str:
    try:
        split = urlsplit(value)
        # Read for its own check: a port beyond 65535 is a ValueError.
        usable = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an address such as http://localhost:8000; write it with http:// or https://")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""Of a server."""
OptionsT = TypeVar("OptionsT", bound=Options)


def read(provider: str, kind: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """`given` as `kind`; SettingsError with a line for each key at fault, or for the option that a key is pasted
    into."""
    refuse_pasted(given)
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise SettingsError(f"{validation_sentences(error, kind, 'models.')} (provider {provider})") from None
