"""No recipe, alone or with the others, changes what a kernel computes where its pattern only seems to be there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from calling import build, compare
from pitfalls import PITFALLS

from agents.models.playbook.recipe import RECIPES, recipe

TOLERANCE = 5e-6


@pytest.mark.parametrize("kernel", sorted(PITFALLS))
def test_the_result_stays(kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    given = PITFALLS[kernel]
    made: dict[str, str] = {}
    together = given.source
    for name in RECIPES:
        if recipe(name).language == "cpp":
            made.setdefault(recipe(name).edit(given.source, {}), name)
            together = recipe(name).edit(together, {})
    made.setdefault(together, "all")
    made.pop(given.source, None)
    before = build(given.source, tmp_path, "before")
    pairs = [[str(before), str(build(text, tmp_path, name)), list(given.arguments)] for text, name in made.items()]
    errors = dict(zip(made.values(), compare(pairs, tmp_path), strict=True)) if pairs else {}
    assert errors == pytest.approx(dict.fromkeys(errors, 0.0), abs=TOLERANCE)
