"""What stands under a field in the source is its description in the schema."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from pydantic import BaseModel, create_model

from tools.artifacts import Artifact
from tools.docstrings import of_fields

INNER = "With a name of its own, so that its schema is a reference."


class Base(Artifact):
    """No field's docstring."""

    size: int
    """How
    large."""
    plain: int = 0
    common: float = 1.0
    """Of the base."""


class Derived(Base):
    inner: Base | None = None
    """With a name of its own, so that its schema is a reference."""
    common: float = 2.0
    """Said anew."""


def test_fields_have_what_stands_under_them_or_under_their_base() -> None:
    assert of_fields(Base) == {"size": "How\nlarge.", "common": "Of the base."}
    assert of_fields(Derived) == {"size": "How\nlarge.", "common": "Said anew.", "inner": INNER}


def test_a_class_that_stands_in_no_file_has_its_bases_only() -> None:
    assert of_fields(create_model("Made", __base__=Base, more=(int, 1))) == of_fields(Base)


def test_a_class_whose_module_was_let_go_has_its_bases_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gone", ModuleType("gone"))
    exec("class Gone(Base):\n    more: int\n", scope := {"__name__": "gone", "Base": Base})
    monkeypatch.delitem(sys.modules, "gone")
    kind = scope["Gone"]
    assert isinstance(kind, type) and issubclass(kind, BaseModel) and of_fields(kind) == of_fields(Base)


def test_the_schema_shows_them_at_every_depth() -> None:
    schema = Derived.model_json_schema()
    assert schema["properties"]["common"]["description"] == "Said anew."
    assert schema["properties"]["inner"]["description"] == INNER
    assert schema["$defs"]["Base"]["properties"]["size"]["description"] == "How\nlarge."
    assert "description" not in schema["properties"]["plain"]
