"""The profiler-analyst: ranks and explains the findings, and cites the records that hold their figures."""

from __future__ import annotations

from functools import partial

from agents.artifacts import Analysis, AnalystBrief
from agents.checks.cited_figures import figure_faults, resolved_figures
from agents.checks.cited_sources import reference_faults
from agents.roles.agent import Agent
from tools.errors import UnusableAnswerError


def analyze_findings(agent: Agent, brief: AnalystBrief) -> Analysis:
    """Return the analysis with only rule ids that fired; findings missing from its ranking follow in their own order.

    Figures and references that do not resolve are reported to the model once. If they recur, the figure is left out,
    and the report shows N/A in place of the reference.
    """
    try:
        answer = agent.ask(brief, Analysis, partial(analysis_faults, brief=brief))
    except UnusableAnswerError as error:
        answer = Analysis(ranking=(), text=f"These findings have no explanation: {error}.")
    fired = list(dict.fromkeys(finding.rule for finding in brief.findings))
    ranked = [rule for rule in dict.fromkeys(answer.ranking) if rule in fired]
    ranking = tuple(ranked + [rule for rule in fired if rule not in ranked])
    return answer.model_copy(update={"ranking": ranking, "figures": resolved_figures(answer.figures, brief)})


def analysis_faults(answer: Analysis, brief: AnalystBrief) -> tuple[str, ...]:
    """Return the faults to report to the model, one sentence each."""
    fired = {finding.rule for finding in brief.findings}
    unknown = [
        f"ranking: {rule!r} did not fire; rank only rules that fired"
        for rule in dict.fromkeys(answer.ranking)
        if rule not in fired
    ]
    if answer.section and answer.section not in brief.sections:
        unknown.append(
            f"section: {answer.section!r} is not available; choose from {', '.join(brief.sections) or 'none'}"
        )
    return (*figure_faults(answer.figures, brief), *reference_faults(answer.text, brief), *unknown)
