"""Answers on the wire: maps as pairs, there and back, for each answer type."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agents.artifacts import Answer
from agents.models.wire_schema import plain, wire
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


def test_a_property_called_as_a_keyword_is_demanded_too() -> None:
    sent = wire(TypeAdapter(Outer).json_schema(), pairs=False)
    assert sent["required"] == ["default", "either", "ratio"]
    inner = sent["$defs"]["Inner"]
    assert inner["required"] == ["title", "maps"] and inner["properties"]["maps"]["additionalProperties"]["type"] == "object"


def test_what_tells_the_model_nothing_is_left_out_but_no_property() -> None:
    inner = wire(TypeAdapter(Outer).json_schema())["$defs"]["Inner"]
    assert "title" not in inner and inner["properties"].keys() == {"title", "maps"} and inner["properties"]["title"] == {"type": "string"}


def test_maps_come_back_wherever_they_stand() -> None:
    inner = {"title": "x", "maps": {"a": {"b": 1, "c": 2}, "d": {}}}
    value = {"default": inner, "either": {"one": inner}, "ratio": 0.25}
    schema = TypeAdapter(Outer).json_schema()
    sent = json.dumps(value | {"default": _paired(inner)})
    assert json.loads(plain(sent, schema)) == value
    listed = json.dumps({"default": _paired(inner), "either": [_paired(inner)], "ratio": 1})
    assert json.loads(plain(listed, schema))["either"] == [inner]
    paired = json.dumps({"default": _paired(inner), "either": [{"name": "one", "value": _paired(inner)}], "ratio": 1})
    assert json.loads(plain(paired, schema))["either"] == {"one": inner}


def _paired(inner: dict[str, object]) -> dict[str, object]:
    maps = [{"name": name, "value": [{"name": k, "value": v} for k, v in each.items()]} for name, each in dict(inner["maps"]).items()]
    return {**inner, "maps": maps}
