"""What each method of an accepted version was worth, by taking it out again."""

from __future__ import annotations

from graph.artifacts import MethodOutcome
from graph.report.figures.base import RIGHT, Figure, ends
from graph.report.figures.links import Links
from graph.report.figures.svg import (
    LETTER,
    WIDTH,
    Drawing,
    Mark,
    Scale,
    figure,
    legend,
    line,
    linked,
    log_scale,
    mark,
    shortened,
    text,
    ticks,
)
from graph.report.render import ratio
from graph.report.view import View

IDENTITY, TITLE = "attribution", "What each method was worth"
TOP, ROW = 30.0, 38.0
LEFT = 24.0
STATUSES: dict[str, tuple[Mark, str, str]] = {
    "effective": ("circle", "accepted", "effective"),
    "ineffective": ("square", "refused", "not above noise"),
    "implementation_failed": ("cross", "refused", "not in the machine code"),
    "unattributed": ("diamond", "refused", "not told apart"),
}
"""Status -> mark, class, and what the legend calls it."""


def attribution(view: View, links: Links) -> Figure:
    """A row a method: the version's speed-up over its own kernel without that method."""
    rows = [(n, record, outcome) for n, (record, found) in view.attributions.items() for outcome in found.methods]
    if not rows:
        return Figure(IDENTITY, TITLE, None, "no version became champion")
    values = [value for *_, outcome in rows if outcome.ratio for value in ends(outcome.ratio)]
    scale = log_scale([1.0, *values], LEFT, RIGHT)
    bottom = TOP + ROW * len(rows)
    drawn = []
    for value in ticks(scale):
        x = scale.at(value)
        drawn += [line(x, TOP, x, bottom, "grid"), text(x, bottom + 15, f"{value:g}×", "tick", "middle")]
    drawn += [
        line(scale.at(1.0), TOP, scale.at(1.0), bottom, "even"),
        text(2, TOP - 12, "speed-up over the same kernel without it (log scale)", "axis"),
    ]
    drawn += [_row(n, record, outcome, TOP + ROW * at, scale, links) for at, (n, record, outcome) in enumerate(rows)]
    seen = dict.fromkeys(outcome.status for *_, outcome in rows)
    key, height = legend([(mark(shape, 0, 0, css), word) for s, (shape, css, word) in STATUSES.items() if s in seen], 8, bottom + 38)
    said = "; ".join(f"v{n} {outcome.method}: {STATUSES[outcome.status][2]}, {ratio(outcome.ratio)}" for n, _, outcome in rows)
    caption = "Each method of a champion was taken out alone and the two kernels raced. Left of 1× the version is faster without it."
    return Figure(IDENTITY, TITLE, figure(IDENTITY, TITLE, said, bottom + 34 + height, *drawn, key), caption)


def _row(iteration: int, record: str, outcome: MethodOutcome, top: float, scale: Scale, links: Links) -> Drawing:
    shape, css, word = STATUSES[outcome.status]
    figures = ratio(outcome.ratio)
    name = shortened(f"v{iteration} {outcome.method}", WIDTH - LEFT - 12 - len(figures) * LETTER)
    said = f"v{iteration} {outcome.method}, {word}: {figures}{', ' + outcome.note if outcome.note else ''}"
    drawn = [text(LEFT, top + 13, name), text(RIGHT, top + 13, figures, "", "end")]
    if outcome.ratio is not None:
        y = top + 25
        if outcome.ratio.bounded:
            low, high = scale.at(outcome.ratio.low), scale.at(outcome.ratio.high)
            drawn += [
                line(low, y, high, y, f"interval {css}"),
                line(low, y - 5, low, y + 5, f"interval {css}"),
                line(high, y - 5, high, y + 5, f"interval {css}"),
            ]
        drawn.append(mark(shape, scale.at(outcome.ratio.estimate), y, css))
    return linked(links.href(record), said, *drawn)
