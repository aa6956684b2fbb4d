"""The planner by rule: pages whose findings fired, whose recipe applies to the source, within the budget, not tried
in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from math import ceil

from agents.artifacts import Hypothesis, Movement, Plan, PlannedMethod, PlannerBrief, Tried
from agents.checks.priorities import passed_over
from agents.lift.from_reference import LIFT_METHOD
from agents.models.playbook import history
from agents.models.playbook.recipe import UNREAD, recipe
from knowledge_base.artifacts import Attempt, Page
from tools.artifacts import Axis, Finding

SEVERITY = {"high": 3, "medium": 2, "low": 1}
EXPECTED: dict[str, tuple[float, float]] = {
    "parallel_outer": (0.6, 0.7),
    "vector_exp": (0.3, 0.7),
    "simd_reduction": (0.5, 0.6),
    "simd_loop": (0.9, 0.4),
    "interchange": (0.2, 0.7),
    "triton_single_pass": (0.5, 0.6),
    "triton_tiles": (0.3, 0.7),
    "triton_launch": (0.8, 0.4),
}
"""Recipe -> (new time / old time, confidence): the playbook's prior, which the gate scores."""


def plan(brief: PlannerBrief) -> Plan:
    """What won from this very source before; else what was not tried since the kernel last changed; else other knobs of
    methods in place; else what was tried, in other company; else what an earlier run left open. What one rejected on
    this source is not planned again. What torch.compile makes of the reference, where it is listed, is judged once
    these edits gain no more: they would find no place in it.
    """
    pages = _usable(brief)
    tried = _planned_since_accept(brief.tried)
    lift = [page for page in brief.dossier.methods if page.head.id == LIFT_METHOD]
    again = _won(brief, [*pages, *lift], tried)
    if again is not None:
        return _said(brief, *again, 1)
    fresh = [p for p in pages if recipe(p.head.recipe or "").applies(brief.source)]
    failed, left = history.rejected(brief), history.pending(brief)
    before = [*tried, *failed, *left]
    unseen = [p for p in fresh if not any(p.head.id in methods for methods in before)]
    chosen, guided = (
        _first(brief, unseen, lambda methods: True),
        "their findings fired and their recipes apply to the source",
    )
    if not chosen:
        chosen, guided = (
            _knobs(brief, [p for p in pages if p not in fresh], tried),
            "knobs of methods in place are searched",
        )
    if _lift_is_open(brief, lift, failed) and (not chosen or (brief.tried and brief.tried[-1].verdict != "accept")):
        return _said(
            brief, lift, "torch.compile is not shown slower, and edits of this source have brought what they could", 1
        )
    if not chosen:
        chosen, guided = (
            _first(brief, fresh, lambda methods: methods not in before),
            "they were tried, but not as this set",
        )
    if not chosen:
        chosen = _first(
            brief, fresh, lambda methods: methods in left and methods not in tried and methods not in failed
        )
        guided = _open(left.get(frozenset(p.head.id for p in chosen)))
    if not chosen:
        return Plan(methods=(), candidates=0, reason=_why_nothing(brief, pages, fresh, failed))
    return _said(brief, chosen, guided, brief.candidates)


def _said(brief: PlannerBrief, chosen: list[Page], guided: str, candidates: int) -> Plan:
    """The plan, with why these methods, and why not others of higher priority."""
    methods = tuple(_planned(brief, page) for page in chosen)
    made = Plan(methods=methods, candidates=candidates, reason=f"Chosen by rule: {guided}.")
    over = dict.fromkeys(name for method in methods for name in passed_over(method.method, made, brief))
    if not over:
        return made
    why = "no recipe of theirs changes this source, no finding asks for them, or an earlier run rejected them"
    return made.model_copy(update={"reason": f"{made.reason} Passed over, {why}: {', '.join(over)}."})


def _won(brief: PlannerBrief, pages: list[Page], tried: list[frozenset[str]]) -> tuple[list[Page], str] | None:
    """What was accepted on this very source in an earlier run and gained most, unless this run tried it already."""
    by_id = {page.head.id: page for page in pages}
    for one in history.won(brief):
        methods = frozenset(one.methods)
        chosen = [by_id[method] for method in one.methods if method in by_id]
        within = methods and len(chosen) == len(methods) <= brief.methods_per_iteration and _fits(brief, tuple(chosen))
        if within and methods not in tried:
            return chosen, f"an earlier run started from this very source and accepted them (record {one.evidence})"
    return None


def _lift_is_open(brief: PlannerBrief, lift: list[Page], failed: Collection[frozenset[str]]) -> bool:
    """Whether the lifted kernel is listed, and neither this run nor an earlier one has tried it on this source."""
    tried = {method for one in brief.tried for method in _asked(one)}
    return bool(lift) and LIFT_METHOD not in tried and frozenset({LIFT_METHOD}) not in failed


def _open(attempt: Attempt | None) -> str:
    """Why what an earlier run left open is tried after all."""
    if attempt is None:
        return ""
    what = "noise hid what they gave" if attempt.verdict == "inconclusive" else "they were rejected on another source"
    return f"nothing else is left, and in an earlier run {what} (record {attempt.evidence})"


def _knobs(brief: PlannerBrief, pages: list[Page], tried: list[frozenset[str]]) -> list[Page]:
    """Methods in place with settings left to try."""
    settings = {p.head.id: _settings(p, brief.source) for p in pages}
    # Counted over the whole run, or two settings could take turns for ever.
    planned = Counter(method for t in brief.tried for method in _asked(t))
    tunable = [
        p
        for p in pages
        if settings[p.head.id] > 0 and planned[p.head.id] <= ceil(settings[p.head.id] / brief.candidates)
    ]

    def open_yet(methods: frozenset[str]) -> bool:
        searched = brief.candidates * sum(methods <= one for one in tried)
        # Those that earlier runs judged, the coder passes over.
        return max(searched, history.known(brief, methods)) < sum(settings[m] for m in methods)

    return _first(brief, tunable, open_yet)


def _usable(brief: PlannerBrief) -> list[Page]:
    """Method pages with a recipe for this language, best first."""
    pages = [p for p in brief.dossier.methods if p.head.type == "method" and _speaks(p, brief.task.language)]
    favoured = history.favour(brief)
    return sorted(
        {p.head.id: p for p in pages}.values(), key=lambda p: _rank(p, brief.findings, favoured), reverse=True
    )


def _speaks(page: Page, language: str) -> bool:
    made = page.head.recipe
    return (
        bool(made)
        and recipe(made or "").language in ("", language)
        and (not page.head.languages or language in page.head.languages)
    )


def _rank(page: Page, findings: tuple[Finding, ...], favoured: Mapping[str, int]) -> tuple[int, int, int, int, str]:
    fired = [SEVERITY[f.severity] for f in findings if f.rule in page.head.rules]
    return (bool(fired), favoured.get(page.head.id, 0), page.head.priority, max(fired, default=0), page.head.id)


def _planned_since_accept(tried: tuple[Tried, ...]) -> list[frozenset[str]]:
    """Method sets planned for the present source."""
    last = max((t.iteration for t in tried if t.verdict == "accept"), default=-1)
    return [_asked(t) for t in tried if t.iteration > last]


def _asked(tried: Tried) -> frozenset[str]:
    return frozenset(tried.planned or tried.methods)


def _first(brief: PlannerBrief, pages: list[Page], wanted: Callable[[frozenset[str]], bool]) -> list[Page]:
    """The largest and best ranked set within the budget that is wanted."""
    size = brief.methods_per_iteration
    pool = pages[: size + 5]
    for count in range(min(size, len(pool)), 0, -1):
        for subset in combinations(pool, count):
            if _fits(brief, subset) and wanted(frozenset(p.head.id for p in subset)):
                return list(subset)
    return []


def _fits(brief: PlannerBrief, pages: tuple[Page, ...]) -> bool:
    used: dict[Axis, int] = {}
    for page in pages:
        axis = page.head.axis or "compute"
        used[axis] = used.get(axis, 0) + 1
    return all(count <= brief.budget.get(axis, 0) for axis, count in used.items())


def _settings(page: Page, source: str) -> int:
    """Other values of knobs that change the source in which the method stands already."""
    made = recipe(page.head.recipe or "")
    now = made.present(source)
    knobs = {**made.knobs, **page.head.knobs}
    asked = [{**now, name: str(value)} for name in now for value in knobs.get(name, ()) if str(value) != now[name]]
    return sum(made.retune(source, one) != source for one in asked)


def _planned(brief: PlannerBrief, page: Page) -> PlannedMethod:
    findings = [f for f in brief.findings if f.rule in page.head.rules]
    factor, confidence = EXPECTED.get(page.head.recipe or "", (0.9, 0.3))
    if page.head.id == LIFT_METHOD:
        factor, confidence = 0.6, 0.4
        if brief.frameworks:
            factor = min([1.0, *(one.estimate for one in brief.frameworks.compiled)])
    because = (
        ", ".join(dict.fromkeys(f.rule for f in findings))
        or "no finding of its own, but its recipe applies to this source"
    )
    hypothesis = Hypothesis(
        change=page.head.title,
        rationale=f"Answers {because}.",
        citations=_citations(brief, page, findings),
        expected=(Movement(metric="time", direction="down", factor=factor, confidence=confidence),),
    )
    return PlannedMethod(
        method=page.head.id, axis=page.head.axis or "compute", hypothesis=hypothesis, signature=page.head.signature
    )


def _citations(brief: PlannerBrief, page: Page, findings: list[Finding]) -> tuple[str, ...]:
    """The page's passages that retrieval found (its body where it found none), and the findings' records."""
    passages = [str(p.citation) for p in brief.dossier.passages if p.path == page.path][:3]
    own = passages or [f"<gpu-wiki>/{page.path}:{page.body_line}"]
    return tuple(dict.fromkeys([*own, *(record for f in findings for record in f.evidence)]))


def _why_nothing(
    brief: PlannerBrief, pages: list[Page], fresh: list[Page], failed: Mapping[frozenset[str], Attempt]
) -> str:
    if not brief.dossier.methods:
        return "Retrieval found no method page for these findings."
    if not pages:
        return f"No method page found has a recipe for {brief.task.language}."
    if not fresh:
        return f"No recipe applies to the present source any more, and its knobs have been searched; {UNREAD}."
    but = f", {len(failed)} of them in earlier runs, which rejected them" if failed else ""
    return f"Every set of methods that applies and fits the budget has been tried on the present source{but}."
