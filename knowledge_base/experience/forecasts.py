"""How well the confidence that models state in their predictions holds: a log score over all runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from knowledge_base.artifacts import Attempt, Forecast
from tools.artifacts import Artifact

MIN_SCORED_PREDICTIONS = 10
"""Scored predictions from which on a planner reads its own score."""
MIN_PROBABILITY = 0.01
"""Nothing is counted as more certain than 1 - SURE: one that was stated as certain and missed would outweigh all
others."""


class ForecastScore(Artifact):
    """How a group of scored predictions held."""

    scored: int
    held: int
    stated: float
    """Mean confidence."""
    log_score: float
    """Mean of ln(stated probability of the outcome): 0 is best, and 0.5 stated each time gives ln 0.5."""

    def __str__(self) -> str:
        held = f"{self.held} of {self.scored} predictions of time held ({self.held / self.scored:.0%})"
        return (
            f"{held}, stated {self.stated:.0%} on average; log score {self.log_score:.2f} (a coin has "
            f"{math.log(0.5):.2f})"
        )


def scores_by_model(attempts: Iterable[Attempt]) -> dict[str, ForecastScore]:
    """The scores of each model (key `name`), and of each model with a method (key `name, method`)."""
    groups: dict[str, list[Forecast]] = {}
    for one in (forecast for attempt in attempts for forecast in attempt.forecasts):
        for name in (one.model, f"{one.model}, {one.method}"):
            groups.setdefault(name, []).append(one)
    return {name: _score_of(found) for name, found in sorted(groups.items())}


def _score_of(found: Sequence[Forecast]) -> ForecastScore:
    log_score = fmean(
        math.log(max(MIN_PROBABILITY, one.confidence if one.held else 1 - one.confidence)) for one in found
    )
    stated, held = fmean(one.confidence for one in found), sum(one.held for one in found)
    return ForecastScore(scored=len(found), held=held, stated=stated, log_score=log_score)
