"""What pydantic refuses in a user's file, as one sentence: the key, what is allowed there, what to do. Pure."""

from __future__ import annotations

import re
from typing import get_args

from pydantic import BaseModel, ValidationError

from tools.spelling import meant

_PLAIN = {
    "a valid dictionary": "keys and values",
    "a valid tuple": "a list",
    "a valid list": "a list",
    "a valid set": "a list",
    "a valid string": "a string",
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid boolean": "true or false",
}
_SHOWN = 40
"""Characters of the value that are repeated to the user."""


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first problem of `error`, found while reading `model`; a validator's own sentence stays as it is.

    An unknown key comes before all others: a key that is missing is often the one that was misspelt.
    """
    first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    # pydantic marks a key that is not allowed, as against its value.
    key = ".".join(str(part) for part in first["loc"] if part != "[key]")
    owner = _section(model, first["loc"][:-1])
    if first["type"] == "extra_forbidden":
        hint = meant(str(first["loc"][-1]), owner.model_fields, "remove it.")
        return f"{key}: unknown key; {hint} Allowed here: {_keys(owner)}"
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        return f"{key}: {message}" if key else message
    if first["type"] == "missing":
        return f"{key}: is missing; add it"
    given = repr(first["input"])
    found = f", not {given}" if len(given) <= _SHOWN else ""
    if first["type"] == "model_type":
        section = _section(model, first["loc"])
        example = next(iter(section.model_fields))
        named = f"{key}: " if key else ""
        return f"{named}must hold keys and values such as `{example}: …`{found}; allowed here are {_keys(section)}"
    rule = re.sub(r"^(Input|Value) should (be|have)", lambda m: "must " + m[2], first["msg"].split(", unable to")[0])
    for technical, plain in _PLAIN.items():
        rule = rule.replace(technical, plain)
    return f"{key}: {rule}{found}; change it there"


def _keys(section: type[BaseModel]) -> str:
    own = ", ".join(sorted(section.model_fields))
    return f"{own} and options of its own" if section.model_config.get("extra") == "allow" else own


def _section(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that `location` leads to, also through a mapping to models."""
    section = model
    for part in location:
        field = section.model_fields.get(str(part))
        if field is not None:
            nested = (field.annotation, *get_args(field.annotation))
            section = next((kind for kind in nested if isinstance(kind, type) and issubclass(kind, BaseModel)), section)
    return section
