"""What pydantic refuses in a user's file, a sentence each: the key, what is allowed there, what to do. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel, ValidationError

from tools.cli.suggestions import meant

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails
    from yaml import Mark, YAMLError

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
_OPENED = {
    "while parsing a flow sequence": "the [ in that line is not closed",
    "while parsing a flow mapping": "the { in that line is not closed",
    "while scanning a quoted scalar": "the quote that begins in that line does not end",
}
"""What the YAML parser was at when it could not go on -> what was opened there."""
TWICE = "a key that stands twice"
UNREADABLE = "a value that is none of its type"
MERGE = "tag:yaml.org,2002:merge"
"""Of the key `<<`."""
_SHOWN = 40
"""Characters of the value that are repeated to the user."""


def read_yaml(text: str) -> object:
    """What a YAML file of a person's says; YAMLError, for `no_yaml`, also where a key stands twice: one of the two
    would be lost.

    Keys are compared as they were written: what `<<` takes over from another mapping may be set anew.
    """
    import yaml

    plain = yaml.constructor.SafeConstructor()
    pending = [yaml.compose(text, yaml.SafeLoader)]
    known: set[int] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.ScalarNode):
            try:
                plain.construct_object(node)
            except (ValueError, LookupError, AttributeError) as error:
                # Such as 2024-99-99, which looks like a date, or `!!bool five`.
                raise yaml.constructor.ConstructorError(UNREADABLE, None, node.value, node.start_mark) from error
        if not isinstance(node, yaml.CollectionNode) or id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
            continue
        seen: set[tuple[str, str]] = set()
        for key, value in node.value:
            pending.append(value)
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                pending.append(key)
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(TWICE, None, key.value, key.start_mark)
                seen.add((key.tag, key.value))
    return yaml.safe_load(text)


def no_yaml(path: Path | str, error: YAMLError) -> str:
    """What is wrong with a YAML file that cannot be parsed, and in which line: where it opened, of what is not
    closed."""
    mark: Mark | None = getattr(error, "problem_mark", None)
    context = str(getattr(error, "context", None))
    if context == TWICE and mark:
        return f"{path}:{mark.line + 1}: the key {getattr(error, 'problem', '')!r} stands twice; keep one of the two"
    if context == UNREADABLE and mark:
        value = str(getattr(error, "problem", ""))[:_SHOWN]
        return (
            f"{path}:{mark.line + 1}: {value!r} cannot be read as the date or number that it looks like; put it "
            f"in quotes"
        )
    opened: Mark | None = getattr(error, "context_mark", None)
    if opened and context in _OPENED:
        return f"{path}:{opened.line + 1}: not valid YAML; {_OPENED[context]}"
    return f"{path}{f':{mark.line + 1}' if mark else ''}: not valid YAML; check the indentation and quotes there"


def sentences(
    error: ValidationError, model: type[BaseModel], origin: str, elsewhere: Mapping[str, str] | None = None
) -> str:
    """The problems of `error`, found while reading `model`, a line each behind `origin`; a validator's own sentences
    stay as they are.

    `elsewhere`: keys that belong to another file -> where they stand.

    Unknown keys come before all others, and a key that is missing because it was misspelt has no line of its own.
    """
    strange = [problem["loc"] for problem in error.errors() if problem["type"] == "extra_forbidden"]
    misspelt = {
        (*at, name)
        for *at, word in strange
        for name in _section(model, tuple(at)).model_fields
        if meant(str(word), [name])
    }
    problems = [problem for problem in error.errors() if problem["type"] != "missing" or problem["loc"] not in misspelt]
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    return "\n".join(
        f"{origin}{line}" for problem in problems for line in _sentence(problem, model, elsewhere or {}).splitlines()
    )


def _sentence(problem: ErrorDetails, model: type[BaseModel], elsewhere: Mapping[str, str]) -> str:
    # pydantic marks a key that is not allowed, as against its value.
    key = ".".join(str(part) for part in problem["loc"] if part != "[key]")
    owner = _section(model, problem["loc"][:-1])
    if problem["type"] == "extra_forbidden":
        if key in elsewhere:
            return f"{key}: does not stand here; {elsewhere[key]}"
        hint = meant(str(problem["loc"][-1]), owner.model_fields, "remove it.")
        return f"{key}: unknown key; {hint} Allowed here: {_keys(owner)}"
    if problem["type"] == "value_error":
        message = problem["msg"].removeprefix("Value error, ")
        return f"{key}: {message}" if key else message
    if problem["type"] == "missing":
        return f"{key}: is missing; add it"
    given = repr(problem["input"])
    found = f", not {given}" if len(given) <= _SHOWN else ""
    if problem["type"] == "model_type":
        section = _section(model, problem["loc"])
        example = next(iter(section.model_fields))
        named = f"{key}: " if key else ""
        return f"{named}must hold keys and values such as `{example}: …`{found}; allowed here are {_keys(section)}"
    rule = re.sub(r"^(Input|Value) should (be|have)", lambda m: "must " + m[2], problem["msg"].split(", unable to")[0])
    for technical, plain in _PLAIN.items():
        rule = rule.replace(technical, plain)
    return f"{key}: {rule}{found}; {_mended(problem)}"


def _mended(problem: ErrorDetails) -> str:
    """What to write instead, where that can be told."""
    given, kind = problem["input"], problem["type"]
    if kind == "literal_error":
        return meant(
            str(given), re.findall(r"'([^']*)'", str(problem.get("ctx", {}).get("expected"))), "change it there"
        )
    if kind in ("int_type", "float_type") and isinstance(given, str | float):
        # YAML takes 1e6, as it takes what stands in quotes, for text.
        try:
            number = float(given)
        except ValueError:
            return "change it there"
        if number.is_integer():
            return f"write {int(number)}"
        if kind == "float_type" and math.isfinite(number):
            return f"write {number!r}"
    return "change it there"


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
