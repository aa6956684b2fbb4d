"""A name from a table, or a stranger's class by import path."""

from __future__ import annotations

import pytest

from tests.support import one_sentence
from tools.languages.base import LANGUAGES, Language
from tools.registry import load_class


def test_a_name_and_an_import_path_find_the_same_class() -> None:
    assert load_class(LANGUAGES, "cpp", Language, key="language") is load_class(
        {}, "tools.languages.cpp:Cpp", Language, key="language"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fortran", ["language", "'fortran'", "cpp", "package.module:Class"]),
        ("nowhere.at.all:Language", ["cannot be imported"]),
        ("tools.errors:Nothing", ["cannot be imported"]),
        ("tools.languages.base:Language", ["does not define ", "; add it to the class"]),
        ("tools.errors:SettingsError", ["not a Language"]),
    ],
)
def test_what_cannot_be_had_is_named(name: str, says: list[str]) -> None:
    with one_sentence(*says):
        load_class(LANGUAGES, name, Language, key="language")
