"""Keys come from the environment by the name of a variable; they stand in no config, record, event, log or message."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tools.errors import SettingsError
from tools.repository import SECRETS

VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
KEYLIKE = re.compile(SECRETS.pattern.decode())
NAMED_LIKE_KEYS = re.compile(r"(?:^|_)(?:key|token|secret|password|credentials?|authorization)(?:$|_)")
HIDDEN = "[key]"


def refuse_pasted(options: Mapping[str, object], name_of_variable: str = "api_key_env") -> None:
    """SettingsError where an option is, or looks like, a key itself; the message does not repeat it.

    `name_of_variable`: the option that holds the NAME of an environment variable.
    """
    for option, value in options.items():
        text = str(value)
        if option == name_of_variable:
            pasted = not VARIABLE.fullmatch(text) or bool(KEYLIKE.fullmatch(text))
        else:
            pasted = bool(NAMED_LIKE_KEYS.search(option.lower()) and isinstance(value, str)) or bool(KEYLIKE.search(text))
        if pasted:
            raise SettingsError(
                f"models.{option}: looks like a key, and a config is copied into workspaces and git; put the key into an environment "
                f"variable, give that variable's name (capitals, digits, underscores) as {name_of_variable}, and revoke a shared key"
            )
        if option == "base_url" and ("@" in text.partition("//")[2].partition("/")[0] or "?" in text):
            raise SettingsError("models.base_url: must hold no user, password or query; give the key's environment variable as api_key_env")


def from_environment(variable: str) -> str:
    """The key that the environment variable holds; SettingsError that names it when it is missing or empty."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise SettingsError(f"models.api_key_env: the environment variable {variable} is not set; export it with your key and run again")
    return key


def redacted(text: str, key: str) -> str:
    """`text`, which came from outside, without `key` or anything that looks like one."""
    return KEYLIKE.sub(HIDDEN, text.replace(key, HIDDEN) if key else text)
