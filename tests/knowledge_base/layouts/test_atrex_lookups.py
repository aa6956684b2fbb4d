"""Lookups in a real external wiki, written down from its pages before the reader existed: right or UNKNOWN, never wrong.

Set KERNELWRIGHT_ATREX to a folder with `json/`, `arch/` and `role/`: the `gpu-wiki` folders of three commits of
alibaba/atrex-kernel-agent (16f7ec4, ebce3d7 and the branch develop). They are not ours to ship.
"""

import csv
import os
from pathlib import Path

import pytest

from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs.lookup import resolve_spec, reverify
from tools.roofline.hardware import Spec

ROOT = os.environ.get("KERNELWRIGHT_ATREX", "")
with (Path(__file__).parent / "atrex_lookups.csv").open() as table:
    LOOKUPS = list(csv.DictReader(table))
MIN_ANSWERED = {"json": 0.7, "arch": 0.3, "role": 0.2}
"""Share of the lookups with a figure in the wiki that are answered, at least."""


@pytest.mark.skipif(not ROOT, reason="KERNELWRIGHT_ATREX names no folder with the unpacked wikis")
@pytest.mark.parametrize("layout", MIN_ANSWERED)
def test_a_lookup_is_right_or_unknown(layout: str) -> None:
    folder = Path(ROOT) / layout
    wiki = Wiki.open(folder / "gpu-wiki" if (folder / "gpu-wiki").is_dir() else folder)
    lookups = [lookup for lookup in LOOKUPS if lookup["layout"] == layout]
    answers = []
    for lookup in lookups:
        spec = resolve_spec(wiki, *(lookup[name] for name in ("product", "metric", "variant", "qualifier")))
        if isinstance(spec, Spec):
            assert f"{spec.value:.10g} {spec.unit}" == lookup["expected"], (lookup, spec)
            answers.append(spec)
    assert len(answers) >= MIN_ANSWERED[layout] * sum(lookup["expected"] != "UNKNOWN" for lookup in lookups)
    assert all(reverify(wiki, spec) for spec in answers[::20])
