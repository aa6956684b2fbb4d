"""Keys come from the environment by the name of a variable; they stand in no config, record, event, log or message."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from agents.models.redaction import KEYLIKE
from tools.errors import SettingsError

VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
NAMED_LIKE_KEYS = re.compile(r"(?:^|[_.-])(?:api_?key|key|token|secret|password|credentials?|authorization)(?:$|[_-])")


class UnsetKeyError(SettingsError):
    """The variable that shall hold a key is not set."""


def refuse_pasted(options: Mapping[str, object], name_of_variable: str = "api_key_env") -> None:
    """SettingsError where an option is, or looks like, a key itself; the message does not repeat it.

    `name_of_variable`: the option that holds the NAME of an environment variable.
    """
    for option, value in options.items():
        text = "" if value is None else str(value)
        if isinstance(value, Mapping):
            refuse_pasted({f"{option}.{name}": inner for name, inner in value.items()}, name_of_variable)
            continue
        if option == name_of_variable and value is not None:
            pasted = not VARIABLE.fullmatch(text) or bool(KEYLIKE.fullmatch(text))
        else:
            pasted = bool(NAMED_LIKE_KEYS.search(option.lower()) and isinstance(value, str)) or bool(
                KEYLIKE.search(text)
            )
        if pasted:
            raise SettingsError(
                f"models.{option}: looks like a key, and a config is copied into workspaces and git; put the key into "
                f"an environment "
                f"variable, give that variable's name (capitals, digits, underscores) as {name_of_variable}, and "
                f"revoke a shared key"
            )
        if option == "base_url" and ("@" in text.partition("//")[2].partition("/")[0] or "?" in text):
            raise SettingsError(
                "models.base_url: must hold no user, password or query; give the key's environment variable as "
                "api_key_env"
            )


def from_environment(variable: str) -> str:
    """The key that the environment variable holds; UnsetKeyError that names it when it is missing or empty."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UnsetKeyError(
            f"models.api_key_env: the environment variable {variable} is not set; export it with your key and run again"
        )
    return key
