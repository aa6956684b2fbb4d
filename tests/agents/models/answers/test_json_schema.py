"""Schemas on the wire, for each answer type: closed, all keys demanded, and maps only where the server takes them."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agents.artifacts import Answer
from agents.models.answers.json_schema import close_schema
from tests.agents.models.anthropic_rules import schema_fault


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = "t"
    """A property may be called as a keyword is."""
    maps: dict[str, str] = Field(default_factory=dict)
    ratio: float = Field(default=0.5, ge=0)


@pytest.mark.parametrize("answer", [*get_args(Answer), Outer], ids=lambda kind: kind.__name__)
def test_each_answer_can_be_decoded_by_its_schema(answer: type[BaseModel]) -> None:
    import anthropic

    written = TypeAdapter(answer).json_schema()
    assert schema_fault(anthropic.transform_schema(close_schema(written, maps=False))) == ""
    assert close_schema(written, maps=True)["required"] == list(answer.model_fields), (
        "what has a default is demanded, too"
    )


def test_properties_called_as_keywords_stay_and_a_map_does_where_the_server_takes_it() -> None:
    whole, closed = (close_schema(TypeAdapter(Outer).json_schema(), maps=maps) for maps in (True, False))
    assert (
        whole["properties"]["title"] == {"type": "string"}
        and whole["properties"]["maps"]["additionalProperties"]["type"] == "string"
    )
    assert closed["required"] == ["title", "ratio"] and closed["properties"].keys() == set(closed["required"])
