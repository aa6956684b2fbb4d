"""The drawing code: scales, ticks, labels that keep clear of each other, marks and escaping."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.report.figures import svg
from graph.report.render import render

POSITIVE = st.floats(min_value=1e-9, max_value=1e15)


@given(st.lists(POSITIVE, min_size=1, max_size=8), st.integers(min_value=2, max_value=8))
def test_a_logarithmic_axis_holds_its_values_and_has_few_round_ticks(values: list[float], most: int) -> None:
    scale = svg.log_scale(values, 200.0, 20.0)
    assert all(20.0 < scale.at(value) < 200.0 for value in values)
    found = svg.ticks(scale, most)
    assert found == sorted(found) and 1 <= len(found) <= most + 1
    assert all(scale.low <= value * (1 + 1e-9) and value <= scale.high * (1 + 1e-9) for value in found)


@given(POSITIVE, POSITIVE)
def test_what_is_more_lies_further_along_an_axis(one: float, other: float) -> None:
    for scale in (svg.log_scale((one, other), 0.0, 100.0), svg.Scale(0.0, max(one, other), 0.0, 100.0)):
        assert (scale.at(one) <= scale.at(other)) or one > other
        assert scale.at(scale.low / 2) == scale.start and scale.at(scale.high * 2) == pytest.approx(scale.end)


def test_ticks_are_numbers_that_people_use() -> None:
    assert svg.ticks(svg.Scale(0.8, 12.0, 0, 1, log=True)) == [1.0, 2.0, 3.0, 5.0, 10.0]
    assert svg.ticks(svg.Scale(0.0, 1.0, 0, 1), 5) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert svg.ticks(svg.Scale(0.95, 1.06, 0, 1, log=True)) == [1.0]


@given(st.lists(st.tuples(st.floats(60, 410), st.floats(34, 230)), max_size=30))
def test_labels_overlap_neither_each_other_nor_the_edge(points: list[tuple[float, float]]) -> None:
    labels = svg.Labels(60, 34, 410, 236)
    boxes = []
    for at, (x, y) in enumerate(points):
        drawn = labels.beside(x, y, f"v{at}")
        if drawn:
            left, base = (float(re.search(rf' {name}="([\d.]+)"', drawn)[1]) for name in ("x", "y"))  # type: ignore[index]
            boxes.append((left, base, left + len(f"v{at}") * svg.LETTER))
    assert all(left >= 59.9 and right <= 410.1 and 44 - 0.1 <= base <= 234.1 for left, base, right in boxes)
    for at, (left, base, right) in enumerate(boxes):
        for other, below, end in boxes[:at]:
            assert right <= other + 0.02 or end <= left + 0.02 or abs(base - below) >= 11.9


@pytest.mark.parametrize("shape", [*svg.MARKS, "plus", "cross"])
def test_every_mark_is_drawn_around_its_point(shape: svg.Mark) -> None:
    drawn = svg.mark(shape, 50, 40, "accepted")
    assert drawn.startswith("<") and drawn.endswith("/>") and 'class="accepted"' in drawn
    assert len({svg.mark(other, 50, 40, "accepted") for other in svg.MARKS}) == len(svg.MARKS)


def test_text_and_attributes_are_escaped_once() -> None:
    assert svg.text(1, 2, "<a> & b") == '<text x="1" y="2" text-anchor="start">&lt;a&gt; &amp; b</text>'
    assert svg.tag("g", class_='"><script>', stroke_width=1.5) == '<g class="&quot;&gt;&lt;script&gt;" stroke-width="1.5"/>'
    assert svg.linked(None, "<t>", svg.text(0, 0, "x")).startswith("<g><title>&lt;t&gt;</title>")


def test_what_is_too_long_is_cut_and_names_are_thinned() -> None:
    assert svg.shortened("short", 100) == "short"
    assert svg.shortened("a-very-long-name-of-a-workload", 70) == "a-very-lo…"
    names = [f"v{n}" for n in range(40)]
    shown = re.findall(r">(v\d+)<", svg.names_axis(names, svg.spread(40, 60, 410), 236))
    assert shown[0] == "v0" and 5 < len(shown) < 20 and math.isclose(int(shown[1][1:]) * 2, int(shown[2][1:]))
    _, one = svg.legend([(svg.mark("circle", 0, 0, "accepted"), "a")], 8, 0)
    _, many = svg.legend([(svg.mark("circle", 0, 0, "accepted"), "a word or two")] * 9, 8, 0)
    assert many > 2 * one


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
    for front, least in (("text", 7.0), ("soft", 4.5), ("link", 4.5), ("bad", 4.5), ("good", 4.5), ("third", 4.5), ("bar", 3.0)):
        for back in ("page", "panel"):
            lighter, darker = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= least, (front, back)
