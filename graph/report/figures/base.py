"""What the figures of a report share: their place, their axes' ends, and the mark of each outcome."""

from __future__ import annotations

from typing import NamedTuple

from graph.report.figures.svg import WIDTH, Drawing, Mark
from graph.report.view import View
from tools.artifacts import Interval, Outcome

LEFT, RIGHT, TOP = 60.0, WIDTH - 10, 34.0
"""Ends of a plot."""

OUTCOMES: dict[Outcome, tuple[Mark, str]] = {
    "accept": ("circle", "accepted"),
    "reject_perf": ("square", "refused: not faster"),
    "inconclusive": ("diamond", "inconclusive"),
    "reject_correctness": ("cross", "refused: wrong"),
    "reject_policy": ("triangle", "refused: against the rules"),
    "infra_error": ("plus", "the machine failed"),
}
"""Outcome -> its mark, and what the legend calls it."""


class Figure(NamedTuple):
    """One figure, or why there is none."""

    identity: str
    title: str
    drawing: Drawing | None
    caption: str
    """What is to be seen, or after N/A why nothing is."""


def style(outcome: Outcome) -> str:
    """The class of a version's mark: full when accepted, hollow otherwise."""
    return "accepted" if outcome == "accept" else "refused"


def ends(interval: Interval) -> tuple[float, ...]:
    """The figures of an interval: all three, or the estimate alone where an end is unknown."""
    return (interval.low, interval.estimate, interval.high) if interval.bounded else (interval.estimate,)


def accepted_label(view: View, candidate: str) -> str:
    """v<N> of an accepted kernel."""
    return view.labels.get(candidate, candidate)
