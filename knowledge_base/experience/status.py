"""What outcomes say of the methods tried (mission D8): resolved, pending, or to be avoided. The one place that says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from knowledge_base.artifacts import Attempt
from tools.artifacts import Artifact

Status = Literal["resolved", "pending", "avoid"]
STATUS: dict[str, Status] = {"accept": "resolved", "inconclusive": "pending"}
"""Verdict -> what it says of the methods; every other verdict says to avoid them on this source."""
ORDER: tuple[Status, ...] = ("resolved", "pending", "avoid")

RESULTS: dict[str, Literal["success", "failure", "neutral", "crash"]] = {
    "accept": "success",
    "reject_perf": "failure",
    "inconclusive": "neutral",
    "reject_correctness": "crash",
}
"""Verdict -> how experience calls such an outcome."""


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


def status(verdict: str) -> Status:
    """What a verdict says of the methods."""
    return STATUS.get(verdict, "avoid")


def compacted(attempts: Iterable[Attempt]) -> tuple[MethodStatus, ...]:
    """Attempts (newest first) by operator, language, architecture and set of methods; resolved first, then by what was tried last."""
    groups: dict[tuple[str, ...], list[Attempt]] = {}
    for one in attempts:
        groups.setdefault((one.operator, one.language, one.architecture, *sorted(set(one.methods))), []).append(one)
    told = (
        MethodStatus(
            operator=operator,
            language=language,
            architecture=architecture,
            methods=tuple(methods),
            status=status(found[0].verdict),
            verdicts=dict(sorted(Counter(one.verdict for one in found).items())),
            last=found[0],
        )
        for (operator, language, architecture, *methods), found in groups.items()
    )
    return tuple(sorted(told, key=lambda one: ORDER.index(one.status)))
