"""The status of methods by their outcomes: resolved, pending, or to be avoided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from knowledge_base.artifacts import Attempt, AttemptResult
from tools.artifacts import Artifact, Interval, Outcome
from tools.gate.judge_settings import MIN_EFFECT

Status = Literal["resolved", "pending", "avoid"]
STATUS_ORDER: tuple[Status, ...] = ("resolved", "pending", "avoid")

RESULT_BY_VERDICT: dict[str, AttemptResult] = {
    "accept": "success",
    "reject_perf": "failure",
    "inconclusive": "unknown",
    "reject_correctness": "crash",
    "reject_policy": "crash",
}
"""Verdict -> result in the experience log."""


def attempt_result(verdict: Outcome, effect: Interval | None) -> AttemptResult:
    """The result of a verdict in the experience log; a failure is an outcome that surely gained nothing, and neutral is
    one that surely lost nothing either."""
    if verdict in ("reject_perf", "inconclusive") and effect and abs(effect.low - 1) <= MIN_EFFECT >= effect.high - 1:
        return "neutral"
    return (
        "unknown"
        if verdict == "reject_perf" and method_status(verdict, effect) != "avoid"
        else RESULT_BY_VERDICT[verdict]
    )


class MethodStatus(Artifact):
    """One set of methods in one kind of conditions."""

    operator: str
    language: str
    architecture: str
    methods: tuple[str, ...]
    status: Status
    """Status by the newest outcome."""
    verdicts: dict[str, int]
    last: Attempt


def method_status(verdict: str, effect: Interval | None) -> Status:
    """The status that a verdict with its measured effect gives the methods on this source.

    Only the sure absence of a gain speaks against them: what noise hides is unknown, and a draft that is wrong or
    refused does not show what correct code would gain.
    """
    if verdict == "accept":
        return "resolved"
    if verdict == "reject_perf" and (effect is None or effect.high <= 1.0 + MIN_EFFECT):
        return "avoid"
    return "pending"


def compact(attempts: Iterable[Attempt]) -> tuple[MethodStatus, ...]:
    """Attempts (newest first) grouped by operator, language, architecture and set of methods: resolved groups first,
    and within a status the one that was tried last."""
    groups: dict[tuple[str, ...], list[Attempt]] = {}
    for one in attempts:
        groups.setdefault((one.operator, one.language, one.architecture, *sorted(set(one.methods))), []).append(one)
    groups_with_status = (
        MethodStatus(
            operator=operator,
            language=language,
            architecture=architecture,
            methods=tuple(methods),
            status=method_status(found[0].verdict, found[0].effect),
            verdicts=dict(sorted(Counter(one.verdict for one in found).items())),
            last=found[0],
        )
        for (operator, language, architecture, *methods), found in groups.items()
    )
    return tuple(sorted(groups_with_status, key=lambda one: STATUS_ORDER.index(one.status)))
