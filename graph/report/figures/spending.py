"""What a run had spent when each version was closed: wall time, device time, dollars, tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agents.models.ledger import dollars
from graph.report.figures.base import Figure
from graph.report.figures.links import Links
from graph.report.figures.svg import WIDTH, Drawing, Scale, figure, line, linked, names_axis, spread, tag, text
from graph.report.render import seconds, si
from graph.report.rows import Expense
from graph.report.view import View

IDENTITY, TITLE = "spending", "Budget spent over the run"
PANEL, GAP = (WIDTH - 24) / 2, 24.0
HEIGHT, EMPTY = 132.0, 80.0
"""Of a row of panels, and of one that has no bars."""


class Series(NamedTuple):
    """One of the four."""

    name: str
    values: tuple[float | None, ...]
    """By expense; None: not known."""
    shown: Callable[[float], str]
    nothing: str
    """What is said where all is 0 or unknown."""


def spending(view: View, links: Links) -> Figure:
    """Four panels of bars that add up, version by version."""
    if not view.expenses:
        return Figure(IDENTITY, TITLE, None, "the log of events is not there")
    every = view.expenses
    unpaid = "no language model was paid"
    unknown = next((expense.spent.unknown[0] for expense in every if expense.spent.unknown), "")
    panels = (
        Series("wall time", tuple(e.wall_s for e in every), seconds, "N/A"),
        Series("on the device", tuple(e.device_s for e in every), seconds, "N/A"),
        Series(
            "dollars", tuple(None if e.spent.unknown else e.spent.usd for e in every), dollars, f"N/A: {unknown}" if unknown else unpaid
        ),
        Series("tokens", tuple(float(e.spent.tokens) for e in every), si, unpaid if not unknown else "not counted"),
    )
    drawn, top = [], 0.0
    for row in (panels[:2], panels[2:]):
        for at, series in enumerate(row):
            drawn.append(tag("g", *_panel(series, every, links), transform=f"translate({at * (PANEL + GAP):.2f} {top:.2f})"))
        top += HEIGHT if any(any(series.values) for series in row) else EMPTY
    said = "; ".join(f"{expense.label}: {seconds(expense.wall_s)} wall time, {expense.spent}" for expense in every)
    caps = ", ".join(f"{name} {cap}" for name, cap in view.caps.items())
    caption = f"Each bar is all that was spent by the time that version was closed. Caps: {caps or 'none'}."
    return Figure(IDENTITY, TITLE, figure(IDENTITY, TITLE, said, top, *drawn), caption)


def _panel(series: Series, every: Sequence[Expense], links: Links) -> list[Drawing]:
    known = [value for value in series.values if value is not None]
    if not any(known):
        return [
            text(2, 16, series.name, "axis"),
            *(text(2, 38 + at * 16, said, "tick") for at, said in enumerate(_wrapped(series.nothing))),
        ]
    top, bottom = 28.0, HEIGHT - 28
    scale = Scale(0.0, max(known), bottom, top)
    places = spread(len(every), 2, PANEL)
    half = min(0.4 * PANEL / len(every), 18.0)
    drawn = [text(2, 16, f"{series.name}: {series.shown(known[-1])}", "axis"), line(2, bottom, PANEL, bottom, "even")]
    for expense, value, x in zip(every, series.values, places, strict=True):
        said = f"by {expense.label}: {'N/A' if value is None else series.shown(value)} ({series.name})"
        y = scale.at(value or 0.0)
        bar = tag("rect", x=x - half, y=y, width=2 * half, height=max(bottom - y, 0.5), class_="bar")
        drawn.append(linked(links.href(expense.record), said, bar))
    return [*drawn, names_axis([expense.label for expense in every], places, bottom)]


def _wrapped(said: str, most: int = 28) -> list[str]:
    """`said` in lines that fit a panel."""
    lines = [""]
    for word in said.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines[:4]
