"""The gatekeeper: reads the diff and may veto it with a quoted line. It cannot accept; only the gate can, from
records."""

from __future__ import annotations

import re
from functools import partial

from agents.artifacts import GatekeeperBrief, Review
from agents.roles.agent import Agent
from agents.text.fencing import escape_invisible
from tools.errors import ProviderError, UnusableAnswerError

DIFF_HEADER_LINES = 2
"""Number of lines at the top of a diff that name its files."""


def review_diff(agent: Agent, brief: GatekeeperBrief) -> Review:
    """Return the review. An unusable review becomes a veto without a quote, which the gate turns into `inconclusive`:
    when it quotes no line of the diff even after a second request, or when no answer came.
    """
    try:
        answer = agent.ask(brief, Review, partial(review_faults, brief=brief))
    except (ProviderError, UnusableAnswerError) as error:
        return Review(veto=True, reason=f"there is no review: {error}")
    if review_faults(answer, brief):
        return Review(veto=True, reason=f"the veto quotes no line of the diff: {answer.reason}")
    return answer


def review_faults(answer: Review, brief: GatekeeperBrief) -> tuple[str, ...]:
    """Return one sentence if a veto quotes no line of the diff; else empty."""
    if not answer.veto or _quotes_diff(answer.quote, brief.diff):
        return ()
    return (
        (
            "quote: a veto must quote one whole line of the diff, word for word and without its first column; "
            "otherwise veto must be false"
        ),
    )


def _quotes_diff(quote: str, diff: str) -> bool:
    """Return whether `quote` consists of lines that the diff adds, removes or shows, not counting its headers.

    Both texts are compared as the reviewer saw them. A quote of brackets alone does not count.
    """
    shown = [line for line in escape_invisible(diff).split("\n")[DIFF_HEADER_LINES:] if line[:1] in ("+", "-", " ")]
    lines = {line[1:].strip() for line in shown} - {""}
    said = [line.strip() for line in escape_invisible(quote).split("\n") if line.strip()]
    whole = all(line in lines or (line[0] in "+-" and line[1:].strip() in lines) for line in said)
    return whole and any(re.search(r"\w", line) for line in said)
