"""Parses a model's text into the required answer or into faults, and writes the instructions how to answer.

An answer is a JSON object anywhere in the text. Drafts may be fenced blocks instead, so that code need not be escaped.
Nothing is guessed: JSON with a trailing comma or a comment is refused with a sentence, and so are two different objects
that both fit.
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
from agents.models.base import AnswerReply, PromptBlock, Request, UnfitReply, Usage
from agents.text.fencing import fence_data

if TYPE_CHECKING:
    from jinja2 import Template
    from pydantic_core import ErrorDetails

ANSWER_PROMPTS_FOLDER = Path(__file__).parents[2] / "prompts" / "answers"
THOUGHT_PATTERN = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
"""Matches a model's thoughts, which some local servers leave in its answer."""
OBJECT_START_PATTERN = re.compile(r'\{(?=\s*(?:"|//|/\*|#|\}|\w+\s*:|\'))')
"""Matches a brace that may begin a JSON object or an attempt at one, but few braces of C++."""
MAX_FAULTS = 6
"""Most faults that are reported at once."""
MIN_OVERLAP_CHARS = 40
"""Least number of repeated characters in a continuation that count as a repetition."""


_SizedFaults = tuple[int, tuple[str, ...]]
"""Size in characters of a text that resembles the answer, and its faults."""


def answer_schema(request: Request) -> dict[str, JsonValue]:
    """Return the JSON schema of the answer that `request` requires."""
    return _schema_of_type(request.answer)


def is_written_as_code(answer: str) -> bool:
    """Return whether this answer type is written as fenced code instead of JSON."""
    return answer == "Drafts"


def answer_instructions(answer: str | Sequence[str], structured: bool, *, shown: bool = True) -> str:
    """Return the instructions for an answer of one type or of one of several; the same for all runs.

    `structured`: as JSON that the server enforces; else in the format that `parse_answer` reads most reliably, which is
    fenced code for Drafts. `shown`: include the schema's text; False if the provider shows it to the model itself.
    """
    owed = (answer,) if isinstance(answer, str) else tuple(answer)
    code = any(map(is_written_as_code, owed))
    if code and not structured:
        return "\n\n".join((_render_prompt("drafts"), _render_prompt("code")))
    schemas = [json.dumps(trim_schema(_schema_of_type(each)), separators=(",", ":")) for each in owed] if shown else []
    text = _render_prompt("json", owed=owed, schemas=schemas)
    return "\n\n".join((text, _render_prompt("code"))) if code else text


def add_answer_instructions(request: Request, structured: bool, *, shown: bool = True) -> tuple[PromptBlock, ...]:
    """Return the prompt with answer instructions after each block that names answer types; if none names the required
    type, after the stable blocks."""
    prompt = [block for block in request.prompt if block.text.strip()]
    if any(request.answer in block.answers for block in prompt):
        return tuple(
            block.model_copy(
                update={"text": f"{block.text}\n{answer_instructions(block.answers, structured, shown=shown)}\n"}
            )
            if block.answers
            else block
            for block in prompt
        )
    stable = [block for block in prompt if block.scope == "stable"]
    form = PromptBlock(scope="stable", text=answer_instructions(request.answer, structured, shown=shown))
    return (*stable, form, *prompt[len(stable) :])


def refusal_text(faults: tuple[str, ...]) -> str:
    """Return the text that tells a model why its answer was not accepted."""
    return _render_prompt("refused", faults=faults)


def continuation_text() -> str:
    """Return the text that asks a model to continue an answer that was cut off."""
    return _render_prompt("continue")


def request_as_text(request: Request, where: str = "") -> str:
    """Return the request as one text for providers without blocks, turns and schemas: the prompt, refused answers with
    the reasons, and the answer instructions.

    `where`: where to write the answer, for a last sentence; empty: who reads it learns that elsewhere.
    """
    parts = ["\n\n".join(block.text for block in request.prompt)]
    for number, turn in enumerate(request.turns, 1):
        said = [f"Your answer {number} was:\n\n{fence_data('an earlier answer', turn.said)}"]
        said += [
            f"Result of {result.id}{' (failed)' if result.failed else ''}:\n\n{result.text}" for result in turn.results
        ]
        said += [refusal_text(turn.refused)] if turn.refused else []
        parts.append("\n\n".join(said))
    last = f"\n\nWrite your answer {where}." if where else ""
    parts.append(f"{answer_instructions(request.answer, structured=False)}{last}")
    return "\n\n---\n\n".join(parts) + "\n"


def join_continuation(begun: str, rest: str) -> str:
    """Join an answer and its continuation; only a reopened fence and repeated text are dropped."""
    if code_blocks.ends_inside_fence(begun):
        rest = re.sub(r"\A\s*(?:```|~~~)[\w+-]*[ \t]*\n", "", rest)
    for size in range(min(len(begun), len(rest), 2000), MIN_OVERLAP_CHARS - 1, -1):
        if begun.endswith(rest[:size]):
            return begun + rest[size:]
    return begun + rest


def parse_answer(text: str, request: Request, *, said: str, usage: Usage) -> AnswerReply | UnfitReply:
    """Return the answer in `text`, or UnfitReply with one sentence for each fault. `said`: the message in the
    provider's own format."""
    text = THOUGHT_PATTERN.sub("", text, count=1)
    written = is_written_as_code(request.answer) and code_blocks.has_draft_header(text)
    answer, faults = code_blocks.parse_drafts(text) if written else _parse_json(text, request)
    if faults or answer is None:
        # An unreadable draft does not cost the others.
        usable = answer if isinstance(answer, Drafts) and answer.drafts else None
        return UnfitReply(faults=faults[:MAX_FAULTS], usable=usable, said=said, usage=usage)
    return AnswerReply(answer=answer, said=said, usage=usage)


def _parse_json(text: str, request: Request) -> tuple[Answer | None, tuple[str, ...]]:
    """Return the one object in `text` that fits the type; else its valid drafts and the faults of the object that was
    most likely meant."""
    objects, malformed = _find_objects(code_blocks.blank_code_blocks(text))
    fitting: list[Answer] = []
    unfit: list[_SizedFaults] = []
    usable: dict[tuple[str, ...], Drafts] = {}
    for written, value in objects:
        try:
            answer = _type_adapter(request.answer).validate_python(value, strict=False)
        except ValidationError as error:
            unfit.append(
                (len(written), tuple(_validation_fault(one, request.answer) for one in error.errors()[:MAX_FAULTS]))
            )
            usable[unfit[-1][1]] = _valid_drafts(value, error)
        else:
            if answer not in fitting:
                fitting.append(answer)
    if len(fitting) == 1:
        return fitting[0], ()
    if fitting:
        return None, (f"{len(fitting)} different JSON objects each fit {request.answer}; give one",)
    if not unfit and is_written_as_code(request.answer) and (line := code_blocks.first_code_block_line(text)):
        return None, (
            (
                f"line {line}: this block of code has no line `### draft: methods=...` before it; write one before "
                f"each variant"
            ),
        )
    if faults := [*unfit, *malformed]:
        return usable.get(max(faults)[1]), max(faults)[1]
    if is_written_as_code(request.answer):
        return None, (
            (
                "the answer has neither a line `### draft: ...` with a fenced block after it, nor a line "
                "`### skipped: ...`; give one"
            ),
        )
    return None, (f"the answer contains no JSON object {request.answer}; give one",)


def _valid_drafts(found: JsonValue, error: ValidationError) -> Drafts:
    """Return those drafts of an object that have no fault."""
    listed = found.get("drafts") if isinstance(found, dict) else None
    wrong = {one["loc"][1] for one in error.errors() if one["loc"][0] == "drafts" and len(one["loc"]) > 1}
    sound = (
        [draft for number, draft in enumerate(listed) if number not in wrong]
        if isinstance(listed, list) and wrong
        else []
    )
    return Drafts.model_validate({"drafts": sound}, strict=False)


def _find_objects(text: str) -> tuple[list[tuple[str, JsonValue]], list[_SizedFaults]]:
    """Return the outermost non-empty JSON objects in `text` with their source, and the faults of malformed ones."""
    decoder = json.JSONDecoder(strict=False)
    found: list[tuple[str, JsonValue]] = []
    malformed: list[_SizedFaults] = []
    position = 0
    while match := OBJECT_START_PATTERN.search(text, position):
        try:
            value, position = decoder.raw_decode(text, match.start())
        except json.JSONDecodeError as error:
            position = match.end()
            malformed.append((error.pos - match.start(), (_syntax_fault(text, error.pos, error.msg),)))
        except RecursionError:
            position = match.end()
            malformed.append((0, ("the JSON object is nested too deeply; give a flat one",)))
        else:
            if value:
                found.append((text[match.start() : position], value))
    return found, malformed


def _syntax_fault(text: str, position: int, message: str) -> str:
    """Return a sentence for a syntax error of JSON, with line and column."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    if not text[position:].strip():
        return f"line {line}, column {column}: the JSON is cut off; give the whole object"
    return f"line {line}, column {column}: this is not JSON ({message}); write it without comments and trailing commas"


def _validation_fault(error: ErrorDetails, answer: str) -> str:
    where = ".".join(map(str, error["loc"])) or answer
    if error["type"] == "missing":
        return f"{where}: this field is missing; add it"
    if error["type"] == "extra_forbidden":
        return f"{where}: there is no such field in {answer}; leave it out"
    return f"{where}: {error['msg']}"


def _render_prompt(name: str, **values: object) -> str:
    return str(_template(name).render(**values)).strip()


@cache
def _template(name: str) -> Template:
    import jinja2

    # Prompts are not HTML.
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    return environment.from_string((ANSWER_PROMPTS_FOLDER / f"{name}.md").read_text(encoding="utf-8"))


def trim_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return `schema` without generated titles, defaults and marks of closed objects, which tell a reader nothing."""
    trimmed = {name: value for name, value in schema.items() if name not in ("title", "default") and value is not False}
    for name, value in trimmed.items():
        if name in ("properties", "$defs") and isinstance(value, dict):
            trimmed[name] = {key: trim_schema(each) if isinstance(each, dict) else each for key, each in value.items()}
        elif name == "items" and isinstance(value, dict):
            trimmed[name] = trim_schema(value)
    return trimmed


@cache
def _schema_of_type(answer: str) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = _type_adapter(answer).json_schema()
    return found


@cache
def _type_adapter(answer: str) -> TypeAdapter[Answer]:
    return TypeAdapter(getattr(artifacts, answer))
