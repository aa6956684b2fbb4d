"""Gatekeeper: reads the diff and may veto with a quoted line; it can never accept (the gate's records do)."""

from __future__ import annotations

import re
from functools import partial

from agents.artifacts import GatekeeperBrief, Review
from agents.roles.agent import Agent
from agents.text.fencing import plain
from tools.errors import ProviderError, UnusableAnswerError

HEADERS = 2
"""Lines of a diff that name its files."""


def review(agent: Agent, brief: GatekeeperBrief) -> Review:
    """The review. It fails closed: a veto without a quote, which the gate answers with `inconclusive`, stands for each
    one that cannot be used, whether it quotes no line of the diff even when asked again or no answer was to be had.
    """
    try:
        answer = agent.ask(brief, Review, partial(faults, brief=brief))
    except (ProviderError, UnusableAnswerError) as error:
        return Review(veto=True, reason=f"no review was had: {error}")
    if faults(answer, brief):
        return Review(veto=True, reason=f"it vetoes without quoting a line of the diff: {answer.reason}")
    return answer


def faults(answer: Review, brief: GatekeeperBrief) -> tuple[str, ...]:
    """Whether a veto has no line of the diff to stand on."""
    if not answer.veto or _quoted(answer.quote, brief.diff):
        return ()
    return (
        (
            "quote: a veto must quote one whole line of the diff, word for word and without its first column; else "
            "veto must be false"
        ),
    )


def _quoted(quote: str, diff: str) -> bool:
    """Whether `quote` is one line, or several, of what the diff adds, takes out or shows; headers are not of the
    kernel.

    Both as the reviewer saw them. Brackets alone show nothing.
    """
    shown = [line for line in plain(diff).split("\n")[HEADERS:] if line[:1] in ("+", "-", " ")]
    lines = {line[1:].strip() for line in shown} - {""}
    said = [line.strip() for line in plain(quote).split("\n") if line.strip()]
    whole = all(line in lines or (line[0] in "+-" and line[1:].strip() in lines) for line in said)
    return whole and any(re.search(r"\w", line) for line in said)
