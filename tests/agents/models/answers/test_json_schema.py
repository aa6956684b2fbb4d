"""Answers on the wire: maps as pairs, there and back, for each answer type."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agents.artifacts import Answer
from agents.models.answers.json_schema import plain, wire
from tests.agents.models.anthropic_rules import schema_fault


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = "t"
    """A property may be called as a keyword is."""
    maps: dict[str, dict[str, int]] = Field(default_factory=dict)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    default: Inner
    either: tuple[Inner, ...] | dict[str, Inner] | None = None
    ratio: float = Field(default=0.5, ge=0)


@pytest.mark.parametrize("answer", [*get_args(Answer), Outer], ids=lambda kind: kind.__name__)
def test_each_answer_can_be_decoded_by_its_schema(answer: type[BaseModel]) -> None:
    import anthropic

    sent = anthropic.transform_schema(wire(TypeAdapter(answer).json_schema()))
    assert schema_fault(sent) == ""
    assert sent["required"] == list(answer.model_fields)


def test_properties_called_as_keywords_are_kept_and_demanded_and_what_tells_the_model_nothing_is_left_out() -> None:
    inner = wire(TypeAdapter(Outer).json_schema())["$defs"]["Inner"]
    assert "title" not in inner and inner["required"] == ["title", "maps"] and inner["properties"]["title"] == {"type": "string"}
    whole = wire(TypeAdapter(Outer).json_schema(), pairs=False)
    assert whole["required"] == ["default", "either", "ratio"], "what has a default is demanded, too"
    assert whole["$defs"]["Inner"]["properties"]["maps"]["additionalProperties"]["type"] == "object"


def test_maps_come_back_wherever_they_stand() -> None:
    inner: dict[str, object] = {"title": "x", "maps": {"a": {"b": 1, "c": 2}, "d": {}}}
    pairs = {
        "title": "x",
        "maps": [{"name": "a", "value": [{"name": "b", "value": 1}, {"name": "c", "value": 2}]}, {"name": "d", "value": []}],
    }
    for sent, either in (({"one": inner}, {"one": inner}), ([pairs], [inner]), ([{"name": "one", "value": pairs}], {"one": inner})):
        text = json.dumps({"default": pairs, "either": sent, "ratio": 0.25})
        assert json.loads(plain(text, TypeAdapter(Outer).json_schema())) == {"default": inner, "either": either, "ratio": 0.25}
