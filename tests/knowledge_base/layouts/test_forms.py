"""Every form in which wikis write numbers, in pages of our own with invented values; each page yields exactly what
stands beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_base.layouts.reader import read
from knowledge_base.pages.figures import Figures
from tools.artifacts import digest

VALUE = "| Parameter | Value |\n|---|---|\n"


def forms() -> Iterator[tuple[str, str, list[str]]]:
    """Name, page and expected lines of each form of `forms.txt`."""
    for part in Path(__file__).with_name("forms.txt").read_text().split("\n@@ ")[1:]:
        name, _, text = part.partition("\n")
        page, *expected = text.split("\n@> ")
        yield name, page, [line.strip() for line in expected]


FORMS = {name: (page, expected) for name, page, expected in forms()}


def told(figures: Figures | None) -> list[str]:
    """One line a figure: product and variant, metric, value and unit, then qualifier and evidence where they say
    something."""
    lines = []
    for f in figures.figures if figures else ():
        evidence = "" if f.evidence == "vendor" else f.evidence
        line = f"{f.product} {f.variant}".strip() + f"|{f.metric}|{f.value:.10g} {f.unit}|{f.qualifier}|{evidence}"
        lines.append(line.rstrip("|"))
    return sorted(lines)


@pytest.mark.parametrize("form", FORMS)
def test_a_page_yields_exactly_its_numbers(tmp_path: Path, form: str):
    text, expected = FORMS[form]
    (tmp_path / "page.md").write_text(text)
    figures = read(tmp_path)
    assert told(figures) == sorted(expected)
    for figure in figures.figures if figures else ():
        lines = text.splitlines()
        assert digest(lines[figure.citation.line - 1]) == figure.citation.sha256
        printed = lines[figure.citation.line - 1].replace(",", "").replace("64K", "65536").replace("256 KB", "65536")
        assert f"{figure.value:.10g}" in printed
        assert figure.product in text.upper()


def test_conflicting_lines_are_both_given_and_neither_is_the_vendors(tmp_path: Path):
    (tmp_path / "a.md").write_text(f"# NVIDIA H100\n\n{VALUE}| L2 Cache | 49 MB |\n")
    (tmp_path / "b.md").write_text(f"# NVIDIA H100\n\n{VALUE}| L2 Cache | 51 MB |\n")
    figures = read(tmp_path)
    assert figures
    assert told(figures) == ["H100|l2_size|49 MB||unofficial", "H100|l2_size|51 MB||unofficial"]
    assert "51 MB" in figures.figures[0].caveat


def test_agreeing_lines_are_one_figure_and_a_doubt_stays(tmp_path: Path):
    (tmp_path / "a.md").write_text(f"# NVIDIA H100\n\n{VALUE}| Memory Bandwidth | 3.3 TB/s |\n")
    (tmp_path / "b.md").write_text(f"# NVIDIA H100\n\n{VALUE}| Memory Bandwidth | ~3,300 GB/s |\n")
    assert told(read(tmp_path)) == ["H100|memory_bandwidth|3300 GB/s||unofficial"]


def test_silences_say_why(tmp_path: Path):
    rows = ("Shared Memory per SM | Not published; ask the driver", "VRAM | 47 GB or 71 GB", "FP64 | 1 TFLOPS")
    (tmp_path / "page.md").write_text(f"# NVIDIA B300\n\n{VALUE}" + "".join(f"| {row} |\n" for row in rows))
    figures = read(tmp_path)
    assert figures
    reasons = {silence.metric: (silence.reason, silence.citation.line) for silence in figures.silences}
    assert reasons["max_shared_memory_per_sm"] == ("no number: Not published; ask the driver", 5)
    assert reasons["memory_capacity"] == ("ambiguous: 47 GB or 71 GB", 6)
    assert reasons["fp64_vector"] == ("fp64: vector or matrix is not said", 7)
    assert not figures.figures


def test_limits_cite_both_lines(tmp_path: Path):
    text, _ = FORMS["13 a capability a column, through the map"]
    (tmp_path / "page.md").write_text(text)
    figures = read(tmp_path)
    assert figures
    figure = next(
        figure for figure in figures.figures if (figure.product, figure.metric) == ("H20", "max_warps_per_sm")
    )
    lines = text.splitlines()
    assert figure.via
    assert (lines[figure.citation.line - 1][:12], lines[figure.via.line - 1][:7]) == ("| Max Reside", "| 9.0 |")
    assert figure.caveat == "via compute capability 9.0; footnote: see the guide."


LINES = sorted({line for page, _ in FORMS.values() for line in page.splitlines()})
GPUS = ("H100", "H20", "H200", "B200", "MI300X", "RTX PRO 5000")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=25), st.sampled_from(GPUS))
def test_whatever_the_page_a_number_is_the_nearest_products(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], product: str
):
    """Lines of the forms in any order raise nothing, and a table below a product's own heading is that product's or
    nobody's."""
    root = tmp_path_factory.mktemp("wiki")
    text = "\n".join(
        (*lines, "<!-- -->", "", f"## NVIDIA {product}", "", "| Parameter | Value |", "|---|---|", "| TDP | 777 W |")
    )
    (root / "page.md").write_text(text)
    figures = read(root)
    for figure in figures.figures if figures else ():
        printed = text.splitlines()[figure.citation.line - 1]
        assert digest(printed) == figure.citation.sha256
        if "777 W" in printed:
            assert figure.product == product
