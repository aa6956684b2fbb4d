"""A submission as the record of it, and as the plan that the graph takes."""

from __future__ import annotations

from agents.artifacts import Hypothesis, Plan, PlannedMethod, Prediction
from graph.bench.arguments import SubmissionArguments
from tools.artifacts import Artifact


class Submission(Artifact):
    """A submission that the judge takes."""

    iteration: int
    said: SubmissionArguments
    source: str
    """The whole text of the kernel file."""


def plan_of(said: SubmissionArguments) -> Plan:
    """Return a submission as a plan of one method and one candidate."""
    prediction = Prediction(
        metric="time",
        direction="down" if said.time_factor <= 1 else "up",
        factor=said.time_factor,
        confidence=said.confidence,
    )
    hypothesis = Hypothesis(
        change=said.change, rationale=said.rationale, citations=said.citations, expected=(prediction,)
    )
    method = PlannedMethod(method=said.method, axis=said.axis, hypothesis=hypothesis, signature=said.signature)
    return Plan(methods=(method,), candidates=1, reason=f"the agent at the bench chose the {said.axis} axis itself")
