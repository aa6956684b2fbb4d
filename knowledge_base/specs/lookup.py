"""The only maker of Spec: exact product, exact variant, one cited line; what is not written is UNKNOWN.

A question is bound to the figures of a wiki, whatever layout they were read from (`figures_of`).
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

from knowledge_base.pages.figures import HardwareFigure, HardwareFigures, StatedGap
from knowledge_base.pages.names import (
    VENDOR_WORDS,
    Metrics,
    ProductName,
    ProductNames,
    comparable_metric,
    comparable_name,
    metrics_of,
    name_words,
    product_names_of,
)
from knowledge_base.pages.wiki import BUNDLED_WIKI, Wiki
from knowledge_base.specs import sheets
from knowledge_base.specs.sheets import EVIDENCE_TIERS
from tools.roofline.hardware import Spec, UnknownSpec

IMPLIED_QUALIFIERS = ("dense", "total", "opt-in", "")
"""The qualifiers that a question without one means: the first of these that the metric has."""
NEVER_IMPLIED = frozenset({"sparse", "per_direction"})
"""Qualifiers of figures that only a question with this qualifier gets."""


class ProductEntry(NamedTuple):
    """The figures and gaps of one product variant."""

    name: ProductName
    figures: list[HardwareFigure]
    gaps: list[StatedGap]

    @property
    def path(self) -> str:
        """The page that is about it."""
        own = (figure.citation for figure in self.figures if figure.via is None)
        led = (figure.via for figure in self.figures if figure.via)
        return next(place.path for place in (*own, *led, *(gap.citation for gap in self.gaps)))


def figures_of(wiki: Wiki) -> HardwareFigures:
    """Every figure of `wiki`, read at the first question and then kept."""
    if wiki.figures is None:
        wiki.figures = _read_figures(wiki)
    return wiki.figures


def identify_product(wiki: Wiki, product: str, variant: str = "") -> ProductName | None:
    """The product that the wiki finds for these names; None for an unknown name."""
    names = product_names_of(wiki)
    return names.identify(product, variant, _entries_by_name(figures_of(wiki), metrics_of(wiki), names))


def resolve_spec(wiki: Wiki, product: str, metric: str, variant: str = "", qualifier: str = "") -> Spec | UnknownSpec:
    """The published value of `metric` for exactly this product and variant.

    Without a variant the wiki answers only when it holds every variant of the product and they agree. Without a
    qualifier the dense figure is meant, a link's total, the shared memory that a block can opt in to; a sparse one is
    never given for it.
    """
    known, names = metrics_of(wiki), product_names_of(wiki)
    held = _entries_by_name(figures_of(wiki), known, names)
    asked = str(ProductName(product, variant))
    named = names.identify(product, variant, held) or _family_page(names, held, product)
    broken = _unusable_page_note(wiki, product)
    if named is None:
        several = tuple(str(name) for name in names.completions(asked, held))
        none = f"no hardware page is about {asked!r}; the figures of a similar product are never used"
        reason = f"{asked!r} is not the whole name of a variant; give one of these" if several else none
        nearest = several or _similar_names(asked, sorted(str(name) for name in held))
        return UnknownSpec(metric=metric, reason=reason + broken, candidates=nearest)
    mine = [
        found for name, found in held.items() if name.product == named.product and named.variant in ("", name.variant)
    ]
    sold = [name for name in names.sold if name.product == named.product]
    mine.sort(key=lambda found: sold.index(found.name) if found.name in sold else len(sold))
    if not mine:
        others = tuple(str(name) for name in held if name.product == named.product)
        unsaid = named.product in others
        reason = (
            f"the wiki speaks of {named.product} without a variant"
            if unsaid
            else f"{named} exists but the wiki has no page of it"
        )
        return UnknownSpec(metric=metric, reason=reason + broken, candidates=others)
    answers = [_answer_from(found, known, metric, qualifier) for found in mine]
    unknown = next((answer for answer in answers if isinstance(answer, UnknownSpec)), None)
    specs = [answer for answer in answers if isinstance(answer, Spec)]
    if not specs and unknown:
        return unknown.model_copy(update={"reason": unknown.reason + broken})
    # A wiki that tells no variants apart speaks of the product as such.
    whole = named.variant or any(not found.name.variant for found in mine)
    missing = [] if whole else [name.variant for name in sold if name not in held]
    if missing:
        reason = f"there is also {named.product} {', '.join(missing)}, of which the wiki has no page; name the variant"
        return UnknownSpec(metric=metric, reason=reason, candidates=tuple(str(found.name) for found in mine))
    if unknown or len({(*known.scaled(spec.value, spec.unit), spec.qualifier) for spec in specs}) > 1:
        reason = f"the variants of {named.product} differ, or one has no figure; name the variant"
        return UnknownSpec(
            metric=metric,
            reason=reason,
            candidates=tuple(f"{spec.product} {spec.variant}: {_value_text(spec)}" for spec in specs),
        )
    weakest = max(specs, key=lambda spec: EVIDENCE_TIERS.index(spec.evidence))
    return weakest if len(specs) == 1 else weakest.model_copy(update={"variant": ""})


def reverify(wiki: Wiki, spec: Spec) -> bool:
    """Open the cited lines again: are they the same word for word, and does the same reader make the same number of
    them?"""
    cited = (spec.citation,) if spec.via is None else (spec.citation, spec.via)
    if not all(map(wiki.confirms, cited)):
        return False
    mark = wiki.fingerprint()
    if wiki.mark != mark:
        # Any file may bear on any figure, so that all are read once one changed.
        wiki.mark, wiki.now = mark, _read_figures(Wiki.open(wiki.root, ("hardware", "meta")))
    there = tuple(figure for figure in wiki.now.figures if (figure.citation, figure.via) == (spec.citation, spec.via))
    held = _entries_by_name(HardwareFigures(there), metrics_of(wiki), product_names_of(wiki))
    return any(
        _spec_of(found.name, figure) == spec.model_copy(update={"variant": found.name.variant})
        for found in held.values()
        if spec.variant in ("", found.name.variant)
        for figure in found.figures
    )


def _read_figures(wiki: Wiki) -> HardwareFigures:
    """The figures on pages of our own layout, then those in others."""
    ours, theirs = sheets.read_sheets(wiki), None
    if wiki.root.resolve() != BUNDLED_WIKI.resolve():
        from knowledge_base.layouts.external_wiki import read_external_wiki

        theirs = read_external_wiki(wiki.root)
    return HardwareFigures(ours.figures + theirs.figures, ours.gaps + theirs.gaps, theirs.problems) if theirs else ours


def _unusable_page_note(wiki: Wiki, product: str) -> str:
    """What is wrong with a page that by its name is about `product`: it might have answered."""
    asked = name_words(product) - VENDOR_WORDS
    found = next((problem for problem in wiki.problems if asked and asked <= name_words(problem.path)), None)
    return f"; a page that may be about it could not be used: {found}" if found else ""


def answer_line(answer: Spec | UnknownSpec) -> str:
    """The line under which an answer is registered: a value with its citation, or the gap with its reason."""
    if isinstance(answer, Spec):
        return str(answer)
    also = f" ({'; '.join(answer.candidates)})" if answer.candidates else ""
    return f"{answer}: {answer.reason}{also}"


def _entries_by_name(figures: HardwareFigures, known: Metrics, names: ProductNames) -> dict[ProductName, ProductEntry]:
    """Product variants in the wiki's order; a number in a unit that its metric cannot have is left out."""
    held: dict[ProductName, ProductEntry] = {}

    def entry_of(item: HardwareFigure | StatedGap) -> ProductEntry:
        name = names.canonical(ProductName(item.product, item.variant))
        return held.setdefault(name, ProductEntry(name, [], []))

    for figure in figures.figures:
        if known.allows_unit(figure.metric, figure.unit):
            entry_of(figure).figures.append(figure)
    for gap in figures.gaps:
        entry_of(gap).gaps.append(gap)
    return held


def _answer_from(found: ProductEntry, known: Metrics, metric: str, qualifier: str) -> Spec | UnknownSpec:
    wanted, implied = known.canonical(metric)
    if implied and qualifier and comparable_metric(implied) != comparable_metric(qualifier):
        return UnknownSpec(
            metric=metric,
            reason=f"{metric!r} means the {implied} figure, which contradicts the qualifier {qualifier!r}",
        )
    qualifier = qualifier or implied
    here = [figure for figure in found.figures if figure.metric == wanted]
    fitting = _matching_figures(here, qualifier)
    if fitting:
        best = min(EVIDENCE_TIERS.index(figure.evidence) for figure in fitting)
        top = [figure for figure in fitting if EVIDENCE_TIERS.index(figure.evidence) == best]
        if len({(*known.scaled(figure.value, figure.unit), figure.qualifier) for figure in top}) == 1:
            return _spec_of(found.name, top[0])
    told = tuple(f"{_value_text(_spec_of(found.name, figure))} {figure.qualifier}".strip() for figure in here)
    silent = next((gap for gap in found.gaps if gap.metric == wanted), None)
    if silent and not fitting:
        return UnknownSpec(metric=metric, reason=f"{silent.citation} says: {silent.reason}", candidates=told)
    if not here:
        names = sorted({figure.metric for figure in found.figures})
        return UnknownSpec(
            metric=metric,
            reason=f"{found.path} ({found.name}) has no such row",
            candidates=_similar_names(wanted, names),
        )
    if len({figure.qualifier for figure in fitting}) == 1:
        why = f"has two rows of {wanted} that differ"
    else:
        few = "has several rows" if fitting else f"has no {qualifier or 'dense'} figure"
        why = f"{few} of {wanted}; name the qualifier"
    return UnknownSpec(metric=metric, reason=f"{found.path} ({found.name}) {why}", candidates=told)


def _matching_figures(here: list[HardwareFigure], qualifier: str) -> list[HardwareFigure]:
    for wanted in (qualifier,) if qualifier else IMPLIED_QUALIFIERS:
        fitting = [figure for figure in here if comparable_metric(figure.qualifier) == comparable_metric(wanted)]
        if fitting or qualifier:
            return fitting
    return [figure for figure in here if comparable_metric(figure.qualifier) not in NEVER_IMPLIED]


def _spec_of(name: ProductName, figure: HardwareFigure) -> Spec:
    return Spec(**{**figure._asdict(), **name._asdict()})


def _value_text(spec: Spec) -> str:
    return str(spec).removeprefix(f"{spec.metric}: ")


def _family_page(names: ProductNames, held: dict[ProductName, ProductEntry], product: str) -> ProductName | None:
    """A page that says why a whole family has no figures; never one that holds any."""
    name = ProductName(names.family(product) or "")
    return name if name in held and not held[name].figures else None


def _similar_names(name: str, names: list[str]) -> tuple[str, ...]:
    close = difflib.get_close_matches(
        comparable_name(name), [comparable_name(other) for other in names], n=4, cutoff=0.4
    )
    return tuple(other for one in close for other in names if comparable_name(other) == one)
