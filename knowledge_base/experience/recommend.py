"""What to try next, by what came of it before: sets of methods ranked by similarity-weighted outcomes, each with its
reasons.

An outcome is one of a whole set of methods, and is counted as that: what a set gained says nothing certain of one of
its methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple, get_args

from knowledge_base.artifacts import Attempt, Page, Result
from knowledge_base.experience.similarity import Conditions, Likeness, likeness
from knowledge_base.experience.status import status
from knowledge_base.pages import terminology
from knowledge_base.pages.wiki import Wiki
from tools.analysis import rules
from tools.artifacts import Artifact, Axis, Bound, DType, Interval
from tools.cli.suggestions import offered
from tools.errors import SettingsError

LEAST = 0.05
"""Likeness below which an outcome says nothing here."""
SAID = 0.5
"""Weight of an outcome that no run of ours measured."""
PRIOR = 1.0
"""Weight of an imagined outcome without gain in every rank, so that one lucky measurement does not lead the list by
itself."""
SPREAD = math.log(1.5)
"""By how much one method's gain differs from kernel to kernel: an outcome whose standard error is as large counts
half."""
CONFIDENCE = 0.95
DECIDED = ("success", "failure")
"""Results whose figure tells something: the best of a few trials, which nothing confirmed, lies too high as a rule."""
BOUNDS = tuple(bound for bound in get_args(Bound) if bound != "unknown")


class Weighed(NamedTuple):
    """One outcome with what it says here."""

    attempt: Attempt
    like: Likeness
    weight: float


class Evidence(Artifact):
    """One outcome behind a recommendation."""

    record: str
    result: Result
    effect: Interval | None
    operator: str
    architecture: str
    dtype: DType
    shape_class: str
    bottleneck: Bound
    knobs: dict[str, str]
    workspace: str
    commit: str
    origin: Literal["run", "stated", "memo"]
    likeness: float
    differing: tuple[str, ...]
    """What is not as asked; empty: everything is."""
    note: str


class Advice(Artifact):
    """One set of methods."""

    methods: tuple[str, ...]
    basis: Literal["experience", "wiki"]
    """wiki: nobody has tried it, the page says that it answers this bottleneck."""
    n: int
    results: dict[str, int]
    effect: Interval | None
    """Pooled over those that a confirmation or a shown loss decided, weighted by likeness; with n = 1 the
    measurement's own. None: there is none with an interval."""
    score: float
    """By which it is ranked: the gain to be expected when every decided outcome counts by its weight, beside one
    imagined outcome of 1x."""
    warning: str
    """What failed in the same conditions; empty: nothing did."""
    reason: str
    citation: str
    """Of the wiki's page, where there is one."""
    evidence: tuple[Evidence, ...]
    """The most alike first."""


class Recommendation(Artifact):
    """The answer: what to try, and what not."""

    asked: Conditions
    proposed: tuple[Advice, ...]
    avoid: tuple[Advice, ...]
    """Failed in these very conditions, and never succeeded in them."""
    read: tuple[str, ...]
    """The wiki's pages on the finding asked about: signal, causes, fixes."""
    note: str
    """On what the answer rests, in one sentence."""


def recommend(attempts: Iterable[Attempt], asked: Conditions, wiki: Wiki, k: int = 5) -> Recommendation:
    """At most `k` proposals from `attempts` (newest first), then from the wiki what is untried; and what to avoid."""
    groups: dict[frozenset[str], list[Weighed]] = {}
    for one in attempts:
        like = likeness(asked, one)
        if like.score >= LEAST and one.methods:
            weight = like.score * (1.0 if one.origin == "run" else SAID)
            groups.setdefault(frozenset(one.methods), []).append(Weighed(one, like, weight))
    ranked = sorted((_advice(found, wiki) for found in groups.values()), key=lambda one: (-one.score, one.methods))
    # In these very conditions it failed and nothing ever spoke for it; what noise hid besides is no word for it.
    avoid = [one for one in ranked if _refuted(groups[frozenset(one.methods)])]
    proposed = [one for one in ranked if one not in avoid and one.results.get("success")][:k]
    told = {method for one in proposed for method in one.methods} | {
        one.methods[0] for one in avoid if len(one.methods) == 1
    }
    hinted = [_hint(page, asked, wiki, groups) for page in _pages(asked, wiki) if page.head.id not in told]
    return Recommendation(
        asked=asked,
        proposed=(*proposed, *hinted[: max(0, k - len(proposed))]),
        avoid=tuple(avoid),
        read=tuple(_cited(page) for page in wiki.skills(asked.language, [asked.rule])),
        note=_note(groups, proposed, hinted),
    )


def conditions(
    wiki: Wiki,
    *,
    language: str,
    bottleneck: str = "",
    architecture: str = "",
    operator: str = "",
    dtype: str = "",
    shape_class: str = "",
) -> Conditions:
    """What was asked, checked against the names that there are; SettingsError for one that means nothing."""
    languages = wiki.languages()
    if not language:
        narrower = "--bottleneck, --arch, --operator, --dtype and --shape-class make it narrower"
        raise SettingsError(f"recommend: --language must be given, one of {', '.join(languages)}; {narrower}")
    if language not in languages:
        raise SettingsError(f"--language {language}: is none that the wiki knows; {offered(language, languages)}")
    if dtype and dtype not in get_args(DType):
        raise SettingsError(f"--dtype {dtype}: is no element type; {offered(dtype, get_args(DType))}")
    rule, bound = _bottleneck(bottleneck)
    return Conditions(
        language=language,
        operator=operator,
        architectures=targets(wiki, architecture) if architecture else (),
        dtype=dtype,
        shape_class=shape_class,
        bottleneck=bound,
        rule=rule,
    )


def targets(wiki: Wiki, name: str) -> tuple[str, ...]:
    """What a name of an architecture or a product covers: `hopper` and `H200` are sm_90; a target is itself.
    SettingsError otherwise."""
    plain = name.lower().strip()
    if plain.startswith(("sm_", "gfx")) or plain in ("x86_64", "aarch64"):
        return (plain,)
    found = terminology.targets(wiki)
    if plain not in found:
        known = offered(name, sorted(found))
        raise SettingsError(f"--arch {name}: is none that the wiki knows; {known}, or a target (sm_90, gfx942, x86_64)")
    return found[plain]


def _bottleneck(asked: str) -> tuple[str, str]:
    """(rule, bound): a rule's id tells both."""
    if not asked or asked in BOUNDS:
        return "", asked
    known: dict[str, Axis] = {rule.id: rule.axis for rule in rules.load()}
    name = asked.replace("-", "_")
    if name not in known:
        raise SettingsError(f"--bottleneck {asked}: is none; {offered(name, [*BOUNDS, *sorted(known)])}")
    return name, known[name]


def pooled(outcomes: Sequence[tuple[Interval, float]]) -> Interval | None:
    """One effect from several with weights: random effects on logarithms (DerSimonian and Laird), so that outcomes
    that disagree widen the interval. With one outcome it is that outcome's own; None without any."""
    if not outcomes:
        return None
    if len(outcomes) == 1:
        return outcomes[0][0]
    normal = NormalDist()
    logs = [math.log(one.estimate) for one, _ in outcomes]
    # An interval without width is no measurement without error.
    variances = [max(_error(one), 1e-3) ** 2 for one, _ in outcomes]
    inverse = [1 / variance for variance in variances]
    centre = sum(i * x for i, x in zip(inverse, logs, strict=True)) / sum(inverse)
    excess = sum(i * (x - centre) ** 2 for i, x in zip(inverse, logs, strict=True)) - (len(logs) - 1)
    between = max(0.0, excess / (sum(inverse) - sum(i * i for i in inverse) / sum(inverse)))
    shares = [weight / (variance + between) for (_, weight), variance in zip(outcomes, variances, strict=True)]
    mean = sum(s * x for s, x in zip(shares, logs, strict=True)) / sum(shares)
    spread = math.sqrt(sum(s * s * (v + between) for s, v in zip(shares, variances, strict=True))) / sum(shares)
    half = normal.inv_cdf((1 + CONFIDENCE) / 2) * spread
    return Interval(
        estimate=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), confidence=CONFIDENCE
    )


def _advice(found: list[Weighed], wiki: Wiki) -> Advice:
    alike = sorted(found, key=lambda one: -one.weight)
    methods = tuple(sorted(set(found[0].attempt.methods)))
    decided = [one for one in alike if one.attempt.result in DECIDED]
    timed = [
        (one.attempt.effect, one.weight)
        for one in decided
        if one.attempt.effect is not None and one.attempt.effect.is_bounded
    ]
    effect = pooled(timed)
    results: dict[str, int] = {}
    for one in found:
        results[one.attempt.result] = results.get(one.attempt.result, 0) + 1
    pages = [_cited(page) for method in methods if (page := wiki.page(method))]
    return Advice(
        methods=methods,
        basis="experience",
        n=len(found),
        results=results,
        effect=effect,
        score=_score(decided),
        warning=_warning(alike),
        reason=_reason(alike, len(timed)),
        citation=", ".join(pages),
        evidence=tuple(map(_evidence, alike)),
    )


def _score(found: Iterable[Weighed]) -> float:
    """A wide interval counts for less; what was not timed counts as no gain."""
    total, weights = 0.0, PRIOR
    for one in found:
        effect = one.attempt.effect
        weight = one.weight / (1.0 + (_error(effect) / SPREAD) ** 2) if effect is not None else one.weight
        total += weight * (math.log(effect.estimate) if effect is not None else 0.0)
        weights += weight
    return math.exp(total / weights)


def _error(effect: Interval) -> float:
    """Standard error of the effect's logarithm, read off its interval."""
    return math.log(effect.high / effect.low) / (2 * NormalDist().inv_cdf((1 + effect.confidence) / 2))


def _refuted(found: list[Weighed]) -> bool:
    here = {status(one.attempt.verdict, one.attempt.effect) for one in found if one.like.same}
    return "avoid" in here and "resolved" not in here


def _warning(found: list[Weighed]) -> str:
    failed = [
        one.attempt for one in found if one.like.same and status(one.attempt.verdict, one.attempt.effect) == "avoid"
    ]
    if not failed:
        return ""
    last = failed[0]
    many = f", {len(failed)} times" if len(failed) > 1 else ""
    why = f": {' '.join(last.note.split())[:160]}" if last.note else ""
    return f"failed in the same conditions{many} ({last.verdict}, {last.evidence}){why}"


def _reason(found: list[Weighed], timed: int) -> str:
    """n, where, and how alike, in one sentence."""
    best = found[0]
    same = sum(one.like.same for one in found)
    places = sorted({one.attempt.architecture or "an unknown architecture" for one in found})
    kernels = len({one.attempt.before for one in found if one.attempt.before})
    alike = (
        f"{same} in the same conditions"
        if same
        else f"none in the same conditions: the nearest, {', '.join(best.like.differing)}"
    )
    parts = [f"n={len(found)} on {', '.join(places)}", alike]
    if timed == 1:
        parts.append("one measurement, which says nothing of how much it varies from kernel to kernel")
    elif kernels == 1 and timed > 1:
        parts.append("all on one kernel")
    elsewhere = {one.attempt.origin for one in found} - {"run"}
    if elsewhere:
        parts.append(f"{sum(one.attempt.origin != 'run' for one in found)} not measured by a run, counted half")
    return "; ".join(parts)


def _evidence(one: Weighed) -> Evidence:
    kept = one.attempt.model_dump(include=set(Evidence.model_fields))
    return Evidence(
        record=one.attempt.evidence, likeness=round(one.like.score, 3), differing=one.like.differing, **kept
    )


def _pages(asked: Conditions, wiki: Wiki) -> list[Page]:
    """The wiki's methods for what was asked: those that answer the finding, then those of its axis; each highest
    priority first."""
    answering = wiki.answering(asked.language, asked.rule) if asked.rule else frozenset[str]()
    pages = wiki.about("method", asked.language)
    found = [page for page in pages if page.head.id in answering or asked.bottleneck in ("", "mixed", page.head.axis)]
    return sorted(found, key=lambda page: (page.head.id not in answering, -page.head.priority, page.head.id))


def _hint(page: Page, asked: Conditions, wiki: Wiki, groups: dict[frozenset[str], list[Weighed]]) -> Advice:
    """A page's method, which nothing speaks for but the wiki; what is known of it all the same is said."""
    tried = [one for methods, found in groups.items() if page.head.id in methods for one in found]
    failed = [
        one.attempt for one in tried if one.like.same and status(one.attempt.verdict, one.attempt.effect) == "avoid"
    ]
    if asked.rule in page.head.rules:
        says = f"says that it answers {asked.rule}"
    elif page.head.id in wiki.answering(asked.language, asked.rule):
        says = f"on {asked.rule} names it"
    elif asked.rule:
        says = f"does not name {asked.rule}, but acts on the same axis"
    else:
        says = f"is about the {page.head.axis} axis"
    known = f"{len(tried)} outcomes of sets that contain it, none a success of it alone" if tried else "no experience"
    return Advice(
        methods=(page.head.id,),
        basis="wiki",
        n=0,
        results={},
        effect=None,
        score=1.0,
        warning=f"failed in the same conditions as {' + '.join(failed[0].methods)} ({failed[0].evidence})"
        if failed
        else "",
        reason=f"{known}; the wiki's page {says} (priority {page.head.priority})",
        citation=_cited(page),
        evidence=(),
    )


def _cited(page: Page) -> str:
    return f"<gpu-wiki>/{page.path}:{page.body_line}"


def _note(groups: dict[frozenset[str], list[Weighed]], proposed: list[Advice], hinted: list[Advice]) -> str:
    seen = sum(map(len, groups.values()))
    if not seen:
        tail = (
            "these are the wiki's methods, which nobody is known to have tried here"
            if hinted
            else "and the wiki has no method for them"
        )
        return f"no outcome in conditions like these is known; {tail}"
    if not proposed:
        return (
            f"{seen} outcomes in conditions like these, none that speaks for a set of methods; what is proposed "
            f"comes from the wiki"
        )
    return f"{seen} outcomes in conditions like these; ranked by what they gained, weighted by how alike they are"
