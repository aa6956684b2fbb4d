"""Figures of hardware in prose: the sentences to refuse and to allow stand in fixtures, and what counts as a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.checks.sourced import Sources, uncited

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


def test_a_source_vouches_for_one_figure() -> None:
    assert uncited(f"It has 132 SMs <- {CITED} at 1980 MHz.")[0].figure == "1980 MHz"
    assert not uncited(f"It has 132 SMs <- {CITED} at 1980 MHz <- <gpu-wiki>/x.md:3.")
    assert [one.figure for one in uncited(f"It reached 2.1 TB/s of 4.2 TB/s (record {RECORD}).")] == ["2.1 TB/s"]
    assert uncited(f"It reached 2.1 TB/s. Record {RECORD} says more.")[0].figure == "2.1 TB/s"
    assert len(uncited("One line with 132 SMs\nand one with 700 W")) == 2


def test_a_record_vouches_within_its_clause() -> None:
    text = f"Record {RECORD} shows a stall; the card has 200 SMs at 3 GHz with 12 TB/s."
    assert [one.figure for one in uncited(text, Sources(frozenset({RECORD})))] == ["200 SMs", "3 GHz", "12 TB/s"]
    assert not uncited(f"It stalls, and it reached 2.1 TB/s by record {RECORD}; more fits.", Sources(frozenset({RECORD})))


@pytest.mark.parametrize(
    ("figure", "cited", "vouched"),
    [
        ("3352 GB/s", "3352.0 GB/s", True),
        ("3.35 TB/s", "3352.0 GB/s", True),
        ("9.9 TB/s", "3352.0 GB/s", False),
        ("3.35 GB/s", "3352.0 GB/s", False),
        ("bandwidth of 3352", "3352.0 GB/s", True),
        ("132 SMs", "132.0 SM", True),
        ("200 SMs", "132.0 SM", False),
        ("132 SMs", "132.0 GB/s", False),
        ("989.4 TFLOPS", "989.4 TFLOPS", True),
        ("990 tera-FLOP/s", "989.4 TFLOPS", True),
        ("4000 TFLOPS", "989.4 TFLOPS", False),
        ("1.98 GHz", "1980.0 MHz", True),
        ("L2 of 50 MB", "50.0 MB", True),
        ("50 KB L2", "50.0 MB", False),
        ("228 KiB of shared memory", "228.0 KB", True),
        ("3000-3352 GB/s", "3352.0 GB/s", False),
    ],
)
def test_a_line_of_the_wiki_vouches_for_its_own_value(figure: str, cited: str, vouched: bool) -> None:
    found = uncited(f"There {figure} <- {CITED}.", Sources(specs=frozenset({(CITED, cited)})))
    assert len(found) == (0 if vouched else 1), found


def test_only_sources_that_are_known_count() -> None:
    text = f"It has 132 SMs <- {CITED}."
    assert not uncited(text, Sources(specs=frozenset({(CITED, "132.0 SM")})))
    assert uncited(text, Sources(specs=frozenset({("<gpu-wiki>/other.md:24", "132.0 SM")})))
    assert uncited("It gives 4000 TFLOPS (<gpu-wiki>/methods/x.md:30).", Sources())
    assert uncited(f"It reached 2.1 TB/s ({RECORD}).", Sources())


@pytest.mark.parametrize("language", ["cpp", "cuda", "python", "triton"])
def test_fenced_kernel_source_is_no_prose(language: str) -> None:
    assert not uncited(f"Before.\n```{language}\n// 132 SMs, 3.35 TB/s\n```\nBehind.")


@pytest.mark.parametrize("language", ["", "text", "md"])
def test_prose_in_a_fence_is_prose(language: str) -> None:
    assert len(uncited(f"Before.\n```{language}\nIt has 132 SMs and 3.35 TB/s.\n```\nBehind.")) == 2
