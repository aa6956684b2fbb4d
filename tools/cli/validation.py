"""Turns pydantic's errors about a user's file into sentences: the key, what is allowed, what to do. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel, ValidationError

from tools.cli.suggestions import suggest_name

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails
    from yaml import Mark, YAMLError

_PLAIN_WORDS = {
    "a valid dictionary": "keys and values",
    "a valid tuple": "a list",
    "a valid list": "a list",
    "a valid set": "a list",
    "a valid string": "a string",
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid boolean": "true or false",
}
_UNCLOSED = {
    "while parsing a flow sequence": "the [ in that line is not closed",
    "while parsing a flow mapping": "the { in that line is not closed",
    "while scanning a quoted scalar": "the quote that begins in that line does not end",
}
"""The YAML parser's context at an error -> a sentence about the unclosed element."""
DUPLICATE_KEY = "a duplicate key"
UNREADABLE_VALUE = "a value that is none of its type"
MERGE_TAG = "tag:yaml.org,2002:merge"
"""Tag of the key `<<`."""
_MAX_SHOWN_CHARACTERS = 40
"""Characters of a value that a message repeats."""


def read_yaml(text: str) -> object:
    """Parse a user's YAML file. Raises YAMLError (see `yaml_fault`), also for a duplicate key, of which one would be
    lost.

    Keys are compared as they are written: a key that `<<` takes over from another mapping may be set again.
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
                raise yaml.constructor.ConstructorError(UNREADABLE_VALUE, None, node.value, node.start_mark) from error
        if not isinstance(node, yaml.CollectionNode) or id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
            continue
        seen: set[tuple[str, str]] = set()
        for key, value in node.value:
            pending.append(value)
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                pending.append(key)
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(DUPLICATE_KEY, None, key.value, key.start_mark)
                seen.add((key.tag, key.value))
    return yaml.safe_load(text)


def yaml_fault(path: Path | str, error: YAMLError) -> str:
    """Return one sentence on a YAML file that cannot be parsed, with the line; for an unclosed element, its first
    line."""
    mark: Mark | None = getattr(error, "problem_mark", None)
    context = str(getattr(error, "context", None))
    if context == DUPLICATE_KEY and mark:
        return f"{path}:{mark.line + 1}: the key {getattr(error, 'problem', '')!r} is there twice; keep one of the two"
    if context == UNREADABLE_VALUE and mark:
        value = str(getattr(error, "problem", ""))[:_MAX_SHOWN_CHARACTERS]
        return (
            f"{path}:{mark.line + 1}: {value!r} cannot be read as the date or number that it looks like; put it "
            f"in quotes"
        )
    opened: Mark | None = getattr(error, "context_mark", None)
    if opened and context in _UNCLOSED:
        return f"{path}:{opened.line + 1}: not valid YAML; {_UNCLOSED[context]}"
    return f"{path}{f':{mark.line + 1}' if mark else ''}: not valid YAML; check the indentation and quotes there"


def validation_sentences(
    error: ValidationError, model: type[BaseModel], origin: str, elsewhere: Mapping[str, str] | None = None
) -> str:
    """Return the problems of `error` in reading `model`, one line each after `origin`; a validator's own sentences stay
    unchanged.

    `elsewhere` maps keys of another file to a sentence about their place.

    Unknown keys come first, and a key that is missing because it was misspelt has no line.
    """
    strange = [problem["loc"] for problem in error.errors() if problem["type"] == "extra_forbidden"]
    misspelt = {
        (*at, name)
        for *at, word in strange
        for name in _model_at(model, tuple(at)).model_fields
        if suggest_name(str(word), [name])
    }
    problems = [problem for problem in error.errors() if problem["type"] != "missing" or problem["loc"] not in misspelt]
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    return "\n".join(
        f"{origin}{line}" for problem in problems for line in _sentence(problem, model, elsewhere or {}).splitlines()
    )


def _sentence(problem: ErrorDetails, model: type[BaseModel], elsewhere: Mapping[str, str]) -> str:
    # pydantic marks a key that is not allowed, as against its value.
    key = ".".join(str(part) for part in problem["loc"] if part != "[key]")
    owner = _model_at(model, problem["loc"][:-1])
    if problem["type"] == "extra_forbidden":
        if key in elsewhere:
            return f"{key}: does not belong here; {elsewhere[key]}"
        hint = suggest_name(str(problem["loc"][-1]), owner.model_fields, "remove it.")
        return f"{key}: unknown key; {hint} Allowed here: {_allowed_keys(owner)}"
    if problem["type"] == "value_error":
        message = problem["msg"].removeprefix("Value error, ")
        return f"{key}: {message}" if key else message
    if problem["type"] == "missing":
        return f"{key}: is missing; add it"
    given = repr(problem["input"])
    found = f", not {given}" if len(given) <= _MAX_SHOWN_CHARACTERS else ""
    if problem["type"] == "model_type":
        section = _model_at(model, problem["loc"])
        example = next(iter(section.model_fields))
        named = f"{key}: " if key else ""
        return (
            f"{named}must hold keys and values such as `{example}: …`{found}; allowed here are {_allowed_keys(section)}"
        )
    field = owner.model_fields.get(str(problem["loc"][-1]))
    if problem["type"] == "string_pattern_mismatch" and field and field.examples:
        return f"{key}: must be such as {' or '.join(map(repr, field.examples))}{found}; {_correction(problem)}"
    rule = re.sub(r"^(Input|Value) should (be|have)", lambda m: "must " + m[2], problem["msg"].split(", unable to")[0])
    for technical, plain in _PLAIN_WORDS.items():
        rule = rule.replace(technical, plain)
    return f"{key}: {rule}{found}; {_correction(problem)}"


def _correction(problem: ErrorDetails) -> str:
    """Return a correction for the value, if there is an obvious one."""
    given, kind = problem["input"], problem["type"]
    if kind == "literal_error":
        return suggest_name(
            str(given), re.findall(r"'([^']*)'", str(problem.get("ctx", {}).get("expected"))), "change it there"
        )
    if kind in ("int_type", "float_type") and isinstance(given, str | float):
        # YAML reads 1e6 as text, like everything in quotes.
        try:
            number = float(given)
        except ValueError:
            return "change it there"
        if number.is_integer():
            return f"write {int(number)}"
        if kind == "float_type" and math.isfinite(number):
            return f"write {number!r}"
    return "change it there"


def _allowed_keys(section: type[BaseModel]) -> str:
    own = ", ".join(sorted(section.model_fields))
    return f"{own} and options of its own" if section.model_config.get("extra") == "allow" else own


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model at `location`, also through a mapping to models."""
    section = model
    for part in location:
        field = section.model_fields.get(str(part))
        if field is not None:
            nested = (field.annotation, *get_args(field.annotation))
            section = next((kind for kind in nested if isinstance(kind, type) and issubclass(kind, BaseModel)), section)
    return section
