"""Gatekeeper: reads the diff and may veto with a quoted line; it can never accept (the gate's records do)."""

from __future__ import annotations

from agents.artifacts import GatekeeperBrief, Review
from agents.base import Agent


def review(agent: Agent, brief: GatekeeperBrief) -> Review:
    """The review. A veto that quotes no line of the diff loses its quote, which the gate answers with `inconclusive` (fails closed)."""
    answer = agent.ask(brief, Review)
    if answer.veto and answer.quote.strip() not in brief.diff:
        return answer.model_copy(update={"quote": "", "reason": f"a veto that quotes no line of the diff: {answer.reason}"})
    return answer
