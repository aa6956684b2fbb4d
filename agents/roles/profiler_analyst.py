"""Profiler-analyst: ranks and explains the findings, and names the records that hold their figures."""

from __future__ import annotations

from functools import partial

from agents.artifacts import Analysis, AnalystBrief
from agents.checks.cited_figures import figure_faults, resolved_figures
from agents.checks.cited_sources import reference_faults
from agents.roles.agent import Agent
from tools.errors import UnusableAnswerError


def analyse(agent: Agent, brief: AnalystBrief) -> Analysis:
    """The analysis, with rule ids that really fired; findings that it left out keep their order at the end.

    A figure that does not resolve and a reference that leads nowhere are returned to the model once. If they come
    again, the figure is left out, and the report says N/A in place of the reference.
    """
    try:
        answer = agent.ask(brief, Analysis, partial(faults, brief=brief))
    except UnusableAnswerError as error:
        answer = Analysis(ranking=(), text=f"Nobody explained these findings: {error}.")
    fired = list(dict.fromkeys(finding.rule for finding in brief.findings))
    ranked = [rule for rule in dict.fromkeys(answer.ranking) if rule in fired]
    ranking = tuple(ranked + [rule for rule in fired if rule not in ranked])
    return answer.model_copy(update={"ranking": ranking, "figures": resolved_figures(answer.figures, brief)})


def faults(answer: Analysis, brief: AnalystBrief) -> tuple[str, ...]:
    """What is returned to the model, one sentence each."""
    fired = {finding.rule for finding in brief.findings}
    unknown = [
        f"ranking: {rule!r} did not fire; rank only what did"
        for rule in dict.fromkeys(answer.ranking)
        if rule not in fired
    ]
    if answer.section and answer.section not in brief.sections:
        unknown.append(
            f"section: {answer.section!r} cannot be asked for, only {', '.join(brief.sections) or 'nothing more'}"
        )
    return (*figure_faults(answer.figures, brief), *reference_faults(answer.text, brief), *unknown)
