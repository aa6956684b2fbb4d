"""Operations a second against operations a byte, below the roofs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from graph.report.charts.base import INKS, OUTCOMES, Chart, canvas, linked, logarithmic, look, plain, svg
from graph.report.charts.links import Links
from graph.report.content.view import View
from tools.cli.formatting import format_si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graph.report.content.report_rows import Point

TITLE = "Roofline"
HEIGHT = 340.0
MARKS = ("o", "s", "D", "^", "v", "h")
"""Those that can be full or hollow; of more workloads than these some share one."""
NAME = 22
"""Letters of a workload's name in the legend."""


def roofline(view: View, links: Links) -> Chart:
    """Each version on each workload; roofs labelled measured or cited."""
    if not view.points:
        said = (
            "no operations of the reference were counted; how near its workloads come to the memory roof stands in "
            "the tables"
        )
        return Chart(TITLE, None, said)
    marks = dict(zip(dict.fromkeys(point.workload for point in view.points), itertools.cycle(MARKS), strict=False))
    points = list(view.points)
    with canvas(HEIGHT) as (figure, axes):
        axes.set_title("operations a second")
        axes.set_xlabel("operations a byte (inputs and outputs, each once)")
        _roofs(axes, view, links, points)
        for name, shape in marks.items():
            _workload(axes, name, shape, [point for point in points if point.workload == name], links)
        figure.legend(loc="outside lower left", ncols=2)
        told = "; ".join(f"v{p.iteration} on {p.workload}: {format_si(p.rate, 'op/s')}" for p in points)
        roofs = "" if view.roofs else " No roof is known."
        caption = f"Full marks are accepted versions, hollow ones were refused or left open.{roofs}"
        return Chart(TITLE, svg(figure, "roofline", TITLE, told), caption)


def _roofs(axes: Axes, view: View, links: Links, points: list[Point]) -> None:
    """Both axes, and of each origin bandwidth and peak up to where they meet."""
    pairs: dict[str, dict[str, float]] = {}
    for roof in view.roofs:
        pairs.setdefault(roof.origin, {})["memory" if roof.metric == "memory_bandwidth" else "compute"] = roof.value
    ridges = [pair["compute"] / pair["memory"] for pair in pairs.values() if len(pair) == 2]
    left, right = axes.set_xlim(
        *logarithmic(axes, "x", [*(p.intensity for p in points), *ridges], lambda v: f"{v:g}", room=6.0)
    )
    tops = [pair.get("compute") or pair["memory"] * (left * right) ** 0.5 for pair in pairs.values()]
    low, high = logarithmic(
        axes, "y", [*(p.rate for p in points), *tops], lambda v: format_si(v).replace(" ", ""), room=1.8
    )
    axes.set_ylim(low, high)
    for roof in view.roofs:
        pair = pairs[roof.origin]
        ridge = min(max(pair["compute"] / pair["memory"], left), right) if len(pair) == 2 else None
        drawn = [left, ridge or right], [roof.value * left, roof.value * (ridge or right)]
        if roof.metric != "memory_bandwidth":
            drawn = [ridge or left, right], [roof.value, roof.value]
        label = f"{format_si(roof.value, roof.unit)}, {roof.origin}"
        (line,) = axes.plot(*drawn, color=INKS["text"], linestyle="--" if roof.origin == "cited" else "-", label=label)
        linked(line, links.href(roof.source), f"{roof.metric}, {roof.origin}: {roof.source}")


def _workload(axes: Axes, name: str, shape: str, points: list[Point], links: Links) -> None:
    way = [point for point in points if point.outcome == "accept"]
    axes.plot([point.intensity for point in way], [point.rate for point in way], color=INKS["good"], linestyle=":")
    for point in points:
        said = (
            f"v{point.iteration}, {OUTCOMES[point.outcome][1]}, on {name}: {format_si(point.rate, 'op/s')} at "
            f"{point.intensity:.3g} op/B"
        )
        (mark,) = axes.plot([point.intensity], [point.rate], **look(shape, accepted=point.outcome == "accept"))
        linked(mark, links.href(point.record), said)
    # The first and the last accepted; the others' names are their titles, for near each other they could not be read.
    for point, aside, side in ((way[0], -9, "right"), (way[-1], 9, "left")) if len(way) > 1 else ():
        axes.annotate(
            f"v{point.iteration}", (point.intensity, point.rate), (aside, -4), textcoords="offset points", ha=side
        )
    axes.plot([], [], label=plain(name, NAME), **look(shape, accepted=True))
