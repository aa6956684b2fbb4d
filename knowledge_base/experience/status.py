"""What outcomes say of the methods tried (mission D8): resolved, pending, or to be avoided. The one place that says
so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from knowledge_base.artifacts import Attempt, Result
from tools.artifacts import Artifact, Interval, Outcome
from tools.gate.judge_settings import MIN_EFFECT

Status = Literal["resolved", "pending", "avoid"]
ORDER: tuple[Status, ...] = ("resolved", "pending", "avoid")

RESULTS: dict[str, Result] = {
    "accept": "success",
    "reject_perf": "failure",
    "inconclusive": "unknown",
    "reject_correctness": "crash",
    "reject_policy": "crash",
}
"""Verdict -> how experience calls such an outcome."""


def result(verdict: Outcome, effect: Interval | None) -> Result:
    """How experience calls an outcome: a failure is one that surely gained nothing."""
    return "unknown" if verdict == "reject_perf" and status(verdict, effect) != "avoid" else RESULTS[verdict]


class MethodStatus(Artifact):
    """One set of methods in one kind of conditions."""

    operator: str
    language: str
    architecture: str
    methods: tuple[str, ...]
    status: Status
    """By the newest outcome."""
    verdicts: dict[str, int]
    last: Attempt


def status(verdict: str, effect: Interval | None) -> Status:
    """What a verdict with its measured effect says of the methods on this source.

    Only a gain that is surely not there speaks against them: what noise hides is not known, and a draft that is wrong
    or refused says nothing of what right code would have gained.
    """
    if verdict == "accept":
        return "resolved"
    if verdict == "reject_perf" and (effect is None or effect.high <= 1.0 + MIN_EFFECT):
        return "avoid"
    return "pending"


def compacted(attempts: Iterable[Attempt]) -> tuple[MethodStatus, ...]:
    """Attempts (newest first) by operator, language, architecture and set of methods; resolved first, then by what
    was tried last."""
    groups: dict[tuple[str, ...], list[Attempt]] = {}
    for one in attempts:
        groups.setdefault((one.operator, one.language, one.architecture, *sorted(set(one.methods))), []).append(one)
    told = (
        MethodStatus(
            operator=operator,
            language=language,
            architecture=architecture,
            methods=tuple(methods),
            status=status(found[0].verdict, found[0].effect),
            verdicts=dict(sorted(Counter(one.verdict for one in found).items())),
            last=found[0],
        )
        for (operator, language, architecture, *methods), found in groups.items()
    )
    return tuple(sorted(told, key=lambda one: ORDER.index(one.status)))
