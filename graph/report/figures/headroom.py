"""How far each accepted version is from the roofs of arithmetic, memory and latency."""

from __future__ import annotations

from graph.report.figures.base import LEFT, RIGHT, TOP, Figure, accepted_label
from graph.report.figures.links import Links
from graph.report.figures.svg import Mark, Scale, figure, legend, line, linked, mark, names_axis, path, spread, tag, y_axis
from graph.report.render import percent
from graph.report.view import View
from tools.hardware import Headroom

IDENTITY, TITLE = "headroom", "Headroom drift"
BOTTOM = 222.0
SERIES: tuple[tuple[str, str, Mark, str], ...] = (
    ("compute", "Δc, compute", "circle", "series-1"),
    ("memory", "Δm, memory", "square", "series-2"),
    ("latency", "Δl, latency", "triangle", "series-3"),
)
"""Field of Headroom, its name in the legend, its mark and its class."""
SIDE = 9.0
"""The three stand side by side, for their values often agree."""


def _gap(headroom: Headroom, field: str) -> float | None:
    return {"compute": headroom.compute, "memory": headroom.memory, "latency": headroom.latency}[field]


def headroom(view: View, links: Links) -> Figure:
    """Three lines over the accepted versions; a gap that was not collected has no mark."""
    found = [(accepted_label(view, c), i.headroom, view.inspection_records[c]) for c, i in view.inspections.items()]
    if not any(_gap(h, field) is not None for _, h, _ in found for field, *_ in SERIES):
        return Figure(IDENTITY, TITLE, None, "no roof is known")
    places = spread(len(found), LEFT, RIGHT)
    scale = Scale(0.0, 1.0, BOTTOM, TOP)
    drawn = [y_axis(scale, LEFT, RIGHT, "share of the time that lies above the roof", lambda v: f"{100 * v:.0f} %", 5)]
    for at, (field, name, shape, css) in enumerate(SERIES):
        seen = [
            (x + (at - 1) * SIDE, gap, label, record)
            for x, (label, h, record) in zip(places, found, strict=True)
            if (gap := _gap(h, field)) is not None
        ]
        drawn.append(path([(x, scale.at(gap)) for x, gap, *_ in seen], css))
        for x, gap, label, record in seen:
            drawn.append(linked(links.href(record), f"{label}, {name}: {percent(gap)}", mark(shape, x, scale.at(gap), css)))
    drawn.append(names_axis([label for label, *_ in found], places, BOTTOM))
    entries = [(tag("g", line(-8, 0, 8, 0, css), mark(shape, 0, 0, css)), name) for _, name, shape, css in SERIES]
    key, height = legend(entries, 8, BOTTOM + 38)
    said = "; ".join(f"{label}: " + ", ".join(f"{name} {percent(_gap(h, field))}" for field, name, *_ in SERIES) for label, h, _ in found)
    absent = [f"{name} of {label}" for label, h, _ in found for field, name, *_ in SERIES if _gap(h, field) is None]
    caption = "Of the objective; 0 % is at the roof. Refused versions are not profiled." + (f" N/A: {', '.join(absent)}." if absent else "")
    return Figure(IDENTITY, TITLE, figure(IDENTITY, TITLE, said, BOTTOM + 34 + height, *drawn, key), caption)
