"""Reads keys from environment variables; no key appears in a config, record, event, log or message."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from agents.models.redaction import KEY_PATTERN
from tools.errors import SettingsError

VARIABLE_NAME_PATTERN = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
KEY_OPTION_PATTERN = re.compile(
    r"(?:^|[_.-])(?:api_?key|key|token|secret|password|credentials?|authorization)(?:$|[_-])"
)


class UnsetKeyError(SettingsError):
    """The environment variable that should hold a key is not set."""


def refuse_pasted_keys(options: Mapping[str, object], name_of_variable: str = "api_key_env") -> None:
    """Raise SettingsError if an option is, or looks like, a key itself; the message does not repeat the value.

    `name_of_variable`: the option that holds the NAME of an environment variable.
    """
    for option, value in options.items():
        text = "" if value is None else str(value)
        if isinstance(value, Mapping):
            refuse_pasted_keys({f"{option}.{name}": inner for name, inner in value.items()}, name_of_variable)
            continue
        if option == name_of_variable and value is not None:
            pasted = not VARIABLE_NAME_PATTERN.fullmatch(text) or bool(KEY_PATTERN.fullmatch(text))
        else:
            pasted = bool(KEY_OPTION_PATTERN.search(option.lower()) and isinstance(value, str)) or bool(
                KEY_PATTERN.search(text)
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


def read_key_from_environment(variable: str) -> str:
    """Return the key in the environment variable; UnsetKeyError names the variable if it is missing or empty."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UnsetKeyError(
            f"models.api_key_env: the environment variable {variable} is not set; export it with your key and run again"
        )
    return key
