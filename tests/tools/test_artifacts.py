"""What stands under a field in the source is its description in the schema."""

from __future__ import annotations

from pydantic import create_model

from tools.artifacts import Artifact


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


def test_the_schema_shows_docstrings_at_every_depth_and_of_classes_without_source_the_bases() -> None:
    schema = create_model("Made", __base__=Derived, more=(int, 1)).model_json_schema()
    assert schema["properties"]["common"]["description"] == "Said anew."
    assert schema["properties"]["inner"]["description"] == "With a name of its own, so that its schema is a reference."
    assert schema["$defs"]["Base"]["properties"]["size"]["description"] == "How\nlarge."
    assert not {"plain", "more"} & {name for name, given in schema["properties"].items() if "description" in given}
