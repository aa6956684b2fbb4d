"""Lookups in a real foreign wiki, written down from its pages before the reader existed: right or UNKNOWN, never wrong.

Set KERNELWRIGHT_ATREX to a folder with `json/`, `arch/` and `role/`: the unpacked `gpu-wiki` folders of three commits
of alibaba/atrex-kernel-agent (16f7ec4, ebce3d7 and the branch develop). They are not ours to ship.
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
    """Exact product, variant where one is asked, metric; without a qualifier anything but sparse; several values are
    no answer."""
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
def test_reader_and_resolver_are_right_or_say_unknown(layout: str):
    figures, wiki = read(opened(layout)), Wiki.open(opened(layout))
    assert figures
    mine = [lookup for lookup in LOOKUPS if lookup["layout"] == layout]
    unread, resolved = [], list[Spec]()
    for lookup in mine:
        asked = [lookup[name] for name in ("product", "metric", "variant", "qualifier")]
        said, found = answer(figures, lookup)
        assert said in (lookup["expected"], "UNKNOWN"), (
            f"{asked}: {said}, but {lookup['where']} says {lookup['expected']}: {found}"
        )
        unread += [asked] * (said == "UNKNOWN" != lookup["expected"])
        spec = resolve(wiki, *asked)
        if isinstance(spec, Spec):
            assert f"{spec.value:.10g} {spec.unit}" == lookup["expected"], (lookup, spec)
            resolved.append(spec)
    assert len(unread) <= MAY_STAY_UNREAD * len(mine), unread
    assert len(resolved) >= 10 and all(reverify(wiki, spec) for spec in resolved[::20]), "the resolver answers nothing"
