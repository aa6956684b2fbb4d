"""Planner: from findings, headroom and what is known of methods to a plan, by a budget of axes that guides and never
blocks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial

from agents.artifacts import Movement, Plan, PlannedMethod, PlannerBrief
from agents.checks.cited_figures import figure_faults, resolved_figures
from agents.checks.cited_sources import invented_lines, is_given, without_invented_lines
from agents.checks.priorities import passed_over
from agents.roles.agent import Agent
from knowledge_base.artifacts import FREE_METHOD_PATTERN, MAX_METHOD_NAME_CHARS, Page
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX
from tools.analysis import signatures
from tools.errors import UnusableAnswerError


def plan(agent: Agent, brief: PlannerBrief) -> Plan:
    """A plan of methods that can be written and scored; those that break a rule are struck out and the reason is said
    in `reason`.

    Whatever breaks a rule is returned to the model first, once, with one sentence each, and so is a step beyond the
    budget of an axis or past a page of higher priority without a word on it, which stays in the plan all the same. No
    more candidates are asked for than the run wants, and citations and figures that do not resolve are left out. None
    are asked for by a plan that was empty from the start, which is to say that nothing is left; an answer that cannot
    be read does not say so.
    """
    try:
        proposed = agent.ask(brief, Plan, partial(faults, brief=brief))
    except UnusableAnswerError as error:
        return Plan(methods=(), candidates=1, reason=str(error))
    proposed = _on_their_axes(proposed, brief)
    struck = violations(proposed, brief)
    said = [f"{proposed.methods[number].method} struck out: {fault}" for number, fault in struck.items()]
    # Only now: what the reason says counts, whatever else stands in it.
    said += [f"{step}, unexplained" for step in _unexplained(proposed, struck, brief)]
    said += [f"left out: {fault}" for fault in figure_faults(proposed.figures, brief)]
    kept = tuple(_resolved(item, brief) for number, item in enumerate(proposed.methods) if number not in struck)
    reason = "; ".join([without_invented_lines(proposed.reason, brief), *said]).lstrip("; ")
    candidates = min(max(proposed.candidates, 1), brief.candidates) if proposed.methods else 0
    figures = resolved_figures(proposed.figures, brief)
    update = {"methods": kept, "reason": reason, "candidates": candidates, "figures": figures}
    return proposed.model_copy(update=update)


def faults(proposed: Plan, brief: PlannerBrief) -> tuple[str, ...]:
    """What is returned to the model: what would be struck out or is not explained, figures and citations that do not
    resolve, patterns that are not looked for."""
    proposed = _on_their_axes(proposed, brief)
    struck = violations(proposed, brief)
    found = [f"methods.{number} ({proposed.methods[number].method}): {why}" for number, why in struck.items()]
    found += [
        f"{step}; plan otherwise, or say why in `reason`, by name" for step in _unexplained(proposed, struck, brief)
    ]
    for number, item in enumerate(proposed.methods):
        wrong = [
            f"{one!r} is no record, finding or line of the wiki that you were given; cite one that is"
            for one in _unresolved(item, brief)
        ]
        wrong += [
            f"signature {fault}"
            for pattern in item.signature.values()
            if _own(item) and (fault := signatures.pattern_fault(pattern))
        ]
        found += [f"methods.{number} ({item.method}): {why}" for why in wrong if number not in struck]
    found += [
        f"reason: {citation} is no line of the wiki that you were given"
        for citation in invented_lines(proposed.reason, brief)
    ]
    return (*found, *figure_faults(proposed.figures, brief))


def violations(proposed: Plan, brief: PlannerBrief) -> dict[int, str]:
    """Position -> why the plan may not contain that method: known or its own, once, cited, with a prediction to
    score."""
    kept: list[PlannedMethod] = []
    found: dict[int, str] = {}
    for number, item in enumerate(proposed.methods):
        fault = _misplaced(item, kept, brief) or _unfounded(item, brief)
        if fault:
            found[number] = fault
        else:
            kept.append(item)
    return found


def _unexplained(proposed: Plan, struck: Collection[int], brief: PlannerBrief) -> Iterator[str]:
    """Where a plan leaves what budget and priorities advise (A4, A5) without a word on it in `reason`."""
    kept = [item for number, item in enumerate(proposed.methods) if number not in struck]
    for axis, count in Counter(item.axis for item in kept).items():
        worth = brief.budget.get(axis, 0)
        if count > worth and not re.search(rf"\b{axis}\b", proposed.reason):
            yield f"{count} method{'s' * (count > 1)} on the {axis} axis, beyond its budget of {worth}"
    for item in kept:
        better = passed_over(item.method, proposed, brief)
        if better:
            yield f"{', '.join(better)} come before {item.method} on the {item.axis} axis"


def _own(item: PlannedMethod) -> bool:
    return item.method.startswith(FREE_METHOD_PREFIX)


def _page(item: PlannedMethod, brief: PlannerBrief) -> Page | None:
    """The page by which a method is planned, of all that this run listed."""
    return next(
        (page for page in (*brief.dossier.methods, *brief.dossier.earlier) if page.head.id == item.method), None
    )


def _on_their_axes(proposed: Plan, brief: PlannerBrief) -> Plan:
    """Each method on its page's axis, where it has one."""
    axes = [(page.head.axis if (page := _page(item, brief)) else None) or item.axis for item in proposed.methods]
    methods = (item.model_copy(update={"axis": axis}) for item, axis in zip(proposed.methods, axes, strict=True))
    return proposed.model_copy(update={"methods": tuple(methods)})


def _misplaced(item: PlannedMethod, kept: list[PlannedMethod], brief: PlannerBrief) -> str:
    if _own(item) and not (
        re.fullmatch(FREE_METHOD_PATTERN, item.method) and len(item.method) <= MAX_METHOD_NAME_CHARS
    ):
        return (
            f"behind `own:` stands a name of small letters, digits and single dashes, at most {MAX_METHOD_NAME_CHARS} "
            f"characters in all"
        )
    page = _page(item, brief)
    if not _own(item) and (page is None or page.head.type != "method"):
        return "no method page that was listed has this id; an idea of your own is called `own:<slug>`"
    if any(other.method == item.method for other in kept):
        return "it is planned twice"
    if len(kept) >= brief.methods_per_iteration:
        return f"more than {brief.methods_per_iteration} methods in one iteration"
    return ""


def _unfounded(item: PlannedMethod, brief: PlannerBrief) -> str:
    hypothesis = item.hypothesis
    if not hypothesis.citations and not _own(item):
        return "its hypothesis cites nothing"
    if not _own(item) and len(_unresolved(item, brief)) == len(hypothesis.citations):
        return "its hypothesis cites nothing that was given: " + ", ".join(hypothesis.citations[:3])
    invented = (*invented_lines(hypothesis.rationale, brief), *invented_lines(hypothesis.change, brief))
    if invented:
        return f"its hypothesis names {invented[0]}, which was not given"
    if not hypothesis.expected:
        return "its hypothesis predicts nothing"
    if all(expected.metric != "time" for expected in hypothesis.expected):
        return "its hypothesis does not predict the time, by which the gate scores it"
    impossible = next((expected for expected in hypothesis.expected if not _possible(expected)), None)
    if impossible is not None:
        return (
            f"its prediction of {impossible.metric} cannot be: factor is new / old, below 1 for down, and "
            f"confidence lies in 0..1"
        )
    return ""


def _possible(expected: Movement) -> bool:
    if expected.factor <= 0 or not 0 <= expected.confidence <= 1:
        return False
    return expected.factor <= 1 if expected.direction == "down" else expected.factor >= 1


def _unresolved(item: PlannedMethod, brief: PlannerBrief) -> list[str]:
    return [citation for citation in item.hypothesis.citations if not is_given(citation, brief)]


def _resolved(item: PlannedMethod, brief: PlannerBrief) -> PlannedMethod:
    """Without citations of what was not given; of a catalogued method one at least is left, or it would have been
    struck out. With the patterns that are looked for: those of its page, where it has one and the plan gives none."""
    unresolved = _unresolved(item, brief)
    citations = tuple(citation for citation in item.hypothesis.citations if citation not in unresolved)
    update: dict[str, object] = {"hypothesis": item.hypothesis.model_copy(update={"citations": citations})}
    if _own(item):
        page = _page(item, brief)
        sound = {target: pattern for target, pattern in item.signature.items() if not signatures.pattern_fault(pattern)}
        update["signature"] = sound or (page.head.signature if page else {})
    return item.model_copy(update=update)
