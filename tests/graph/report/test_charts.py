"""The charts: plain markup that is the same each time, with a few round numbers, and colours that stand out."""

from __future__ import annotations

import re

import pytest

from graph.report import charts
from graph.report.content.phrases import render


def test_what_others_named_is_escaped_in_a_chart() -> None:
    hostile = "<script>\"'"
    drawn = charts._svg("one", hostile, hostile, [charts._linked(charts._text(hostile, 0, 0, "mark"), "#r-0", hostile)])
    assert "<script" not in drawn and drawn.count("&lt;script&gt;&quot;&#x27;") == 4
    assert '<a href="#r-0"><title>' in drawn and 'aria-labelledby="one-t"' in drawn and "style" not in drawn


@pytest.mark.parametrize("values", [(0.95, 1.06), (0.8, 12.0), (1e-9, 1e15)])
def test_an_axis_has_a_few_round_numbers(values: tuple[float, ...]) -> None:
    axis = charts.LogAxis.containing(values, 1.25, 200.0, 0.0)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= charts.MAX_TICKS and ticks == sorted(ticks)
    assert all(values[0] / 1.3 <= tick <= values[1] * 1.3 for tick in ticks)
    assert all(len(f"{tick:.0e}") <= 5 or float(f"{tick:.2g}") == pytest.approx(tick) for tick in ticks)
    pixels = [axis.pixel(value) for value in ticks]
    assert pixels == sorted(pixels, reverse=True) and 0.0 <= pixels[-1] < pixels[0] <= 200.0


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
    for front, least in (("text", 7.0), ("soft", 4.5), ("link", 4.5), ("bad", 4.5), ("good", 4.5), ("third", 4.5)):
        for back in ("page", "panel"):
            lighter, darker = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= least, (front, back)
