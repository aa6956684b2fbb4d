"""Takes out of text what must not leave the machine with it: keys, home folders, addresses. Pure but for the
environment it reads."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.store.repository import SECRET_PATTERN

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""In the name of an environment variable: its value is taken out wherever it stands."""
SHORTEST = 8
"""Characters of such a value; a shorter one (a flag, a number) stands in too many texts that mean something else."""
KEYLIKE = re.compile(SECRET_PATTERN.pattern.decode())
"""What a commit is refused for."""
TOKENS = re.compile(
    r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+|(?<=Bearer )\S{8,}"
    # Long runs of letters and digits in both cases: no identifier is like that, base64 and tokens are.
    r"|(?<![\w+/-])(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])(?=(?:[A-Za-z+/-]*\d){4})[A-Za-z0-9+/-]{32,}={0,2}(?![\w+/-])"
)
HOME = re.compile(r"/(?:home|Users)/[^/\s\"'`:;,)]+")
# In Python `x@w.t()` multiplies two matrices: the last part of an address is a word in small letters that is not
# called.
ADDRESS = re.compile(r"\b[A-Za-z0-9][\w.+-]+@(?:[a-z0-9-]+\.)+[a-z]{2,24}\b(?![\w(\[.]*[(\[])")


def without_keys(text: str, *known: str) -> str:
    """`text` with `<secret>` in the place of the keys that are `known`, those of the environment, and what looks
    like one of a provider."""
    for value in (*filter(None, known), *_own_secrets()):
        text = text.replace(value, "<secret>")
    return KEYLIKE.sub("<secret>", text)


def redacted(text: str) -> str:
    """The same for text that leaves the machine: with `~` and `<address>` besides, and without tokens of other
    kinds."""
    text = TOKENS.sub("<secret>", without_keys(text))
    own = str(Path.home())
    if len(own) > 1:
        text = re.sub(rf"{re.escape(own)}(?![\w.-])", "~", text)
    return ADDRESS.sub("<address>", HOME.sub("~", text))


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {each_text(name, change): each_text(inner, change) for name, inner in value.items()}
    return [each_text(inner, change) for inner in value] if isinstance(value, (list, tuple)) else value


def _own_secrets() -> tuple[str, ...]:
    found = {
        value
        for name, value in os.environ.items()
        if SECRET_NAME.search(name) and len(value) >= SHORTEST and "/" not in value[:1]
    }
    return tuple(sorted(found, key=len, reverse=True))
