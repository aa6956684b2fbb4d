"""What earlier runs found out about the source at hand: which methods were accepted, with which knobs, and which were
rejected.

Two kernels are the same when their text is the same. An outcome on another source of the same operator, shapes and type
decides nothing; it moves methods up or down.
"""

from __future__ import annotations

from collections import Counter

from agents.artifacts import CoderBrief, PlannerBrief
from knowledge_base.artifacts import Attempt, source_digest
from knowledge_base.experience.status import method_status

MethodSet = frozenset[str]
REFUSING_VERDICTS = ("reject_correctness", "reject_policy")


def accepted_here(brief: PlannerBrief | CoderBrief) -> list[Attempt]:
    """Attempts that were accepted on this very source, newest first, without those whose kernel was rejected later."""
    newest: dict[str, Attempt] = {}
    for attempt in _attempts_here(brief):
        newest.setdefault(attempt.after, attempt)
    return [
        attempt
        for attempt in _attempts_here(brief)
        if _status(attempt) == "resolved" and _status(newest[attempt.after]) != "avoid"
    ]


def rejected_here(brief: PlannerBrief) -> set[MethodSet]:
    """Sets of methods whose latest outcome on this very source is a rejection, and that were not accepted on it."""
    newest: dict[MethodSet, Attempt] = {}
    for attempt in _attempts_here(brief):
        newest.setdefault(frozenset(attempt.methods), attempt)
    accepted = {frozenset(attempt.methods) for attempt in accepted_here(brief)}
    return {methods for methods, attempt in newest.items() if _is_rejected(attempt)} - accepted


def method_votes(brief: PlannerBrief) -> Counter[str]:
    """For each method how often it was accepted, on any source, less how often it was rejected."""
    votes: Counter[str] = Counter()
    for attempt in _comparable(brief):
        votes.update(dict.fromkeys(attempt.methods, {"resolved": 1, "avoid": -1}.get(_status(attempt), 0)))
    return votes


def accepted_knobs(brief: CoderBrief, methods: MethodSet) -> dict[str, str]:
    """The knobs with which exactly these methods were last accepted on this very source; empty where they were not."""
    return next((attempt.knobs for attempt in accepted_here(brief) if set(attempt.methods) == methods), {})


def rejected_kernels(brief: CoderBrief) -> frozenset[str]:
    """Hashes of kernels that an earlier run found wrong, or made from this very source and rejected."""
    wrong = [one for one in _comparable(brief) if one.verdict in REFUSING_VERDICTS]
    rejected = [one for one in _attempts_here(brief) if _is_rejected(one)]
    return frozenset(one.after for one in (*wrong, *rejected) if one.after)


def _status(attempt: Attempt) -> str:
    return method_status(attempt.verdict, attempt.effect)


def _is_rejected(attempt: Attempt) -> bool:
    """Whether a kernel was refused, or surely gained nothing; noise may have hidden the gain of another one."""
    return attempt.verdict in REFUSING_VERDICTS or _status(attempt) == "avoid"


def _comparable(brief: PlannerBrief | CoderBrief) -> list[Attempt]:
    """Attempts of runs (same operator, language and architecture) with the type and shapes at hand, newest first."""
    dtype = brief.task.outputs[0].dtype
    return [
        attempt
        for attempt in brief.memory
        if attempt.origin == "run" and (attempt.dtype, attempt.shape_class) == (dtype, brief.shape_class)
    ]


def _attempts_here(brief: PlannerBrief | CoderBrief) -> list[Attempt]:
    here = source_digest(brief.source)
    return [attempt for attempt in _comparable(brief) if attempt.before == here]
