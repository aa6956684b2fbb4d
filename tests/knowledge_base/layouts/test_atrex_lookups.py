"""Lookups in a real foreign wiki, written down from its pages before the reader existed: right or UNKNOWN, never wrong.

Set KERNELWRIGHT_ATREX to a folder with `json/`, `arch/` and `role/`: the unpacked `gpu-wiki` folders of three commits of
alibaba/atrex-kernel-agent (16f7ec4, ebce3d7 and the branch develop). They are not ours to ship.
"""

import csv
import os
from pathlib import Path

import pytest

from knowledge_base.layouts.reader import read
from knowledge_base.pages.figures import Figure, Figures
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs.lookup import resolve, reverify
from tools.roofline.hardware import Spec

ROOT = os.environ.get("KERNELWRIGHT_ATREX", "")
with (Path(__file__).parent / "atrex_lookups.csv").open() as table:
    LOOKUPS = list(csv.DictReader(table))
MAY_STAY_UNREAD = 0.02
"""Share of the lookups that the reader may leave UNKNOWN although the wiki holds the number."""


def plain(name: str) -> str:
    return "".join(character for character in name.lower().replace("nvidia", "") if character.isalnum())


def answer(figures: Figures, lookup: dict[str, str]) -> tuple[str, list[Figure]]:
    """Exact product, variant where one is asked, metric; without a qualifier anything but sparse; several values are no answer."""
    found = [
        figure
        for figure in figures.figures
        if plain(figure.product) == plain(lookup["product"])
        and figure.metric == lookup["metric"]
        and lookup["variant"] in ("", figure.variant)
        and (figure.qualifier == lookup["qualifier"] if lookup["qualifier"] else figure.qualifier != "sparse")
    ]
    values = {f"{figure.value:.10g} {figure.unit}" for figure in found}
    return (values.pop() if len(values) == 1 else "UNKNOWN"), found


def test_the_lookups_cover_every_layout_and_the_unknown():
    assert {lookup["layout"] for lookup in LOOKUPS} == {"json", "arch", "role"}
    assert len(LOOKUPS) >= 60
    assert sum(lookup["expected"] == "UNKNOWN" for lookup in LOOKUPS) >= 20


def opened(layout: str) -> Path:
    """The wiki of one layout; skips where there are none."""
    if not ROOT:
        pytest.skip("KERNELWRIGHT_ATREX names no folder with the unpacked wikis")
    folder = Path(ROOT) / layout
    return folder / "gpu-wiki" if (folder / "gpu-wiki").is_dir() else folder


@pytest.mark.parametrize("layout", ["json", "arch", "role"])
def test_lookups_are_right_or_unknown(layout: str):
    figures = read(opened(layout))
    assert figures
    mine = [lookup for lookup in LOOKUPS if lookup["layout"] == layout]
    unread = []
    for lookup in mine:
        said, found = answer(figures, lookup)
        asked = " ".join(lookup[key] for key in ("product", "variant", "metric", "qualifier"))
        assert said in (lookup["expected"], "UNKNOWN"), f"{asked}: {said}, but {lookup['where']} says {lookup['expected']}: {found}"
        if said == "UNKNOWN" != lookup["expected"]:
            unread.append(asked)
    assert len(unread) <= MAY_STAY_UNREAD * len(mine), unread


@pytest.mark.parametrize("layout", ["json", "arch", "role"])
def test_the_resolver_is_right_or_says_unknown(layout: str):
    wiki, right = Wiki.open(opened(layout)), 0
    for lookup in (lookup for lookup in LOOKUPS if lookup["layout"] == layout):
        said = resolve(wiki, lookup["product"], lookup["metric"], lookup["variant"], lookup["qualifier"])
        if isinstance(said, Spec):
            assert f"{said.value:.10g} {said.unit}" == lookup["expected"], (lookup, said)
            assert right % 20 or reverify(wiki, said)
            right += 1
    assert right >= 10, "the resolver answers nothing"
