"""From what a language model wrote to the answer that is owed, or to what is wrong with it."""

from __future__ import annotations

from pydantic import JsonValue, TypeAdapter, ValidationError

from agents import artifacts
from agents.artifacts import Answer
from agents.models.base import Answered, Request, Unfit, Usage


def schema(request: Request) -> dict[str, JsonValue]:
    """JSON schema of the answer that `request` owes."""
    found: dict[str, JsonValue] = _type(request).json_schema()
    return found


def read(text: str, request: Request, *, said: str, usage: Usage) -> Answered | Unfit:
    """The answer in `text`; Unfit with one sentence a fault where there is none. `said`: the provider's own form of `text`."""
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = _type(request).validate_json(text[start : end + 1] if 0 <= start < end else text)
    except ValidationError as error:
        faults = tuple(f"{'.'.join(map(str, one['loc'])) or request.answer}: {one['msg']}" for one in error.errors()[:8])
        return Unfit(faults=faults, said=said, usage=usage)
    return Answered(answer=answer, said=said, usage=usage)


def _type(request: Request) -> TypeAdapter[Answer]:
    return TypeAdapter(getattr(artifacts, request.answer))
