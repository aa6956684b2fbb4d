"""Profiler-analyst: ranks and explains findings, naming records instead of restating figures."""

from __future__ import annotations

from functools import partial

from agents.artifacts import Analysis, AnalystBrief
from agents.checks import references, sourced
from agents.roles.agent import Agent
from tools.errors import UnusableAnswerError


def analyse(agent: Agent, brief: AnalystBrief) -> Analysis:
    """The analysis, with rule ids that really fired; findings that it left out keep their order at the end.

    A figure of the hardware without a source, one of the kernel that is restated instead of referred to, and a
    reference to nothing are returned to the model with their line; of a text that insists the first leaves nothing, the
    others their sentence out.
    """
    try:
        answer = agent.ask(brief, Analysis, partial(faults, brief=brief))
    except UnusableAnswerError as error:
        answer = Analysis(ranking=(), text=f"Nobody explained these findings: {error}.")
    fired = list(dict.fromkeys(finding.rule for finding in brief.findings))
    ranked = [rule for rule in dict.fromkeys(answer.ranking) if rule in fired]
    text = sourced.LEFT_OUT if sourced.faults(answer, sourced.known(brief)) else answer.text
    text = references.mended(text, brief)
    return answer.model_copy(
        update={"ranking": tuple(ranked + [rule for rule in fired if rule not in ranked]), "text": text}
    )


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
    return (*sourced.faults(answer, sourced.known(brief)), *references.faults(answer.text, brief), *unknown)
