"""What a plan is told of the plans before it."""

from __future__ import annotations

from agents.artifacts import Hypothesis, Movement, PlannedMethod
from graph.artifacts import Scored
from graph.nodes import propose


def test_a_miss_says_what_was_predicted_and_what_came() -> None:
    expected = (Movement(metric="time", direction="down", factor=0.15, confidence=0.8),)
    hypothesis = Hypothesis(change="c", rationale="r", citations=("x",), expected=expected)
    planned = PlannedMethod(method="vector-exp", axis="compute", hypothesis=hypothesis)
    assert propose._missed(Scored(planned=planned, observed_factor=0.0631, hit=False)) == "vector-exp: time 0.15 predicted, 0.0631 observed"
