"""The charts: what matplotlib drew belongs to the page, comes out the same again, and stands out from what lies
behind it."""

from __future__ import annotations

import re

import pytest

from graph.report.charts import base
from graph.report.content.phrases import render

HOSTILE = "<script>\x1b[2J$\\frac{1}{2}$ \ud55c"


def drawn(identity: str = "one", values: tuple[float, ...] = (1.0, 3.0)) -> str:
    with base.canvas(200.0) as (figure, axes):
        low, high = base.logarithmic(axes, "y", values, lambda value: f"{value:g}×")
        axes.set_ylim(low, high)
        (mark,) = axes.plot([0], [values[0]], label=base.plain(HOSTILE), **base.look("o", accepted=True))
        base.linked(mark, "#r-0123", f"said {HOSTILE}")
        figure.legend()
        return base.svg(figure, identity, HOSTILE.replace("\x1b", ""), "described")


def test_a_chart_is_plain_markup_that_only_the_page_gives_its_colours_to() -> None:
    text = drawn()
    assert text == drawn(), "the same figure is drawn in two ways"
    assert (
        "style" not in text
        and "<script" not in text
        and "xmlns" not in text
        and "metadata" not in text
        and "\x1b" not in text
    )
    assert "$\\frac{1}{2}$ \ud55c</text>" in text, "read as a formula, or drawn as outlines"
    assert re.search(r'<a href="#r-0123"[^>]*>', text) and "<title>said &lt;script&gt;" in text
    assert set(re.findall(r"#[0-9a-f]{6}", text)) == set() and set(re.findall(r"var\(--(\w+)\)", text)) <= set(
        base.INKS
    )
    mine, others = (set(re.findall(r' id="([^"]+)"', drawn(identity))) for identity in ("one", "two"))
    assert mine and not mine & others, "two charts of a page have one id"


@pytest.mark.parametrize("values", [(0.95, 1.06), (0.8, 12.0), (1e-9, 1e15)])
def test_an_axis_has_a_few_round_numbers(values: tuple[float, ...]) -> None:
    ticks = [float(number) for number in re.findall(r">([\d.e+-]+)×<", drawn(values=values))]
    assert (
        1 <= len(ticks) <= 9
        and ticks == sorted(ticks)
        and all(values[0] / 1.3 <= tick <= values[1] * 1.3 for tick in ticks)
    )


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as in WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", range(3), ids=["light", "dark", "print"])
def test_text_and_marks_stand_out_from_what_lies_behind_them(scheme: int) -> None:
    blocks = re.findall(r":root \{(.*?)\}", render("report.css"), re.DOTALL)
    assert len(blocks) == 3
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", blocks[scheme]))
    assert set(base.INKS) <= set(colours)
    for front, least in (("text", 7.0), ("soft", 4.5), ("link", 4.5), ("bad", 4.5), ("good", 4.5), ("third", 4.5)):
        for back in ("page", "panel"):
            lighter, darker = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= least, (front, back)
