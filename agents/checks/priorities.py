"""The order in which methods are tried (A5): on each axis the page of higher priority first, unless the plan gives a
reason against it."""

from __future__ import annotations

import itertools

from agents.artifacts import Plan, PlannerBrief
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX


def skipped_higher_priority_methods(method: str, plan: Plan, brief: PlannerBrief) -> tuple[str, ...]:
    """Return ids of retrieved methods on `method`'s axis with a higher priority that `plan` neither contains nor
    explains, the highest first; empty for a method without a page in the catalogue.

    A method is left out of the result when it is planned, when it was tried since the last accepted version, when
    the plan gives its own reason to pass it over, and when it is listed after `method`: the list begins with what the
    page on this operator names, and nobody owes a reason against a method of other operators.
    """
    pages = {
        page.head.id: page.head for page in brief.dossier.methods if not page.head.id.startswith(FREE_METHOD_PREFIX)
    }
    head_of_method = pages.get(method)
    if head_of_method is None:
        return ()
    last = max((tried.iteration for tried in brief.tried if tried.verdict == "accept"), default=-1)
    dealt_with = {item.method for item in plan.methods}
    dealt_with |= {one for tried in brief.tried if tried.iteration > last for one in (*tried.planned, *tried.methods)}
    dealt_with |= {one.method for one in plan.passed_over if one.reason.strip()}
    listed_before = itertools.takewhile(lambda name: name != method, pages)
    higher = [
        head
        for head in map(pages.__getitem__, listed_before)
        if head.axis == head_of_method.axis and head.priority > head_of_method.priority and head.id not in dealt_with
    ]
    return tuple(head.id for head in sorted(higher, key=lambda head: (-head.priority, head.id)))
