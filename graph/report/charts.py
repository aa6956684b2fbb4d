"""The two charts of report.html as SVG: the speed-up of each version, and the roofline.

Marks are characters, so that text needs no drawing; colours are classes of the page's style sheet, which differ between
light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import NamedTuple, NewType

from graph.report.content.report_rows import Point, VersionStep
from graph.report.content.view import ReportData
from graph.report.links import Links
from tools.artifacts import Interval, Outcome
from tools.cli.formatting import format_si, format_speedup

Markup = NewType("Markup", str)
"""HTML that only the report writes; everything else that enters a page is escaped."""

WIDTH, HEIGHT = 420.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 408.0, 12.0, 216.0
"""Edges of the plot within the chart."""
MAX_TICKS, MAX_LABELLED_STEPS = 7, 8
OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "accept": ("●", "accepted"),
    "reject_perf": ("□", "refused: not faster"),
    "inconclusive": ("◇", "inconclusive"),
    "reject_correctness": ("✕", "refused: wrong"),
    "reject_policy": ("△", "refused: against the rules"),
    "infra_error": ("+", "the machine failed"),
}
"""Outcome -> its mark, and its words in the legend. The shape alone tells outcomes apart; colour only helps."""
WORKLOAD_MARKS = ("●○", "■□", "◆◇", "▲△", "★☆")
"""The mark of an accepted and of another version; further workloads share them."""


class Chart(NamedTuple):
    """A chart, or the reason why there is none."""

    title: str
    drawing: Markup | None
    caption: str
    """What the chart shows; without a drawing the reason, to follow N/A."""


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from `low` at pixel `start` to `high` at pixel `end`."""

    low: float
    high: float
    start: float
    end: float

    @staticmethod
    def containing(values: Iterable[float], margin: float, start: float, end: float) -> LogAxis:
        """The axis that holds every positive value with a factor of `margin` on both sides."""
        positive = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
        return LogAxis(min(positive) / margin, max(positive) * margin, start, end)

    def pixel(self, value: float) -> float:
        """Where `value` stands; values beyond the axis stand at its end."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + (self.end - self.start) * min(1.0, max(0.0, share)), 1)

    def ticks(self) -> list[float]:
        """At most `MAX_TICKS` round numbers within the axis."""
        if self.high / self.low < 4:
            rough = (self.high - self.low) / 5
            unit = 10.0 ** math.floor(math.log10(rough))
            step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= rough)
            numbers = [n * step for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        else:
            digits = (1, 2, 5) if self.high / self.low < 1e3 else (1,)
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            numbers = [n * 10.0**d for d in decades for n in digits if self.low <= n * 10.0**d <= self.high]
        return numbers[:: math.ceil(len(numbers) / MAX_TICKS)] if numbers else []


def _element(tag: str, content: str = "", **attributes: object) -> str:
    """An SVG element; `content` is markup. `class_` stands for class, and `_` in other names for a dash."""
    dashed = ((name.rstrip("_").replace("_", "-"), escape(str(value))) for name, value in attributes.items())
    given = "".join(f' {name}="{value}"' for name, value in dashed)
    return f"<{tag}{given}>{content}</{tag}>"


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return _element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _text(text: str, x: float, y: float, class_: str) -> str:
    return _element("text", escape(text), x=x, y=y, class_=class_)


def _linked(drawn: str, href: str | None, title: str) -> str:
    """`drawn` as a link to its record, with a tooltip."""
    return _element("a" if href else "g", _element("title", escape(title)) + drawn, **({"href": href} if href else {}))


def _grid(axis: LogAxis, label: Callable[[float], str], *, vertical: bool) -> list[str]:
    """The lines and labels of an axis's ticks; a vertical axis has horizontal lines."""
    parts = []
    for tick in axis.ticks():
        at = axis.pixel(tick)
        parts.append(_line(LEFT, at, RIGHT, at, "grid") if vertical else _line(at, TOP, at, BOTTOM, "grid"))
        parts.append(
            _text(label(tick), LEFT - 6, at, "tick end") if vertical else _text(label(tick), at, BOTTOM + 14, "tick")
        )
    return parts


def _svg(identity: str, title: str, description: str, parts: Iterable[str]) -> Markup:
    """The chart as an element of the page, with a name and a description for people who cannot see it."""
    named = _element("title", escape(title), id=f"{identity}-t") + _element(
        "desc", escape(description), id=f"{identity}-d"
    )
    return Markup(
        _element(
            "svg",
            named + "".join(parts),
            viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
            role="graphics-document",
            aria_labelledby=f"{identity}-t",
            aria_describedby=f"{identity}-d",
        )
    )


def _ends(interval: Interval) -> tuple[float, ...]:
    """The estimate of an interval with both ends, or alone where an end is unknown."""
    return (interval.low, interval.estimate, interval.high) if interval.is_bounded else (interval.estimate,)


def timeline(view: ReportData, links: Links) -> Chart:
    """The speed-up of each version over its parent with its interval, and the final benchmark's over the baseline."""
    title = "Speed-up of each version"
    if not view.steps:
        return Chart(title, None, "no iteration was closed")
    final = view.final.overall.get("baseline") if view.final else None
    intervals = [step.speedup for step in view.steps if step.speedup] + ([final] if final else [])
    products = [step.so_far for step in view.steps]
    axis = LogAxis.containing(
        [1.0, *products, *(end for one in intervals for end in _ends(one))], 1.25, BOTTOM - 20, TOP
    )
    columns = len(view.steps) + bool(final)
    width = (RIGHT - LEFT) / columns
    labelled = columns <= MAX_LABELLED_STEPS
    parts = [
        *_grid(axis, lambda value: f"{value:g}×", vertical=True),
        _line(LEFT, axis.pixel(1), RIGHT, axis.pixel(1), "axis"),
    ]
    corners = [
        (LEFT + width * n, axis.pixel(value)) for n, one in enumerate(products) for value in ([1.0, *products][n], one)
    ]
    path = " ".join(f"{x:.1f},{y}" for x, y in [*corners, (LEFT + width * len(products), corners[-1][1])])
    parts.append(_element("polyline", points=path, class_="dotted"))
    for n, step in enumerate(view.steps):
        mark, words = OUTCOMES[step.outcome]
        tooltip = f"v{step.iteration}, {words}{', masked' if step.masked else ''}: "
        tooltip += f"{format_speedup(step.speedup)} over its parent; "
        tooltip += ", ".join(step.methods) or "no method"
        class_ = "good" if step.outcome == "accept" else "bad"
        x = LEFT + width * (n + 0.5)
        parts.append(
            _interval(axis, step.speedup, x, mark, class_, links.href(step.record), tooltip, labelled=labelled)
        )
        if n % math.ceil(columns / 12) == 0:
            parts.append(_text(f"v{step.iteration}", round(x, 1), BOTTOM + 14, "tick"))
    if final:
        x, tooltip = RIGHT - width / 2, f"final benchmark: {format_speedup(final)} over the baseline"
        parts.append(_interval(axis, final, x, "◆", "third", links.href(view.final_record), tooltip, labelled=labelled))
        parts.append(_text("final", round(x, 1), BOTTOM + 14, "tick"))
    if any(step.speedup is None for step in view.steps):
        parts.append(_text("untimed", LEFT - 6, BOTTOM, "tick end"))
    return Chart(title, _svg("timeline", title, _timeline_words(view.steps, final), parts), _timeline_caption(view))


def _timeline_words(steps: Iterable[VersionStep], final: Interval | None) -> str:
    words = [f"v{step.iteration} {OUTCOMES[step.outcome][1]} {format_speedup(step.speedup)}" for step in steps]
    return "; ".join([*words, *([f"final benchmark against the baseline {format_speedup(final)}"] if final else [])])


def _timeline_caption(view: ReportData) -> str:
    legend = ", ".join(
        f"{mark} {words}" for mark, words in dict.fromkeys(OUTCOMES[step.outcome] for step in view.steps)
    )
    confirmed = any(verdict.claim for _, verdict in view.verdicts.values())
    source = "those confirmed in separate processes where a version came that far, else " if confirmed else ""
    return (
        f"{legend}; ◆ the final benchmark over the baseline, clocked from outside. Speed-ups are over the parent, on a "
        f"logarithmic scale; bars are the intervals of the verdicts, {source}those measured in the kernels' own "
        f"process. The dotted line is the product of the accepted estimates."
    )


def _interval(
    axis: LogAxis,
    interval: Interval | None,
    x: float,
    mark: str,
    class_: str,
    href: str | None,
    tooltip: str,
    *,
    labelled: bool,
) -> str:
    """A mark at the estimate with the bar of its interval; below the axis without an interval."""
    x = round(x, 1)
    if interval is None:
        return _linked(_text(mark, x, BOTTOM, f"mark {class_}"), href, tooltip)
    bar = _line(x, axis.pixel(interval.low), x, axis.pixel(interval.high), class_) if interval.is_bounded else ""
    at = axis.pixel(interval.estimate)
    label = _text(f"{interval.estimate:.3g}×", x + 9, at, "tick start") if labelled else ""
    return _linked(bar + _text(mark, x, at, f"mark {class_}") + label, href, tooltip)


def roofline(view: ReportData, links: Links) -> Chart:
    """Operations a second over operations a byte, of each version on each workload, below the known roofs."""
    title = "Roofline"
    if not view.points:
        reason = (
            "no operations of the reference were counted; the tables show how near its workloads are to the memory roof"
        )
        return Chart(title, None, reason)
    roofs: dict[str, dict[str, float]] = {}
    for roof in view.roofs:
        kind = "memory" if roof.metric == "memory_bandwidth" else "compute"
        roofs.setdefault(roof.origin, {})[kind] = roof.value
    ridges = [pair["compute"] / pair["memory"] for pair in roofs.values() if len(pair) == 2]
    x_axis = LogAxis.containing([*(p.intensity for p in view.points), *ridges], 6.0, LEFT, RIGHT)
    middle = math.sqrt(x_axis.low * x_axis.high)
    tops = [pair.get("compute") or pair["memory"] * middle for pair in roofs.values()]
    y_axis = LogAxis.containing([*(p.rate for p in view.points), *tops], 1.8, BOTTOM, TOP)
    parts = _grid(x_axis, lambda value: f"{value:g}", vertical=False)
    parts += _grid(y_axis, lambda value: format_si(value).replace(" ", ""), vertical=True)
    parts.append(_text("operations a byte (inputs and outputs, each once)", (LEFT + RIGHT) / 2, BOTTOM + 32, "tick"))
    for roof in view.roofs:
        pair = roofs[roof.origin]
        ridge = pair["compute"] / pair["memory"] if len(pair) == 2 else None
        if roof.metric == "memory_bandwidth":
            left, right = y_axis.low / roof.value, min(ridge or x_axis.high, y_axis.high / roof.value)
            ends = (max(left, x_axis.low), right)
            heights = [roof.value * one for one in ends]
        else:
            ends, heights = (ridge or x_axis.low, x_axis.high), [roof.value, roof.value]
        (x1, x2), (y1, y2) = map(x_axis.pixel, ends), map(y_axis.pixel, heights)
        line = _line(x1, y1, x2, y2, "dashed" if roof.origin == "cited" else "roof")
        parts.append(_linked(line, links.href(roof.source), f"{roof.metric}, {roof.origin}: {roof.source}"))
    workloads = list(dict.fromkeys(point.workload for point in view.points))
    marks = {name: WORKLOAD_MARKS[n % len(WORKLOAD_MARKS)] for n, name in enumerate(workloads)}
    accepted = [point.iteration for point in view.points if point.outcome == "accept"]
    # Marks near each other could not be read with a label each; the others have theirs as a tooltip.
    labelled = {min(accepted), max(accepted)} if accepted else set()
    for point in view.points:
        label = f"v{point.iteration}" if point.iteration in labelled else ""
        parts.append(_point(point, marks[point.workload], label, x_axis, y_axis, links))
    words = "; ".join(f"v{p.iteration} on {p.workload}: {format_si(p.rate, 'op/s')}" for p in view.points)
    legend = ", ".join(f"{mark[0]} {name}" for name, mark in marks.items())
    known = "; ".join(f"{format_si(roof.value, roof.unit)}, {roof.origin}" for roof in view.roofs) or "none is known"
    caption = (
        f"Operations a second; {legend}. Full marks are accepted versions, hollow ones were refused or left open. "
        f"Roofs: {known}."
    )
    return Chart(title, _svg("roofline", title, words, parts), caption)


def _point(point: Point, marks: str, label: str, x_axis: LogAxis, y_axis: LogAxis, links: Links) -> str:
    accepted = point.outcome == "accept"
    tooltip = (
        f"v{point.iteration}, {OUTCOMES[point.outcome][1]}, on {point.workload}: {format_si(point.rate, 'op/s')} at "
        f"{point.intensity:.3g} op/B"
    )
    x, y = x_axis.pixel(point.intensity), y_axis.pixel(point.rate)
    drawn = _text(marks[not accepted], x, y, "mark good" if accepted else "mark bad")
    return _linked(drawn + (_text(label, x + 9, y, "tick start") if label else ""), links.href(point.record), tooltip)


CHARTS = (timeline, roofline)
