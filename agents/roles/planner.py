"""The planner: chooses methods from findings, headroom and knowledge about methods. A budget by axis guides it, but
does not block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial

from agents.artifacts import Plan, PlannedMethod, PlannerBrief, Prediction
from agents.checks.cited_figures import figure_faults, resolved_figures
from agents.checks.cited_sources import invented_wiki_lines, is_given_citation, replace_invented_wiki_lines
from agents.checks.priorities import skipped_higher_priority_methods
from agents.roles.agent import Agent
from knowledge_base.artifacts import FREE_METHOD_PATTERN, MAX_METHOD_NAME_CHARS, Page
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX
from tools.analysis import signatures
from tools.errors import UnusableAnswerError


def write_plan(agent: Agent, brief: PlannerBrief) -> Plan:
    """Return a plan of methods that can be written and scored; methods that break a rule are struck out, with the
    reason in `reason`.

    Every broken rule is first reported to the model once, in one sentence. So is exceeding the budget of an axis or
    skipping a page of higher priority without an explanation, but such a method stays in the plan. The plan has at most
    as many candidates as the run wants; citations and figures that do not resolve are left out. A plan that the model
    gave without methods has no candidates, which says that no method is left; an unreadable answer does not say so.
    """
    try:
        proposed = agent.ask(brief, Plan, partial(plan_faults, brief=brief))
    except UnusableAnswerError as error:
        return Plan(methods=(), candidates=1, reason=str(error))
    proposed = _with_page_axes(proposed, brief)
    struck = method_violations(proposed, brief)
    notes = [f"{proposed.methods[number].method} struck out: {fault}" for number, fault in struck.items()]
    # Check this before the reason is extended: only the model's own words explain a deviation.
    notes += [f"{step}, unexplained" for step, _ in _unexplained_deviations(proposed, struck, brief)]
    notes += _parent_faults(proposed, brief)
    notes += [f"left out: {fault}" for fault in figure_faults(proposed.figures, brief)]
    kept = tuple(
        _without_unresolved(item, brief) for number, item in enumerate(proposed.methods) if number not in struck
    )
    reason = "; ".join([replace_invented_wiki_lines(proposed.reason, brief), *notes]).lstrip("; ")
    candidates = min(max(proposed.candidates, 1), brief.candidates) if proposed.methods else 0
    figures = resolved_figures(proposed.figures, brief)
    update = {"methods": kept, "reason": reason, "candidates": candidates, "figures": figures}
    update |= {"parent": ""} if _parent_faults(proposed, brief) else {}
    return proposed.model_copy(update=update)


def plan_faults(proposed: Plan, brief: PlannerBrief) -> tuple[str, ...]:
    """Return the faults to report to the model: methods to strike out, unexplained deviations, figures and citations
    that do not resolve, and unusable patterns."""
    proposed = _with_page_axes(proposed, brief)
    struck = method_violations(proposed, brief)
    found = [f"methods.{number} ({proposed.methods[number].method}): {why}" for number, why in struck.items()]
    found += [f"{step}; {remedy}" for step, remedy in _unexplained_deviations(proposed, struck, brief)]
    found += _parent_faults(proposed, brief)
    for number, item in enumerate(proposed.methods):
        wrong = [
            f"{one!r} is not a record, finding or wiki line that you were given; cite one of those"
            for one in _unresolved_citations(item, brief)
        ]
        wrong += [
            f"signature {fault}"
            for pattern in item.signature.values()
            if _is_free_method(item) and (fault := signatures.pattern_fault(pattern))
        ]
        found += [f"methods.{number} ({item.method}): {why}" for why in wrong if number not in struck]
    found += [
        f"reason: {citation} is not a wiki line that you were given"
        for citation in invented_wiki_lines(proposed.reason, brief)
    ]
    return (*found, *figure_faults(proposed.figures, brief))


def method_violations(proposed: Plan, brief: PlannerBrief) -> dict[int, str]:
    """Return position -> reason why the plan may not contain that method. A method must be listed or its own idea,
    occur once, have citations and a prediction that can be scored."""
    kept: list[PlannedMethod] = []
    found: dict[int, str] = {}
    for number, item in enumerate(proposed.methods):
        fault = _listing_fault(item, kept, brief) or _hypothesis_fault(item, brief)
        if fault:
            found[number] = fault
        else:
            kept.append(item)
    return found


def _parent_faults(proposed: Plan, brief: PlannerBrief) -> list[str]:
    if proposed.parent in ("", *(one.candidate for one in brief.frontier)):
        return []
    return [f"parent: {proposed.parent!r} is no candidate that you were offered; name one of those, or leave it empty"]


def _unexplained_deviations(proposed: Plan, struck: Collection[int], brief: PlannerBrief) -> Iterator[tuple[str, str]]:
    """Yield each deviation from budget and priorities (A4, A5) that the plan does not explain, and the remedy."""
    kept = [item for number, item in enumerate(proposed.methods) if number not in struck]
    for axis, count in Counter(item.axis for item in kept).items():
        worth = brief.budget.get(axis, 0)
        if count > worth and not re.search(rf"\b{axis}\b", proposed.reason):
            where = f"{count} method{'s' * (count > 1)} on the {axis} axis, beyond its budget of {worth}"
            yield where, "change the plan, or give the reason in `reason`, with the axis by name"
    for item in kept:
        better = skipped_higher_priority_methods(item.method, proposed, brief)
        if better:
            where = f"{', '.join(better)} come before {item.method} on the {item.axis} axis"
            yield where, "plan them, or give each its own reason in `passed_over`"


def _is_free_method(item: PlannedMethod) -> bool:
    return item.method.startswith(FREE_METHOD_PREFIX)


def _page_of_method(item: PlannedMethod, brief: PlannerBrief) -> Page | None:
    """Return the page of a planned method among all that this run listed, or None."""
    return next(
        (page for page in (*brief.dossier.methods, *brief.dossier.earlier) if page.head.id == item.method), None
    )


def _with_page_axes(proposed: Plan, brief: PlannerBrief) -> Plan:
    """Return the plan with each method on its page's axis, if it has one."""
    axes = [
        (page.head.axis if (page := _page_of_method(item, brief)) else None) or item.axis for item in proposed.methods
    ]
    methods = (item.model_copy(update={"axis": axis}) for item, axis in zip(proposed.methods, axes, strict=True))
    return proposed.model_copy(update={"methods": tuple(methods)})


def _listing_fault(item: PlannedMethod, kept: list[PlannedMethod], brief: PlannerBrief) -> str:
    if _is_free_method(item) and not (
        re.fullmatch(FREE_METHOD_PATTERN, item.method) and len(item.method) <= MAX_METHOD_NAME_CHARS
    ):
        return (
            f"after `own:` write a name of small letters, digits and single dashes, at most {MAX_METHOD_NAME_CHARS} "
            f"characters in all"
        )
    page = _page_of_method(item, brief)
    if not _is_free_method(item) and (page is None or page.head.type != "method"):
        return "no listed method page has this id; write an idea of your own as `own:<slug>`"
    if any(other.method == item.method for other in kept):
        return "the method is planned twice"
    if len(kept) >= brief.methods_per_iteration:
        return f"more than {brief.methods_per_iteration} methods in one iteration"
    if sum(other.axis == item.axis for other in kept) >= brief.methods_per_axis:
        return f"more than {brief.methods_per_axis} methods on the {item.axis} axis in one iteration"
    return ""


def _hypothesis_fault(item: PlannedMethod, brief: PlannerBrief) -> str:
    hypothesis = item.hypothesis
    if not hypothesis.citations and not _is_free_method(item):
        return "its hypothesis has no citation"
    if not _is_free_method(item) and len(_unresolved_citations(item, brief)) == len(hypothesis.citations):
        return "none of its citations was given to you: " + ", ".join(hypothesis.citations[:3])
    invented = (*invented_wiki_lines(hypothesis.rationale, brief), *invented_wiki_lines(hypothesis.change, brief))
    if invented:
        return f"its hypothesis cites {invented[0]}, which you were not given"
    if not hypothesis.expected:
        return "its hypothesis has no prediction"
    if all(expected.metric != "time" for expected in hypothesis.expected):
        return "its hypothesis does not predict `time`, by which the gate scores it"
    impossible = next((expected for expected in hypothesis.expected if not _is_possible(expected)), None)
    if impossible is not None:
        return (
            f"its prediction of {impossible.metric} is impossible: factor is new / old, below 1 for down, and "
            f"confidence lies in 0..1"
        )
    return ""


def _is_possible(expected: Prediction) -> bool:
    if expected.factor <= 0 or not 0 <= expected.confidence <= 1:
        return False
    return expected.factor <= 1 if expected.direction == "down" else expected.factor >= 1


def _unresolved_citations(item: PlannedMethod, brief: PlannerBrief) -> list[str]:
    return [citation for citation in item.hypothesis.citations if not is_given_citation(citation, brief)]


def _without_unresolved(item: PlannedMethod, brief: PlannerBrief) -> PlannedMethod:
    """Return the method without citations that were not given, and with valid patterns. A catalogued method keeps at
    least one citation, or it would have been struck out. An idea of its own without a valid pattern gets its page's."""
    unresolved = _unresolved_citations(item, brief)
    citations = tuple(citation for citation in item.hypothesis.citations if citation not in unresolved)
    update: dict[str, object] = {"hypothesis": item.hypothesis.model_copy(update={"citations": citations})}
    if _is_free_method(item):
        page = _page_of_method(item, brief)
        sound = {target: pattern for target, pattern in item.signature.items() if not signatures.pattern_fault(pattern)}
        update["signature"] = sound or (page.head.signature if page else {})
    return item.model_copy(update=update)
