"""Figures of hardware in prose: the sentences to refuse and to allow stand in fixtures, and what counts as a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.uncited import uncited

SENTENCES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "fixtures" / "uncited.yaml").read_text(encoding="utf-8"))
CITED = "<gpu-wiki>/hardware/nvidia/h100-sxm5.md:24"
RECORD = "0123456789abcdef"


@pytest.mark.parametrize(("sentence", "figure"), SENTENCES["refuse"])
def test_a_figure_without_a_source_is_found(sentence: str, figure: str) -> None:
    found = uncited(f"Something before. {sentence}\nSomething behind.")
    assert [one.sentence for one in found] == [sentence]
    assert found[0].figure in figure or figure in found[0].figure


@pytest.mark.parametrize("sentence", SENTENCES["allow"])
def test_what_is_no_figure_or_has_a_source_passes(sentence: str) -> None:
    assert uncited(sentence) == ()


def test_a_citation_vouches_for_one_figure_and_a_record_for_its_sentence() -> None:
    assert uncited(f"It has 132 SMs <- {CITED} at 1980 MHz.")[0].figure == "1980 MHz"
    assert not uncited(f"It has 132 SMs <- {CITED} at 1980 MHz <- <gpu-wiki>/x.md:3.")
    assert not uncited(f"It reached 2.1 TB/s of 4.2 TB/s (record {RECORD}).")
    assert uncited(f"It reached 2.1 TB/s. Record {RECORD} says more.")[0].figure == "2.1 TB/s"
    assert len(uncited("One line with 132 SMs\nand one with 700 W")) == 2


def test_only_sources_that_are_known_count() -> None:
    text = f"It has 132 SMs <- {CITED}."
    assert not uncited(text, known={CITED})
    assert uncited(text, known={"<gpu-wiki>/other.md:24"})
    assert uncited(f"It reached 2.1 TB/s ({RECORD}).", known=())


def test_fenced_code_is_no_prose() -> None:
    assert not uncited("Before.\n```cpp\n// 132 SMs, 3.35 TB/s\n```\nBehind.")
