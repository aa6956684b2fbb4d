"""Operations a second against operations a byte, below the roofs."""

from __future__ import annotations

import math
from collections.abc import Iterable

from graph.report.figures.base import LEFT, OUTCOMES, RIGHT, TOP, Figure
from graph.report.figures.links import Links
from graph.report.figures.svg import (
    LETTER,
    MARKS,
    Drawing,
    Labels,
    Mark,
    Scale,
    figure,
    legend,
    linked,
    log_scale,
    mark,
    path,
    shortened,
    tag,
    x_axis,
    y_axis,
)
from graph.report.figures.svg import text as words
from graph.report.render import si
from graph.report.rows import Point
from graph.report.view import View
from tools.hardware import Roof

IDENTITY, TITLE = "roofline", "Roofline"
BOTTOM = 262.0
SIDE = 15.0
"""Least distance of two workloads: those of nearly one intensity are drawn side by side."""
MOST = len(MARKS)
"""Workloads that are drawn, those of the largest share first."""


def roofline(view: View, links: Links) -> Figure:
    """Each version on each workload; roofs labelled measured or cited."""
    if not view.points:
        return Figure(
            IDENTITY,
            TITLE,
            None,
            "no operations of the reference were counted; how near its workloads come to the memory roof stands in the tables",
        )
    shares = {row.name: row.share or 0.0 for row in view.workloads}
    every = list(dict.fromkeys(point.workload for point in view.points))
    chosen = sorted(every, key=lambda name: -shares.get(name, 0.0))[:MOST]
    points = [point for point in view.points if point.workload in chosen]
    ridges = [compute.value / memory.value for memory, compute in _pairs(view.roofs) if memory and compute]
    x = log_scale([*(p.intensity for p in points), *ridges], LEFT, RIGHT, room=6.0)
    tops = [y for memory, compute in _pairs(view.roofs) for y in _top(memory, compute, x)]
    y = log_scale([*(p.rate for p in points), *tops], BOTTOM, TOP, room=1.8)
    labels = Labels(LEFT, TOP, RIGHT, BOTTOM)
    drawn = [
        y_axis(y, LEFT, RIGHT, "operations a second", lambda v: si(v).replace(" ", "")),
        x_axis(x, TOP, BOTTOM, "operations a byte (inputs and outputs, each once)", lambda v: f"{v:g}"),
    ]
    marks = dict(zip([name for name in every if name in chosen], MARKS, strict=False))
    across = _side_by_side({p.workload: x.at(p.intensity) for p in points})
    for point in points:
        labels.keep_off(across[point.workload], y.at(point.rate))
    pairs = _pairs(view.roofs)
    drawn += [_roof(memory, compute, x, y, labels, links, beside=len(pairs) > 1) for memory, compute in pairs]
    drawn += [drawing for name in marks for drawing in _workload(name, marks[name], points, across[name], y, labels, links)]
    key, height = legend([(mark(shape, 0, 0, "accepted"), shortened(name, 150)) for name, shape in marks.items()], 8, BOTTOM + 54)
    said = "; ".join(f"v{p.iteration} on {p.workload}: {si(p.rate, 'op/s')}" for p in points)
    left_out = f" Of {len(every)} workloads the {MOST} of the largest share are drawn; the table has all." if len(every) > MOST else ""
    roofs = "" if view.roofs else " No roof is known."
    caption = (
        "Full marks are accepted versions, hollow ones were refused or left open; workloads of nearly one intensity stand side by side."
        f"{roofs}{left_out}"
    )
    return Figure(IDENTITY, TITLE, figure(IDENTITY, TITLE, said, BOTTOM + 50 + height, *drawn, key), caption)


def _pairs(roofs: Iterable[Roof]) -> list[tuple[Roof | None, Roof | None]]:
    """Bandwidth and peak of each origin."""
    found: dict[str, list[Roof | None]] = {}
    for roof in roofs:
        found.setdefault(roof.origin, [None, None])[0 if roof.metric == "memory_bandwidth" else 1] = roof
    return [(memory, compute) for memory, compute in found.values()]


def _top(memory: Roof | None, compute: Roof | None, x: Scale) -> list[float]:
    """Heights that the plot must hold of a roof."""
    return [compute.value] if compute else [memory.value * math.sqrt(x.low * x.high)] if memory else []


def _roof(memory: Roof | None, compute: Roof | None, x: Scale, y: Scale, labels: Labels, links: Links, *, beside: bool) -> Drawing:
    """The slanted and the flat part, with their labels; `beside` another roof measured ones go below the line, cited ones above it."""
    highest = compute.value if compute else y.high
    ridge = highest / memory.value if memory else x.low
    # Both ends within the plot: a line that leaves it is cut where it does.
    start = max(x.low, y.low / memory.value) if memory else x.low
    bend = min(max(ridge, x.low), x.high)
    parts = []
    if memory:
        slanted = [(start, memory.value * start), (bend, min(memory.value * bend, y.high))]
        ends = [(x.at(a), y.at(b)) for a, b in slanted]
        parts += [
            path(ends, f"roof {memory.origin}"),
            _along(ends, memory, f"{si(memory.value, memory.unit)}, {memory.origin}", labels, links),
        ]
    if compute:
        flat = y.at(compute.value)
        parts.append(path([(x.at(bend), flat), (RIGHT, flat)], f"roof {compute.origin}"))
        above = flat + 14 if compute.origin == "measured" and beside else flat - 6
        named = f"{si(compute.value, compute.unit)}, {compute.origin}"
        parts.append(_named(compute, links, words(RIGHT - 2, above, named, "roof-name", "end")))
        labels.keep_off(RIGHT, above - 4, 8, width=len(named) * LETTER)
    return tag("g", *parts)


def _along(ends: list[tuple[float, float]], roof: Roof, said: str, labels: Labels, links: Links) -> Drawing:
    """A label along the slanted part, where most room is."""
    (x1, y1), (x2, y2) = ends
    half = len(said) * LETTER / 2 / max(math.dist(*ends), 1.0)
    # Away from the bend, where the flat part has its label.
    shares = [half + (0.9 - 2 * half) * part / 4 for part in range(5)] if half < 0.45 else [0.5]
    x, y = labels.freest([(x1 + (x2 - x1) * share, y1 + (y2 - y1) * share) for share in shares])
    angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
    side = -6 if roof.origin == "cited" else 14
    turned = tag("g", words(0, side, said, "roof-name", "middle"), transform=f"translate({x:.2f} {y:.2f}) rotate({angle:.2f})")
    along = [(x1 + (x2 - x1) * part / 40, y1 + (y2 - y1) * part / 40) for part in range(41)]
    for place in (place for place in along if math.dist(place, (x, y)) <= len(said) * LETTER / 2):
        labels.keep_off(*place, 14)
    return _named(roof, links, turned)


def _named(roof: Roof, links: Links, drawing: Drawing) -> Drawing:
    return linked(links.href(roof.source), f"{roof.metric}, {roof.origin}: {roof.source}", drawing)


def _side_by_side(places: dict[str, float]) -> dict[str, float]:
    """The same places, moved apart where they are nearer than `SIDE`."""
    moved: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        last = moved[name] = max(place, last + SIDE)
    over = max((moved[name] - place for name, place in places.items()), default=0.0)
    return {name: place - over / 2 for name, place in moved.items()}


def _workload(name: str, shape: Mark, points: list[Point], x: float, y: Scale, labels: Labels, links: Links) -> list[Drawing]:
    own = [point for point in points if point.workload == name]
    way = [(x, y.at(point.rate)) for point in own if point.outcome == "accept"]
    drawn = [path(way, "way")] if len(way) > 1 else []
    for point in own:
        place = y.at(point.rate)
        label = labels.beside(x, place, f"v{point.iteration}")
        said = f"v{point.iteration}, {OUTCOMES[point.outcome][1]}, on {name}: {si(point.rate, 'op/s')} at {point.intensity:.3g} op/B"
        css = "accepted" if point.outcome == "accept" else "refused"
        drawn.append(linked(links.href(point.record), said, mark(shape, x, place, css), label or ""))
    return drawn
