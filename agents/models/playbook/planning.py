"""The planner by rule: methods whose findings fired and whose recipes apply to the source, within the budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from math import ceil

from agents.artifacts import Hypothesis, PassedOver, Plan, PlannedMethod, PlannerBrief, Prediction, RunAttempt
from agents.checks.priorities import skipped_higher_priority_methods
from agents.lift.from_reference import LIFT_METHOD
from agents.models.playbook.past_outcomes import MethodSet, accepted_here, method_votes, rejected_here
from agents.models.playbook.recipe import language_model_advice, load_recipe
from knowledge_base.artifacts import Page
from tools.artifacts import Axis, Finding

SEVERITY_ORDER = {"high": 3, "medium": 2, "low": 1}
EXPECTED_EFFECT_BY_RECIPE: dict[str, tuple[float, float]] = {
    "parallel_outer": (0.6, 0.7),
    "vector_exp": (0.3, 0.7),
    "simd_reduction": (0.5, 0.6),
    "simd_loop": (0.9, 0.4),
    "interchange": (0.2, 0.7),
    "triton_single_pass": (0.5, 0.6),
    "triton_launch": (0.8, 0.4),
}
"""Recipe -> (new time / old time, confidence): the playbook's prior, which the gate scores."""


def plan_methods(brief: PlannerBrief) -> Plan:
    """The plan for the next iteration, with the reason for its methods; without methods where nothing is left to try.

    The order is: methods that were accepted on this source in an earlier run, methods that were not tried on it, other
    knobs of methods that are applied, and other sets of methods that were tried. The lifted kernel, where it is listed,
    is planned once the other methods gain no more, since it takes the place of the source that they edit.
    """
    pages = _pages_with_recipes(brief)
    tried = _planned_since_accept(brief.tried)
    lift = [page for page in brief.dossier.methods if page.head.id == LIFT_METHOD]
    accepted = _accepted_before(brief, [*pages, *lift], tried)
    if accepted is not None:
        return _plan_of(brief, *accepted, 1)
    applicable = [page for page in pages if load_recipe(page.head.recipe or "").applies(brief.source)]
    rejected = rejected_here(brief)
    untried = [page for page in applicable if not any(page.head.id in methods for methods in (*tried, *rejected))]
    reason = "their findings fired and their recipes apply to the source"
    chosen = _best_set(brief, untried, lambda methods: True)
    if not chosen:
        reason = "knobs of methods in place are searched"
        chosen = _methods_with_open_knobs(brief, [page for page in pages if page not in applicable], tried)
    gains_no_more = not chosen or (bool(brief.tried) and brief.tried[-1].verdict != "accept")
    if gains_no_more and _lift_is_open(brief, lift, rejected):
        reason = "torch.compile is not shown slower, and edits of this source have brought what they could"
        return _plan_of(brief, lift, reason, 1)
    if not chosen:
        reason = "they were tried, but not as this set"
        chosen = _best_set(brief, applicable, lambda methods: methods not in tried and methods not in rejected)
    if not chosen:
        return Plan(methods=(), candidates=0, reason=_reason_for_no_method(brief, pages, applicable, len(rejected)))
    return _plan_of(brief, chosen, reason, brief.candidates)


def _plan_of(brief: PlannerBrief, chosen: list[Page], reason: str, candidates: int) -> Plan:
    """The plan of these methods, with the methods of higher priority that it passes over."""
    methods = tuple(_planned_method(brief, page) for page in chosen)
    plan = Plan(methods=methods, candidates=candidates, reason=f"Chosen by rule: {reason}.")
    over = dict.fromkeys(
        name for method in methods for name in skipped_higher_priority_methods(method.method, plan, brief)
    )
    if not over:
        return plan
    why = "no recipe of theirs changes this source, no finding asks for them, or an earlier run rejected them"
    return plan.model_copy(update={"passed_over": tuple(PassedOver(method=name, reason=why) for name in over)})


def _accepted_before(brief: PlannerBrief, pages: list[Page], tried: list[MethodSet]) -> tuple[list[Page], str] | None:
    """The methods that gained most on this very source in an earlier run, unless this run has tried them, and the
    reason to plan them."""
    by_id = {page.head.id: page for page in pages}
    by_gain = sorted(accepted_here(brief), key=lambda one: one.effect.low if one.effect else 1.0, reverse=True)
    for attempt in by_gain:
        chosen = [by_id[method] for method in attempt.methods if method in by_id]
        is_complete = 0 < len(chosen) == len(set(attempt.methods)) <= brief.methods_per_iteration
        if is_complete and frozenset(attempt.methods) not in tried and _fits_budget(brief, chosen):
            return chosen, f"an earlier run started from this very source and accepted them (record {attempt.evidence})"
    return None


def _lift_is_open(brief: PlannerBrief, lift: list[Page], rejected: Collection[MethodSet]) -> bool:
    """Whether the lifted kernel is listed, and neither this run nor an earlier one has tried it on this source."""
    tried = {method for one in brief.tried for method in _planned_set(one)}
    return bool(lift) and LIFT_METHOD not in tried and frozenset({LIFT_METHOD}) not in rejected


def _methods_with_open_knobs(brief: PlannerBrief, pages: list[Page], tried: list[MethodSet]) -> list[Page]:
    """The best set of methods that are applied to the source and have values of knobs left to try."""
    settings = {page.head.id: _count_other_settings(page, brief.source) for page in pages}
    # Counted over the whole run, or two settings could take turns for ever.
    planned = Counter(method for one in brief.tried for method in _planned_set(one))
    tunable = [
        page
        for page in pages
        if settings[page.head.id] > 0 and planned[page.head.id] <= ceil(settings[page.head.id] / brief.candidates)
    ]

    def has_open_settings(methods: MethodSet) -> bool:
        searched = brief.candidates * sum(methods <= one for one in tried)
        return searched < sum(settings[method] for method in methods)

    return _best_set(brief, tunable, has_open_settings)


def _pages_with_recipes(brief: PlannerBrief) -> list[Page]:
    """Method pages with a recipe for the task's language, best first."""
    language, votes = brief.task.language, method_votes(brief)
    pages = {
        page.head.id: page
        for page in brief.dossier.methods
        if page.head.type == "method"
        and page.head.recipe
        and load_recipe(page.head.recipe).language == language
        and (not page.head.languages or language in page.head.languages)
    }
    return sorted(pages.values(), key=lambda page: _rank(page, brief.findings, votes), reverse=True)


def _rank(page: Page, findings: tuple[Finding, ...], votes: Mapping[str, int]) -> tuple[int, int, int, int, str]:
    head = page.head
    fired = [SEVERITY_ORDER[finding.severity] for finding in findings if finding.rule in head.rules]
    vote = votes.get(head.id, 0)
    return (bool(fired), (vote > 0) - (vote < 0), head.priority, max(fired, default=0), head.id)


def _planned_since_accept(tried: tuple[RunAttempt, ...]) -> list[MethodSet]:
    """The sets of methods that this run has planned for the present source."""
    last = max((one.iteration for one in tried if one.verdict == "accept"), default=-1)
    return [_planned_set(one) for one in tried if one.iteration > last]


def _planned_set(tried: RunAttempt) -> MethodSet:
    return frozenset(tried.planned or tried.methods)


def _best_set(brief: PlannerBrief, pages: list[Page], is_wanted: Callable[[MethodSet], bool]) -> list[Page]:
    """The largest and best ranked set within the budget that is wanted; empty where there is none."""
    size = brief.methods_per_iteration
    pool = pages[: size + 5]
    for count in range(min(size, len(pool)), 0, -1):
        for subset in combinations(pool, count):
            if _fits_budget(brief, subset) and is_wanted(frozenset(page.head.id for page in subset)):
                return list(subset)
    return []


def _fits_budget(brief: PlannerBrief, pages: Collection[Page]) -> bool:
    used: Counter[Axis] = Counter(page.head.axis or "compute" for page in pages)
    return all(count <= brief.budget.get(axis, 0) for axis, count in used.items())


def _count_other_settings(page: Page, source: str) -> int:
    """Number of other values of knobs that change the source in which the method is applied."""
    found = load_recipe(page.head.recipe or "")
    present = found.present(source)
    values = {**found.knobs, **page.head.knobs}
    others = [
        {**present, knob: str(value)} for knob in present for value in values[knob] if str(value) != present[knob]
    ]
    return sum(found.set_knobs(source, setting) != source for setting in others)


def _planned_method(brief: PlannerBrief, page: Page) -> PlannedMethod:
    findings = [finding for finding in brief.findings if finding.rule in page.head.rules]
    factor, confidence = EXPECTED_EFFECT_BY_RECIPE.get(page.head.recipe or "", (0.9, 0.3))
    if page.head.id == LIFT_METHOD:
        compiled = brief.frameworks.compiled if brief.frameworks else ()
        factor, confidence = min((one.estimate for one in compiled), default=0.6), 0.4
    rules = ", ".join(dict.fromkeys(finding.rule for finding in findings))
    hypothesis = Hypothesis(
        change=page.head.title,
        rationale=f"Answers {rules or 'no finding of its own, but its recipe applies to this source'}.",
        citations=_citations(brief, page, findings),
        expected=(Prediction(metric="time", direction="down", factor=min(1.0, factor), confidence=confidence),),
    )
    axis = page.head.axis or "compute"
    return PlannedMethod(method=page.head.id, axis=axis, hypothesis=hypothesis, signature=page.head.signature)


def _citations(brief: PlannerBrief, page: Page, findings: list[Finding]) -> tuple[str, ...]:
    """The page's passages that retrieval found (its body where it found none), and the findings' records."""
    passages = [str(passage.citation) for passage in brief.dossier.passages if passage.path == page.path][:3]
    cited = passages or [f"<gpu-wiki>/{page.path}:{page.body_line}"]
    return tuple(dict.fromkeys([*cited, *(record for finding in findings for record in finding.evidence)]))


def _reason_for_no_method(brief: PlannerBrief, pages: list[Page], applicable: list[Page], rejected: int) -> str:
    if not brief.dossier.methods:
        return "Retrieval found no method page for these findings."
    if not pages:
        return f"No method page found has a recipe for {brief.task.language}."
    if not applicable:
        advice = language_model_advice(brief.task.language)
        return f"No recipe applies to the present source, and its knobs have been searched; {advice}."
    earlier = f", {rejected} of them in earlier runs, which rejected them" if rejected else ""
    return f"Every set of methods that applies and fits the budget has been tried on the present source{earlier}."
