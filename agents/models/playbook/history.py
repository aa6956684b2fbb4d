"""What earlier runs say about the source at hand: what won from here, with which knobs, and what need not be tried
again.

Two kernels are the same when their text is: a run that starts where another one started can go straight where that one
arrived. About other sources of the same operator, shapes and type an outcome is a prior: it puts methods first or last,
and forbids nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agents.artifacts import CoderBrief, PlannerBrief
from knowledge_base.artifacts import Attempt, source_digest
from knowledge_base.experience.status import Status, method_status

Methods = frozenset[str]


def won(brief: PlannerBrief) -> list[Attempt]:
    """What was accepted on this very source in these conditions, first what gained most."""
    here = [one for one in _accepted(brief) if one.before == source_digest(brief.source)]
    return sorted(here, key=lambda one: one.effect.low if one.effect else 1.0, reverse=True)


def rejected(brief: PlannerBrief) -> dict[Methods, Attempt]:
    """Sets of methods that were rejected on this very source in these conditions, and never accepted."""
    return _last(brief, "avoid", here=True)


def pending(brief: PlannerBrief) -> dict[Methods, Attempt]:
    """Sets that noise hid on this very source, and those rejected on another one in these conditions: for when
    nothing else is left."""
    return {**_last(brief, "avoid", here=False), **_last(brief, "pending", here=True)}


def known(brief: PlannerBrief, methods: Methods) -> int:
    """How many kernels were judged that carry these methods further from this very source."""
    return len(
        {
            one.after
            for one in _alike(brief)
            if one.before == source_digest(brief.source) and methods <= set(one.methods)
        }
    )


def favour(brief: PlannerBrief) -> Counter[str]:
    """Method -> 1 where it was accepted in these conditions, whatever the source, more often than it was rejected."""
    votes: Counter[str] = Counter()
    for one in _alike(brief):
        votes.update(dict.fromkeys(one.methods, {"resolved": 1, "avoid": -1}.get(_said(one), 0)))
    return Counter({method: 1 for method, vote in votes.items() if vote > 0})


def knobs(brief: CoderBrief, methods: Methods) -> dict[str, str]:
    """The knobs with which exactly these methods were accepted on this very source; the latest."""
    found = (one for one in _accepted(brief) if one.before == source_digest(brief.source))
    return next((one.knobs for one in found if set(one.methods) == methods), {})


def vain(brief: CoderBrief) -> frozenset[str]:
    """Marks of kernels that an earlier run judged here in these conditions and rejected: on this source, or as wrong
    on any."""
    here = source_digest(brief.source)
    wrong = ("reject_correctness", "reject_policy")
    return frozenset(
        one.after
        for one in _alike(brief)
        if one.after and (one.verdict in wrong or (one.before == here and _said(one) == "avoid"))
    )


def _said(one: Attempt) -> Status:
    return method_status(one.verdict, one.effect)


def _alike(brief: PlannerBrief | CoderBrief) -> Sequence[Attempt]:
    """Of the memory (same operator, language and architecture), newest first: the same type and shapes, measured by
    a run."""
    dtype = brief.task.outputs[0].dtype
    return [
        one
        for one in brief.memory
        if one.origin == "run" and (one.dtype, one.shape_class) == (dtype, brief.shape_class)
    ]


def _accepted(brief: PlannerBrief | CoderBrief) -> list[Attempt]:
    """What was accepted, unless the very same kernel was rejected from the same source later."""
    newest: dict[tuple[str, str], Attempt] = {}
    for one in _alike(brief):
        newest.setdefault((one.before, one.after), one)
    return [
        one
        for one in _alike(brief)
        if one.before and _said(one) == "resolved" and _said(newest[one.before, one.after]) != "avoid"
    ]


def _last(brief: PlannerBrief, wanted: str, *, here: bool) -> dict[Methods, Attempt]:
    """Sets of methods of which the latest outcome is `wanted` and no accept stands, on this source or on others."""
    marked = source_digest(brief.source)
    standing = {frozenset(one.methods) for one in _accepted(brief) if (one.before == marked) == here}
    newest: dict[Methods, Attempt] = {}
    for one in _alike(brief):
        if (one.before == marked) == here:
            newest.setdefault(frozenset(one.methods), one)
    return {methods: one for methods, one in newest.items() if _said(one) == wanted and methods not in standing}
