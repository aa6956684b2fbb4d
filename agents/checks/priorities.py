"""In which order methods are tried (A5): on each axis the page of higher priority first, unless something is said
against it."""

from __future__ import annotations

import re

from agents.artifacts import Plan, PlannerBrief
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX


def passed_over(method: str, plan: Plan, brief: PlannerBrief) -> tuple[str, ...]:
    """Retrieved methods of `method`'s axis with a higher priority for which `plan` has neither room nor a word, highest
    first; none for a method without a page in the catalogue.

    A method counts as dealt with when it is planned, when it was tried since the kernel last changed, and when the
    plan's reason names it.
    """
    pages = {
        page.head.id: page.head for page in brief.dossier.methods if not page.head.id.startswith(FREE_METHOD_PREFIX)
    }
    mine = pages.get(method)
    if mine is None:
        return ()
    last = max((tried.iteration for tried in brief.tried if tried.verdict == "accept"), default=-1)
    dealt_with = {item.method for item in plan.methods}
    dealt_with |= {one for tried in brief.tried if tried.iteration > last for one in (*tried.planned, *tried.methods)}
    dealt_with |= set(re.findall(r"[\w.-]*\w", plan.reason))
    better = [
        head
        for head in pages.values()
        if head.axis == mine.axis and head.priority > mine.priority and head.id not in dealt_with
    ]
    return tuple(head.id for head in sorted(better, key=lambda head: (-head.priority, head.id)))
