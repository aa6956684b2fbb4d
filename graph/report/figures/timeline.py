"""The speed-up of each version over its parent, and what they came to."""

from __future__ import annotations

from graph.report.figures.base import LEFT, OUTCOMES, RIGHT, TOP, Figure, ends, style
from graph.report.figures.links import Links
from graph.report.figures.svg import (
    Drawing,
    Labels,
    Scale,
    figure,
    legend,
    line,
    linked,
    log_scale,
    mark,
    names_axis,
    path,
    spread,
    text,
    y_axis,
)
from graph.report.figures.svg import tag as element
from graph.report.render import ratio
from graph.report.rows import Step
from graph.report.view import View
from tools.artifacts import Interval

IDENTITY, TITLE = "timeline", "Speed-up of each version"
BOTTOM, LANE = 236.0, 24.0
"""Lower end of the plot, and the height of the lane below it for versions that were not timed."""


def timeline(view: View, links: Links) -> Figure:
    """Marks with intervals, one a version in order; the final benchmark last."""
    if not view.steps:
        return Figure(IDENTITY, TITLE, None, "no iteration was closed")
    overall = view.final.overall.get("baseline") if view.final else None
    names = [f"v{step.iteration}" for step in view.steps] + (["final"] if overall else [])
    places = spread(len(names), LEFT, RIGHT)
    shown = [step.speedup for step in view.steps if step.speedup] + ([overall] if overall else [])
    values = [value for interval in shown for value in ends(interval)]
    scale = log_scale([1.0, *values, *(step.so_far for step in view.steps)], BOTTOM, TOP)
    lane = LANE if any(step.speedup is None for step in view.steps) else 0.0
    labels = Labels(LEFT, TOP, RIGHT, BOTTOM)
    drawn = [y_axis(scale, LEFT, RIGHT, "over its parent (log scale)", lambda v: f"{v:g}×")]
    drawn += [line(LEFT, scale.at(1.0), RIGHT, scale.at(1.0), "even"), *_so_far(view.steps, places, scale)]
    for step, x in zip(view.steps, places, strict=False):
        labels.keep_off(x, scale.at(step.speedup.estimate if step.speedup else 1.0))
    drawn += [_step(step, x, scale, labels, links) for step, x in zip(view.steps, places, strict=False)]
    if overall:
        drawn.append(_final(view, overall, places[-1], scale, labels, links))
    if lane:
        drawn += [line(LEFT, BOTTOM + lane, RIGHT, BOTTOM + lane, "grid"), text(LEFT - 6, BOTTOM + lane - 7, "untimed", "tick", "end")]
    drawn.append(names_axis(names, places, BOTTOM + lane))
    key, height = legend(_entries(view, final=overall is not None), 8, BOTTOM + lane + 38)
    said = "; ".join(f"v{step.iteration} {OUTCOMES[step.outcome][1]} {ratio(step.speedup)}" for step in view.steps)
    said += f"; final benchmark against the baseline {ratio(overall)}" if overall else ""
    caption = (
        "Bars are the intervals of the verdicts; below 1× is slower. The line is the product of the accepted estimates, taken in the "
        "kernels' own processes; the final benchmark, against the baseline, is clocked from outside."
    )
    return Figure(IDENTITY, TITLE, figure(IDENTITY, TITLE, said, BOTTOM + lane + 34 + height, *drawn, key), caption)


def _so_far(steps: tuple[Step, ...], places: list[float], scale: Scale) -> list[Drawing]:
    if not any(step.outcome == "accept" for step in steps):
        return []
    points, before = [(LEFT, scale.at(1.0))], 1.0
    for step, x in zip(steps, places, strict=False):
        points += [(x, scale.at(before)), (x, scale.at(step.so_far))]
        before = step.so_far
    half = places[0] - LEFT
    return [path([*points, (min(points[-1][0] + half, RIGHT), scale.at(before))], "so-far")]


def _interval(interval: Interval, x: float, scale: Scale, css: str) -> list[Drawing]:
    if not interval.bounded:
        return []
    low, high = scale.at(interval.low), scale.at(interval.high)
    return [line(x, low, x, high, css), line(x - 5, low, x + 5, low, css), line(x - 5, high, x + 5, high, css)]


def _step(step: Step, x: float, scale: Scale, labels: Labels, links: Links) -> Drawing:
    shape, word = OUTCOMES[step.outcome]
    masked = ", masked" if step.masked else ""
    said = f"v{step.iteration}, {word}{masked}: {ratio(step.speedup)} over its parent; {', '.join(step.methods) or 'no method'}"
    css = style(step.outcome)
    if step.speedup is None:
        return linked(links.href(step.record), said, mark(shape, x, BOTTOM + LANE / 2, css))
    y = scale.at(step.speedup.estimate)
    label = labels.beside(x, y, f"{step.speedup.estimate:.3g}×")
    return linked(links.href(step.record), said, *_interval(step.speedup, x, scale, f"interval {css}"), mark(shape, x, y, css), label or "")


def _final(view: View, overall: Interval, x: float, scale: Scale, labels: Labels, links: Links) -> Drawing:
    y = scale.at(overall.estimate)
    label = labels.beside(x, y, f"{overall.estimate:.3g}×")
    said = f"final benchmark: {ratio(overall)} over the baseline"
    return linked(
        links.href(view.final_record), said, *_interval(overall, x, scale, "interval final"), mark("diamond", x, y, "final"), label or ""
    )


def _entries(view: View, *, final: bool) -> list[tuple[Drawing, str]]:
    seen = dict.fromkeys(step.outcome for step in view.steps)
    entries = [(mark(OUTCOMES[outcome][0], 0, 0, style(outcome)), OUTCOMES[outcome][1]) for outcome in OUTCOMES if outcome in seen]
    if "accept" in seen:
        entries.append((element("g", line(-8, 0, 8, 0, "so-far")), "accepted, multiplied"))
    return entries + ([(mark("diamond", 0, 0, "final"), "final, over v0")] if final else [])
