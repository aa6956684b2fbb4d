"""Profiler-analyst: ranks and explains findings, naming records instead of restating figures."""

from __future__ import annotations

from functools import partial

from agents import sourced
from agents.artifacts import Analysis, AnalystBrief
from agents.base import Agent


def analyse(agent: Agent, brief: AnalystBrief) -> Analysis:
    """The analysis, with rule ids that really fired; findings that it left out keep their order at the end.

    A figure of the hardware without a source is returned to the model with its line; a text that states one again is left out.
    """
    sources = sourced.known(brief)
    answer = agent.ask(brief, Analysis, partial(sourced.faults, sources=sources))
    fired = list(dict.fromkeys(finding.rule for finding in brief.findings))
    ranked = [rule for rule in dict.fromkeys(answer.ranking) if rule in fired]
    text = sourced.LEFT_OUT if sourced.faults(answer, sources) else answer.text
    return answer.model_copy(update={"ranking": tuple(ranked + [rule for rule in fired if rule not in ranked]), "text": text})
