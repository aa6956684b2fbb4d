"""The graph's picture, the commands' help and the artifacts' schemas change only on purpose."""

from __future__ import annotations

import sys

import pytest

from tests.golden.update import GOLDEN, HERE, stale

HOW = "if that is meant, run `python -m tests.golden.update` and look at its diff"


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_output_equals_its_golden_file(name: str) -> None:
    if name.startswith("help/") and sys.version_info[:2] != (3, 11):
        pytest.skip("argparse lays help out anew with each Python; compared under 3.11")
    path = HERE / name
    assert path.is_file(), f"tests/golden/{name} is missing: {HOW}"
    assert GOLDEN[name]() == path.read_text(encoding="utf-8"), (
        f"tests/golden/{name} says something else than the code: {HOW}"
    )


def test_every_golden_file_is_made_by_something() -> None:
    assert not list(stale()), f"nothing makes these files any more: {HOW}"
