"""What a user wrote beside `provider:`, read into a provider's own model of its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.models.credentials import refuse_pasted
from tools.cli.validation import sentences
from tools.errors import SettingsError


class Options(BaseModel):
    """Base of every provider's options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


OptionsT = TypeVar("OptionsT", bound=Options)


def read(provider: str, kind: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """`given` as `kind`; SettingsError with a line for each key at fault, or for the option that a key is pasted into."""
    refuse_pasted(given)
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise SettingsError(f"{sentences(error, kind, 'models.')} (provider {provider})") from None
