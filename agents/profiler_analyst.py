"""Profiler-analyst: ranks and explains findings, naming records instead of restating figures."""

from __future__ import annotations

from agents.artifacts import Analysis, AnalystBrief
from agents.base import Agent


def analyse(agent: Agent, brief: AnalystBrief) -> Analysis:
    """The analysis, with rule ids that really fired; findings that it left out keep their order at the end."""
    answer = agent.ask(brief, Analysis)
    fired = list(dict.fromkeys(finding.rule for finding in brief.findings))
    ranked = [rule for rule in dict.fromkeys(answer.ranking) if rule in fired]
    return answer.model_copy(update={"ranking": tuple(ranked + [rule for rule in fired if rule not in ranked])})
