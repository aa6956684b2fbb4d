"""Planner: from findings, headroom and cited methods to a plan within the axis budget."""

from __future__ import annotations

from collections import Counter
from functools import partial

from agents import sourced
from agents.artifacts import Plan, PlannerBrief
from agents.base import Agent
from tools.uncited import uncited


def plan(agent: Agent, brief: PlannerBrief) -> Plan:
    """A plan that respects the budget; methods that break a rule are struck out and the reason is said in `reason`.

    A figure of the hardware without a source is returned to the model with its line; what states one again is struck out too.
    """
    sources = sourced.known(brief)
    proposed = agent.ask(brief, Plan, partial(sourced.faults, sources=sources))
    if uncited(proposed.reason, sources):
        proposed = proposed.model_copy(update={"reason": sourced.LEFT_OUT})
    faults = violations(proposed, brief)
    if not faults:
        return proposed
    kept = tuple(m for m in proposed.methods if m.method not in faults)
    reason = "; ".join([proposed.reason, *(f"{method} struck out: {fault}" for method, fault in faults.items())]).lstrip("; ")
    return proposed.model_copy(update={"methods": kept, "reason": reason})


def violations(proposed: Plan, brief: PlannerBrief) -> dict[str, str]:
    """Method -> why the plan may not contain it (A5): known, in budget, priority kept, cited, one hypothesis with a prediction."""
    pages = {page.head.id: page for page in brief.dossier.methods}
    sources = sourced.known(brief)
    spent: Counter[str] = Counter()
    faults: dict[str, str] = {}
    for position, item in enumerate(proposed.methods):
        page = pages.get(item.method)
        if page is None:
            faults[item.method] = "no retrieved method page has this id"
        elif position >= brief.methods_per_iteration:
            faults[item.method] = f"more than {brief.methods_per_iteration} methods in one iteration"
        elif page.head.axis != item.axis:
            faults[item.method] = f"its page puts it on the {page.head.axis} axis, not on {item.axis}"
        elif spent[item.axis] >= brief.budget.get(item.axis, 0):
            faults[item.method] = f"the {item.axis} axis has a budget of {brief.budget.get(item.axis, 0)}"
        elif not item.hypothesis.citations:
            faults[item.method] = "its hypothesis cites nothing"
        elif not item.hypothesis.expected:
            faults[item.method] = "its hypothesis predicts nothing"
        elif sourced.unsourced(item.hypothesis, sources):
            faults[item.method] = "its hypothesis states a figure of the hardware without a source"
        else:
            spent[item.axis] += 1
    return faults
