"""Planner: from findings, headroom and cited methods to a plan within the axis budget."""

from __future__ import annotations

from collections import Counter
from functools import partial

from agents.artifacts import Hypothesis, Movement, Plan, PlannedMethod, PlannerBrief
from agents.checks import sourced
from agents.checks.priorities import passed_over
from agents.roles.agent import Agent
from tools.errors import UnusableAnswerError

UNSOURCED = "its hypothesis states a figure of the hardware without a source"


def plan(agent: Agent, brief: PlannerBrief) -> Plan:
    """A plan that respects the budget; methods that break a rule are struck out and the reason is said in `reason`.

    Whatever breaks a rule is returned to the model first, once, with one sentence each. No more candidates are asked for than the run
    wants, and of what is cited only what was given is kept. None are asked for by a plan that was empty from the start, which is to say
    that nothing is left; an answer that cannot be read does not say so.
    """
    try:
        proposed = agent.ask(brief, Plan, partial(faults, brief=brief))
    except UnusableAnswerError as error:
        return Plan(methods=(), candidates=1, reason=str(error))
    struck = violations(proposed, brief)
    # Only now: what the reason says of methods that were passed over counts, whatever else stands in it.
    if sourced.uncited(proposed.reason, sourced.known(brief)) or sourced.invented(proposed.reason, brief):
        proposed = proposed.model_copy(update={"reason": sourced.LEFT_OUT})
    kept = tuple(_resolved(item, brief) for number, item in enumerate(proposed.methods) if number not in struck)
    said = (f"{proposed.methods[number].method} struck out: {fault}" for number, fault in struck.items())
    reason = "; ".join([proposed.reason, *said]).lstrip("; ")
    candidates = min(max(proposed.candidates, 1), brief.candidates) if proposed.methods else 0
    return proposed.model_copy(update={"methods": kept, "reason": reason, "candidates": candidates})


def faults(proposed: Plan, brief: PlannerBrief) -> tuple[str, ...]:
    """What is returned to the model: what would be struck out, figures without a source, citations that do not resolve."""
    struck = violations(proposed, brief)
    # A figure without a source is told with its sentence, below.
    found = [f"methods.{number} ({proposed.methods[number].method}): {why}" for number, why in struck.items() if why != UNSOURCED]
    found += [
        f"methods.{number} ({item.method}): {citation!r} is no record and no line of the wiki that you were given; cite one that is"
        for number, item in enumerate(proposed.methods)
        for citation in item.hypothesis.citations
        if number not in struck and sourced.unresolved(citation, brief)
    ]
    found += [f"reason: {citation} is no line of the wiki that you were given" for citation in sourced.invented(proposed.reason, brief)]
    return (*found, *sourced.faults(proposed, sourced.known(brief)))


def violations(proposed: Plan, brief: PlannerBrief) -> dict[int, str]:
    """Position -> why the plan may not contain that method (A5): known, once, in budget and order, cited, with a prediction to score."""
    spent: Counter[str] = Counter()
    kept: list[PlannedMethod] = []
    found: dict[int, str] = {}
    for number, item in enumerate(proposed.methods):
        fault = _misplaced(item, kept, spent, brief) or _unfounded(item.hypothesis, brief)
        if fault:
            found[number] = fault
        else:
            kept.append(item)
            spent[item.axis] += 1
    for number, item in enumerate(proposed.methods):
        better = passed_over(item.method, proposed, brief) if number not in found else ()
        if better:
            found[number] = (
                f"{', '.join(better)} come before it on the {item.axis} axis; plan what comes first, or name it in `reason` and say why not"
            )
    return found


def _misplaced(item: PlannedMethod, kept: list[PlannedMethod], spent: Counter[str], brief: PlannerBrief) -> str:
    page = next((page for page in brief.dossier.methods if page.head.id == item.method), None)
    if page is None:
        return "no retrieved method page has this id"
    if any(other.method == item.method for other in kept):
        return "it is planned twice"
    if len(kept) >= brief.methods_per_iteration:
        return f"more than {brief.methods_per_iteration} methods in one iteration"
    if page.head.axis != item.axis:
        return f"its page puts it on the {page.head.axis} axis, not on {item.axis}"
    if spent[item.axis] >= brief.budget.get(item.axis, 0):
        return f"the {item.axis} axis has a budget of {brief.budget.get(item.axis, 0)}"
    return ""


def _unfounded(hypothesis: Hypothesis, brief: PlannerBrief) -> str:
    if not hypothesis.citations:
        return "its hypothesis cites nothing"
    if all(sourced.unresolved(citation, brief) for citation in hypothesis.citations):
        return "its hypothesis cites nothing that was given: " + ", ".join(hypothesis.citations[:3])
    invented = (*sourced.invented(hypothesis.rationale, brief), *sourced.invented(hypothesis.change, brief))
    if invented:
        return f"its hypothesis names {invented[0]}, which was not given"
    if not hypothesis.expected:
        return "its hypothesis predicts nothing"
    if all(expected.metric != "time" for expected in hypothesis.expected):
        return "its hypothesis does not predict the time, by which the gate scores it"
    impossible = next((expected for expected in hypothesis.expected if not _possible(expected)), None)
    if impossible is not None:
        return f"its prediction of {impossible.metric} cannot be: factor is new / old, below 1 for down, and confidence lies in 0..1"
    if sourced.unsourced(hypothesis, sourced.known(brief)):
        return UNSOURCED
    return ""


def _possible(expected: Movement) -> bool:
    if expected.factor <= 0 or not 0 <= expected.confidence <= 1:
        return False
    return expected.factor <= 1 if expected.direction == "down" else expected.factor >= 1


def _resolved(item: PlannedMethod, brief: PlannerBrief) -> PlannedMethod:
    """Without citations of what was not given; one at least is left, or the method would have been struck out."""
    citations = tuple(citation for citation in item.hypothesis.citations if not sourced.unresolved(citation, brief))
    return item.model_copy(update={"hypothesis": item.hypothesis.model_copy(update={"citations": citations})})
