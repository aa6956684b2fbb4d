"""Removes from text what must not leave the machine: keys, home folders, e-mail addresses. Pure, except that it reads
the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.store.repository import SECRET_PATTERN

SECRET_NAME_PATTERN = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Matches the name of an environment variable whose value is removed wherever it occurs."""
MIN_SECRET_CHARS = 8
"""Least length of such a value; a shorter one (a flag, a number) occurs in too many unrelated texts."""
KEY_PATTERN = re.compile(SECRET_PATTERN.pattern.decode())
"""Matches the keys for which a commit is refused."""
TOKEN_PATTERN = re.compile(
    r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+|(?<=Bearer )\S{8,}"
    # Long runs of letters and digits in both cases: base64 and tokens look like that, identifiers do not.
    r"|(?<![\w+/-])(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])(?=(?:[A-Za-z+/-]*\d){4})[A-Za-z0-9+/-]{32,}={0,2}(?![\w+/-])"
)
HOME_PATTERN = re.compile(r"/(?:home|Users)/[^/\s\"'`:;,)]+")
# In Python `x@w.t()` multiplies two matrices, so the last part of an address is a lower-case word that is not called.
EMAIL_PATTERN = re.compile(r"\b[A-Za-z0-9][\w.+-]+@(?:[a-z0-9-]+\.)+[a-z]{2,24}\b(?![\w(\[.]*[(\[])")


def remove_keys(text: str, *known: str) -> str:
    """Return `text` with `<secret>` in place of the `known` keys, the secrets of the environment, and anything that
    looks like a provider's key."""
    for value in (*filter(None, known), *_environment_secrets()):
        text = text.replace(value, "<secret>")
    return KEY_PATTERN.sub("<secret>", text)


def redact(text: str) -> str:
    """Return `text` without keys and tokens, with `~` for home folders and `<address>` for e-mail addresses, for text
    that leaves the machine."""
    text = TOKEN_PATTERN.sub("<secret>", remove_keys(text))
    own = str(Path.home())
    if len(own) > 1:
        text = re.sub(rf"{re.escape(own)}(?![\w.-])", "~", text)
    return EMAIL_PATTERN.sub("<address>", HOME_PATTERN.sub("~", text))


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return `value` with `change` applied to every string in it, keys of dictionaries included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_texts(name, change): map_texts(inner, change) for name, inner in value.items()}
    return [map_texts(inner, change) for inner in value] if isinstance(value, (list, tuple)) else value


def _environment_secrets() -> tuple[str, ...]:
    found = {
        value
        for name, value in os.environ.items()
        if SECRET_NAME_PATTERN.search(name) and len(value) >= MIN_SECRET_CHARS and "/" not in value[:1]
    }
    return tuple(sorted(found, key=len, reverse=True))
