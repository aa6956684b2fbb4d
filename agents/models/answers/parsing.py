"""From what a language model wrote to the answer that is owed, or to what is wrong with it; and how it is told to
answer.

An answer is a JSON object, wherever in the text it stands. Drafts may come as fenced blocks instead, so that code need
not be escaped. Nothing is guessed: JSON with a trailing comma or a comment is refused with a sentence, two different
objects that both fit are, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, TypeAdapter, ValidationError

from agents import artifacts
from agents.artifacts import Answer, Drafts
from agents.models.answers import code_blocks
from agents.models.base import Answered, Block, Request, Unfit, Usage
from agents.text.fencing import fence

if TYPE_CHECKING:
    from jinja2 import Template
    from pydantic_core import ErrorDetails

PROMPTS = Path(__file__).parents[2] / "prompts" / "answers"
THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
"""What some local servers leave of a model's thoughts in its answer."""
BEGINS = re.compile(r'\{(?=\s*(?:"|//|/\*|#|\}|\w+\s*:|\'))')
"""An opening brace that may begin an object of JSON, or of what was meant for it; most of C++'s begin none."""
SHOWN = 6
"""Faults told at once."""
OVERLAP = 40
"""Characters that a continuation must repeat before they are taken for a repetition."""


_Faults = tuple[int, tuple[str, ...]]
"""Size of something that looks like the answer and is none, and what is wrong with it."""


def schema(request: Request) -> dict[str, JsonValue]:
    """JSON schema of the answer that `request` owes."""
    return _schema(request.answer)


def as_code(answer: str) -> bool:
    """Whether this type is better written as fenced code than as JSON."""
    return answer == "Drafts"


def how_to_answer(answer: str | Sequence[str], structured: bool, *, shown: bool = True) -> str:
    """The instruction how to write `answer`, or whichever of several types is owed; the same for all runs.

    `structured`: as JSON, the server seeing to it; else in the form that `read` finds most surely, which for Drafts is
    fenced code. `shown`: with the schema's text; False where the provider shows it to the model itself.
    """
    owed = (answer,) if isinstance(answer, str) else tuple(answer)
    code = any(map(as_code, owed))
    if code and not structured:
        return "\n\n".join((_prompt("drafts"), _prompt("code")))
    schemas = [json.dumps(terse(_schema(each)), separators=(",", ":")) for each in owed] if shown else []
    text = _prompt("json", owed=owed, schemas=schemas)
    return "\n\n".join((text, _prompt("code"))) if code else text


def explained(request: Request, structured: bool, *, shown: bool = True) -> tuple[Block, ...]:
    """The prompt with the form of answers behind the blocks that name them; of the type owed behind the stable ones
    where none does."""
    prompt = [block for block in request.prompt if block.text.strip()]
    if any(request.answer in block.answers for block in prompt):
        return tuple(
            block.model_copy(
                update={"text": f"{block.text}\n{how_to_answer(block.answers, structured, shown=shown)}\n"}
            )
            if block.answers
            else block
            for block in prompt
        )
    stable = [block for block in prompt if block.scope == "stable"]
    form = Block(scope="stable", text=how_to_answer(request.answer, structured, shown=shown))
    return (*stable, form, *prompt[len(stable) :])


def told(faults: tuple[str, ...]) -> str:
    """Why an answer was not accepted, in the words in which a model is told."""
    return _prompt("refused", faults=faults)


def go_on() -> str:
    """What a model is told whose answer was cut off."""
    return _prompt("continue")


def as_text(request: Request, where: str) -> str:
    """The request for whoever takes no blocks, turns and schemas: prompt, answers that were refused with the reasons,
    how to answer.

    `where`: to what place, for the last sentence.
    """
    parts = ["\n\n".join(block.text for block in request.prompt)]
    for number, turn in enumerate(request.turns, 1):
        said = [f"Your answer {number} was:\n\n{fence('an earlier answer', turn.said)}"]
        said += [
            f"Result of {result.id}{' (failed)' if result.failed else ''}:\n\n{result.text}" for result in turn.results
        ]
        said += [told(turn.refused)] if turn.refused else []
        parts.append("\n\n".join(said))
    parts.append(f"{how_to_answer(request.answer, structured=False)}\n\nWrite your answer {where}.")
    return "\n\n---\n\n".join(parts) + "\n"


def joined(begun: str, rest: str) -> str:
    """An answer and its continuation: a fence opened anew and a stretch written twice are dropped, nothing else."""
    if code_blocks.open_at_end(begun):
        rest = re.sub(r"\A\s*(?:```|~~~)[\w+-]*[ \t]*\n", "", rest)
    for size in range(min(len(begun), len(rest), 2000), OVERLAP - 1, -1):
        if begun.endswith(rest[:size]):
            return begun + rest[size:]
    return begun + rest


def read(text: str, request: Request, *, said: str, usage: Usage) -> Answered | Unfit:
    """The answer in `text`; Unfit with one sentence a fault where there is none. `said`: the provider's own form of
    `text`."""
    text = THOUGHT.sub("", text, count=1)
    written = as_code(request.answer) and code_blocks.has_header(text)
    found, faults = code_blocks.drafts(text) if written else _in_json(text, request)
    if faults or found is None:
        # One draft that cannot be read costs that draft, not the others.
        usable = found if isinstance(found, Drafts) and found.drafts else None
        return Unfit(faults=faults[:SHOWN], usable=usable, said=said, usage=usage)
    return Answered(answer=found, said=said, usage=usage)


def _in_json(text: str, request: Request) -> tuple[Answer | None, tuple[str, ...]]:
    """The one object in `text` that fits the type; else what is wrong, of the object that was most likely meant, and
    the drafts in it that fit."""
    objects, malformed = _objects(code_blocks.without_code(text))
    fitting: list[Answer] = []
    unfit: list[_Faults] = []
    usable: dict[tuple[str, ...], Drafts] = {}
    for written, found in objects:
        try:
            answer = _type(request.answer).validate_python(found, strict=False)
        except ValidationError as error:
            unfit.append((len(written), tuple(_fault(one, request.answer) for one in error.errors()[:SHOWN])))
            usable[unfit[-1][1]] = _readable(found, error)
        else:
            if answer not in fitting:
                fitting.append(answer)
    if len(fitting) == 1:
        return fitting[0], ()
    if fitting:
        return None, (f"{len(fitting)} different JSON objects each fit {request.answer}; give one",)
    if not unfit and as_code(request.answer) and (line := code_blocks.first_block(text)):
        return None, (
            (
                f"line {line}: no line `### draft: methods=...` stands before this block of code; write one before "
                f"each variant"
            ),
        )
    if faults := [*unfit, *malformed]:
        return usable.get(max(faults)[1]), max(faults)[1]
    if as_code(request.answer):
        return None, (
            (
                "no line `### draft: ...` with a fenced block behind it, and no line `### skipped: ...`, is in the "
                "answer; give one"
            ),
        )
    return None, (f"no JSON object {request.answer} is in the answer; give one",)


def _readable(found: JsonValue, error: ValidationError) -> Drafts:
    """Those of an object's drafts with which nothing is wrong."""
    listed = found.get("drafts") if isinstance(found, dict) else None
    wrong = {one["loc"][1] for one in error.errors() if one["loc"][0] == "drafts" and len(one["loc"]) > 1}
    sound = (
        [draft for number, draft in enumerate(listed) if number not in wrong]
        if isinstance(listed, list) and wrong
        else []
    )
    return Drafts.model_validate({"drafts": sound}, strict=False)


def _objects(text: str) -> tuple[list[tuple[str, JsonValue]], list[_Faults]]:
    """The outermost JSON objects in `text` that hold something, and what is wrong with what looks like one."""
    decoder = json.JSONDecoder(strict=False)
    found: list[tuple[str, JsonValue]] = []
    malformed: list[_Faults] = []
    position = 0
    while match := BEGINS.search(text, position):
        try:
            value, position = decoder.raw_decode(text, match.start())
        except json.JSONDecodeError as error:
            position = match.end()
            malformed.append((error.pos - match.start(), (_malformed(text, error.pos, error.msg),)))
        except RecursionError:
            position = match.end()
            malformed.append((0, ("the JSON object is nested too deep; give a flat one",)))
        else:
            if value:
                found.append((text[match.start() : position], value))
    return found, malformed


def _malformed(text: str, position: int, message: str) -> str:
    """What is wrong at `position` of JSON, and where that is."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    if not text[position:].strip():
        return f"line {line}, column {column}: the JSON ends in the middle; give the whole object"
    return f"line {line}, column {column}: this is no JSON ({message}); write it without comments and trailing commas"


def _fault(error: ErrorDetails, answer: str) -> str:
    where = ".".join(map(str, error["loc"])) or answer
    if error["type"] == "missing":
        return f"{where}: is missing; add it"
    if error["type"] == "extra_forbidden":
        return f"{where}: there is no such field in {answer}; leave it out"
    return f"{where}: {error['msg']}"


def _prompt(name: str, **values: object) -> str:
    return str(_template(name).render(**values)).strip()


@cache
def _template(name: str) -> Template:
    import jinja2

    # Prompts are no HTML.
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    return environment.from_string((PROMPTS / f"{name}.md").read_text(encoding="utf-8"))


def terse(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """`schema` less what tells a reader nothing: generated titles, defaults, that objects are closed."""
    told = {name: value for name, value in schema.items() if name not in ("title", "default") and value is not False}
    for name, value in told.items():
        if name in ("properties", "$defs") and isinstance(value, dict):
            told[name] = {key: terse(each) if isinstance(each, dict) else each for key, each in value.items()}
        elif name == "items" and isinstance(value, dict):
            told[name] = terse(value)
    return told


@cache
def _schema(answer: str) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = _type(answer).json_schema()
    return found


@cache
def _type(answer: str) -> TypeAdapter[Answer]:
    return TypeAdapter(getattr(artifacts, answer))
