"""What to try next: sets of methods ranked by what came of them in similar conditions, each with its reasons.

An outcome belongs to a whole set of methods and is counted as such: the gain of a set says nothing certain of one of
its methods.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from knowledge_base.artifacts import Attempt, Page
from knowledge_base.experience.similarity import Conditions, Likeness, likeness
from knowledge_base.experience.status import method_status
from knowledge_base.pages.names import targets_by_name
from knowledge_base.pages.wiki import Wiki
from tools.analysis import rules
from tools.artifacts import Artifact, Axis, Bound, DType, Interval
from tools.cli.suggestions import suggest_or_list
from tools.errors import SettingsError

MIN_LIKENESS = 0.05
"""Likeness below which an outcome says nothing about the conditions."""
STATED_WEIGHT = 0.5
"""Weight of an outcome that no run measured."""
PRIOR_WEIGHT = 1.0
"""Weight of a fictitious outcome of 1x in every rank, so that a single lucky measurement weighs less."""
DECIDED = ("success", "failure", "neutral")
"""Results with a confirmed effect: that of an unconfirmed trial, the best of a few, is usually too high."""
BOUNDS = tuple(bound for bound in get_args(Bound) if bound != "unknown")


class WeighedAttempt(NamedTuple):
    """One outcome with its weight for the conditions."""

    attempt: Attempt
    likeness: Likeness
    weight: float

    @property
    def failed_here(self) -> bool:
        """Whether it surely gained nothing in the very conditions."""
        return self.likeness.all_same and method_status(self.attempt.verdict, self.attempt.effect) == "avoid"


class OutcomeEvidence(Artifact):
    """One outcome behind a recommendation."""

    attempt: Attempt
    likeness: float
    differing: tuple[str, ...]
    """The conditions that are not as asked; empty: all are."""


class MethodAdvice(Artifact):
    """A set of methods to try, or to avoid."""

    methods: tuple[str, ...]
    basis: Literal["experience", "wiki"]
    """wiki: no outcome is known, but the method's page says that it answers this bottleneck."""
    results: dict[str, int] = {}
    """Result -> number of outcomes."""
    effect: Interval | None = None
    """The effect of the most similar outcome that was confirmed or refuted; None: no such outcome was timed."""
    score: float = 1.0
    """The rank: the weighted mean gain of confirmed and refuted outcomes and of one fictitious outcome of 1x."""
    warning: str = ""
    """What failed in the same conditions; empty: nothing did."""
    reason: str
    citation: str
    """Of the method's page, where there is one."""
    evidence: tuple[OutcomeEvidence, ...] = ()
    """The most similar first."""


class Recommendation(Artifact):
    """What to try and what to avoid."""

    conditions: Conditions
    proposed: tuple[MethodAdvice, ...]
    avoid: tuple[MethodAdvice, ...]
    """Methods that failed in these very conditions and never succeeded in them."""
    operator: str = ""
    """The wiki's page about the operator; empty: there is none, or none was asked about."""
    pages: tuple[str, ...]
    """The wiki's pages about the finding: signal, causes, fixes."""
    note: str
    """What the answer rests on, in one sentence."""


def recommend(attempts: Iterable[Attempt], conditions: Conditions, wiki: Wiki, k: int = 5) -> Recommendation:
    """At most `k` proposals: first from `attempts` (newest first), then untried methods of the wiki; and what to
    avoid."""
    groups: dict[frozenset[str], list[WeighedAttempt]] = {}
    for one in attempts:
        found = likeness(conditions, one)
        if found.score >= MIN_LIKENESS and one.methods:
            weight = found.score * (1.0 if one.origin == "run" else STATED_WEIGHT)
            groups.setdefault(frozenset(one.methods), []).append(WeighedAttempt(one, found, weight))
    ranked = sorted(
        (_experience_advice(group, wiki) for group in groups.values()), key=lambda one: (-one.score, one.methods)
    )
    avoid = [one for one in ranked if _is_refuted(groups[frozenset(one.methods)])]
    proposed = [one for one in ranked if one not in avoid and one.results.get("success")][:k]
    named = {method for one in proposed for method in one.methods}
    named |= {one.methods[0] for one in avoid if len(one.methods) == 1}
    untried = [
        _wiki_advice(page, conditions, wiki, groups)
        for page in _method_pages(conditions, wiki)
        if page.head.id not in named
    ]
    about = wiki.operator(conditions.operator)
    return Recommendation(
        conditions=conditions,
        operator=_page_citation(about) if about else "",
        proposed=(*proposed, *untried[: max(0, k - len(proposed))]),
        avoid=tuple(avoid),
        pages=tuple(_page_citation(page) for page in wiki.skills(conditions.language, [conditions.rule])),
        note=_note(sum(map(len, groups.values())), bool(proposed), bool(untried)),
    )


def read_conditions(
    wiki: Wiki,
    *,
    language: str,
    bottleneck: str = "",
    architecture: str = "",
    operator: str = "",
    dtype: str = "",
    shape_class: str = "",
) -> Conditions:
    """The conditions of a question; SettingsError for a name that is unknown."""
    languages = wiki.languages()
    if not language:
        narrower = "--bottleneck, --arch, --operator, --dtype and --shape-class narrow the question"
        raise SettingsError(f"recommend: --language must be given, one of {', '.join(languages)}; {narrower}")
    if language not in languages:
        raise SettingsError(
            f"--language {language}: the wiki has no page about it; {suggest_or_list(language, languages)}"
        )
    if dtype and dtype not in get_args(DType):
        raise SettingsError(f"--dtype {dtype}: is not an element type; {suggest_or_list(dtype, get_args(DType))}")
    rule, bound = _rule_and_bound(bottleneck)
    return Conditions(
        language=language,
        operator=operator,
        architectures=covered_targets(wiki, architecture) if architecture else (),
        dtype=dtype,
        shape_class=shape_class,
        bottleneck=bound,
        rule=rule,
    )


def covered_targets(wiki: Wiki, name: str) -> tuple[str, ...]:
    """The targets of an architecture or a product: `hopper` and `H200` are sm_90; a target is itself. SettingsError for
    an unknown name."""
    plain = name.lower().strip()
    if plain.startswith(("sm_", "gfx")) or plain in ("x86_64", "aarch64"):
        return (plain,)
    known = targets_by_name(wiki)
    if plain not in known:
        names = suggest_or_list(name, sorted(known))
        raise SettingsError(f"--arch {name}: the wiki does not know it; {names}, or a target (sm_90, gfx942, x86_64)")
    return known[plain]


def _rule_and_bound(bottleneck: str) -> tuple[str, str]:
    """The rule and the bound that a bottleneck names; a rule has the bound of its axis."""
    if not bottleneck or bottleneck in BOUNDS:
        return "", bottleneck
    axis_by_rule: dict[str, Axis] = {rule.id: rule.axis for rule in rules.load_rules()}
    rule = bottleneck.replace("-", "_")
    if rule not in axis_by_rule:
        known = suggest_or_list(rule, [*BOUNDS, *sorted(axis_by_rule)])
        raise SettingsError(f"--bottleneck {bottleneck}: no bottleneck has this name; {known}")
    return rule, axis_by_rule[rule]


def _experience_advice(group: list[WeighedAttempt], wiki: Wiki) -> MethodAdvice:
    """The advice that the outcomes (newest first) of one set of methods give."""
    ordered = sorted(group, key=lambda one: -one.weight)
    methods = tuple(sorted(set(group[0].attempt.methods)))
    decided = [one for one in ordered if one.attempt.result in DECIDED]
    effects = [(one.attempt.effect, one.weight) for one in decided if one.attempt.effect]
    gain = sum(weight * math.log(effect.estimate) for effect, weight in effects)
    return MethodAdvice(
        methods=methods,
        basis="experience",
        results=dict(Counter(one.attempt.result for one in group)),
        effect=effects[0][0] if effects else None,
        score=math.exp(gain / (PRIOR_WEIGHT + sum(one.weight for one in decided))),
        warning=_warning([one.attempt for one in ordered if one.failed_here]),
        reason=_reason(ordered, len(effects)),
        citation=", ".join(_page_citation(page) for method in methods if (page := wiki.page(method))),
        evidence=tuple(
            OutcomeEvidence(
                attempt=one.attempt, likeness=round(one.likeness.score, 3), differing=one.likeness.differing
            )
            for one in ordered
        ),
    )


def _is_refuted(group: list[WeighedAttempt]) -> bool:
    """Whether the methods failed in the very conditions and never succeeded in them."""
    succeeded = any(one.likeness.all_same and one.attempt.result == "success" for one in group)
    return not succeeded and any(one.failed_here for one in group)


def _warning(failed: list[Attempt]) -> str:
    if not failed:
        return ""
    last = failed[0]
    times = f", {len(failed)} times" if len(failed) > 1 else ""
    note = f": {' '.join(last.note.split())[:160]}" if last.note else ""
    return f"failed in the same conditions{times} ({last.verdict}, {last.evidence}){note}"


def _reason(ordered: list[WeighedAttempt], timed: int) -> str:
    """How many outcomes there are, on which architectures, and how similar their conditions are."""
    same = sum(one.likeness.all_same for one in ordered)
    architectures = sorted({one.attempt.architecture or "an unknown architecture" for one in ordered})
    kernels = len({one.attempt.before for one in ordered if one.attempt.before})
    stated = sum(one.attempt.origin != "run" for one in ordered)
    nearest = f"none in the same conditions (the most similar differs in: {', '.join(ordered[0].likeness.differing)})"
    parts = [f"n={len(ordered)} on {', '.join(architectures)}", f"{same} in the same conditions" if same else nearest]
    parts += ["a single measurement"] if timed == 1 else []
    parts += ["all on one kernel"] if timed > 1 and kernels == 1 else []
    parts += [f"{stated} not measured by a run, with half the weight"] if stated else []
    return "; ".join(parts)


def _method_pages(conditions: Conditions, wiki: Wiki) -> list[Page]:
    """The wiki's method pages for the conditions: those that answer the finding, then those of its axis, of both first
    those that the operator's page names, each with the highest priority first. Pages about other architectures alone
    are left out."""
    named = wiki.methods_for_operator(conditions.operator)
    answering = wiki.methods_answering(conditions.language, conditions.rule) if conditions.rule else frozenset[str]()
    bottleneck = conditions.bottleneck
    pages = [
        page
        for page in wiki.pages_about("method", conditions.language)
        if (page.head.id in answering or bottleneck in ("", "mixed", page.head.axis))
        and (not conditions.architectures or any(wiki.applies_to(page, name) for name in conditions.architectures))
    ]
    pages.sort(key=lambda page: (-page.head.priority, page.head.id))
    return sorted(pages, key=lambda page: (page.head.id not in answering, page.head.id not in named))


def _wiki_advice(
    page: Page, conditions: Conditions, wiki: Wiki, groups: dict[frozenset[str], list[WeighedAttempt]]
) -> MethodAdvice:
    """The advice to try the method of a page, with what is known of it from larger sets."""
    tried = [one for methods, group in groups.items() if page.head.id in methods for one in group]
    failed = [one.attempt for one in tried if one.failed_here]
    if conditions.rule in page.head.rules:
        claim = f"says that it answers {conditions.rule}"
    elif page.head.id in wiki.methods_answering(conditions.language, conditions.rule):
        claim = f"about {conditions.rule} names it"
    elif conditions.rule:
        claim = f"does not name {conditions.rule}, but acts on the same axis"
    else:
        claim = f"is about the {page.head.axis} axis"
    if page.head.id in wiki.methods_for_operator(conditions.operator):
        claim += f", and the page on {conditions.operator} names it"
    known = f"{len(tried)} outcomes of sets with it, none a success of it alone" if tried else "no outcome is known"
    warning = (
        f"failed in the same conditions as {' + '.join(failed[0].methods)} ({failed[0].evidence})" if failed else ""
    )
    return MethodAdvice(
        methods=(page.head.id,),
        basis="wiki",
        warning=warning,
        reason=f"{known}; the wiki's page {claim} (priority {page.head.priority})",
        citation=_page_citation(page),
    )


def _page_citation(page: Page) -> str:
    return f"<gpu-wiki>/{page.path}:{page.body_line}"


def _note(outcomes: int, has_proposals: bool, has_untried: bool) -> str:
    if not outcomes:
        tail = "the methods below come from the wiki" if has_untried else "the wiki has no method for them"
        return f"no outcome is known in similar conditions; {tail}"
    if not has_proposals:
        return f"{outcomes} outcomes in similar conditions, none of them a success; the proposals come from the wiki"
    return f"{outcomes} outcomes in similar conditions; the proposals are ranked by gain and similarity"
