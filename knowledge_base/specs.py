"""The only maker of Spec: exact product, exact variant, one cited table row; what is not written is UNKNOWN (law 2).

A hardware page names its product and variant in `applies_to: [product, variant]` and holds one number a row under the columns
`metric | value | unit | qualifier | source`. Other names of products and metrics are rows of the pages `product-aliases` and
`metric-names`, which are data like the rest.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from knowledge_base.artifacts import Page
from knowledge_base.wiki import Row, Wiki, citation, rows
from tools.artifacts import Spec, UnknownSpec, digest

COLUMNS = ("metric", "value", "unit", "qualifier", "source")
NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
VENDOR_WORDS = frozenset({"nvidia", "amd", "intel", "instinct", "tesla", "gpu", "accelerator"})


class Sheet(NamedTuple):
    """One hardware page: a product variant and its rows."""

    page: Page
    product: str
    variant: str
    rows: tuple[Row, ...]


class Name(NamedTuple):
    """What a product's name stands for."""

    product: str
    variant: str
    """Empty: any variant."""


def resolve(wiki: Wiki, product: str, metric: str, variant: str = "", qualifier: str = "") -> Spec | UnknownSpec:
    """The published value of `metric` for exactly this product and variant.

    Without a variant the wiki answers only when it holds every variant of the product and they agree. Without a qualifier the dense
    figure is meant; a sparse one is never given for it.
    """
    sheets = _sheets(wiki)
    asked = f"{product} {variant}".strip()
    named = _identify(wiki, sheets, product, variant)
    if named is None:
        held = sorted({f"{sheet.product} {sheet.variant}".strip() for sheet in sheets})
        reason = f"no hardware page is about {asked!r}; a similar product is never taken for it"
        return UnknownSpec(metric=metric, reason=reason, candidates=_nearest(asked, held))
    known = [name.variant for name in _known(wiki, sheets) if name.product == named.product and named.variant in ("", name.variant)]
    mine = [sheet for sheet in sheets if sheet.product == named.product and sheet.variant in known]
    mine.sort(key=lambda sheet: known.index(sheet.variant))
    held = [f"{named.product} {sheet.variant}".strip() for sheet in mine]
    missing = sorted(set(known) - {sheet.variant for sheet in mine})
    if not mine:
        return UnknownSpec(metric=metric, reason=f"the wiki knows that {named.product} {named.variant} exists but has no page of it")
    answers = [_read(wiki, sheet, metric, qualifier) for sheet in mine]
    unknown = next((answer for answer in answers if isinstance(answer, UnknownSpec)), None)
    specs = [answer for answer in answers if isinstance(answer, Spec)]
    if not specs and unknown:
        return unknown
    if missing:
        reason = f"{named.product} is also sold as {', '.join(missing)}, of which the wiki has no page; name the variant"
        return UnknownSpec(metric=metric, reason=reason, candidates=tuple(held))
    if unknown or len({(spec.value, spec.unit, spec.qualifier) for spec in specs}) > 1:
        told = tuple(f"{spec.product} {spec.variant}: {_number(spec.value)} {spec.unit} <- {spec.citation}" for spec in specs)
        reason = f"the variants of {named.product} differ or one is silent; name the variant"
        return UnknownSpec(metric=metric, reason=reason, candidates=told)
    return specs[0] if len(specs) == 1 else specs[0].model_copy(update={"variant": ""})


def reverify(wiki: Wiki, spec: Spec) -> bool:
    """Open the cited line again: does it still say the same, word for word?"""
    line = wiki.line(spec.citation.path, spec.citation.line)
    if line is None or digest(line) != spec.citation.sha256:
        return False
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) < len(COLUMNS) or not NUMBER.fullmatch(cells[1]):
        return False
    return (_key(cells[0]), _value(cells[1]), cells[2], cells[3]) == (spec.metric, spec.value, spec.unit, spec.qualifier)


def gap(answer: Spec | UnknownSpec) -> str:
    """The line under which an answer is registered: a value with its citation, or the gap with its reason."""
    if isinstance(answer, Spec):
        return f"{answer.metric}: {_number(answer.value)} {answer.unit} <- {answer.citation}"
    also = f" ({'; '.join(answer.candidates)})" if answer.candidates else ""
    return f"{answer}: {answer.reason}{also}"


def _sheets(wiki: Wiki) -> list[Sheet]:
    found = []
    for page in wiki.pages:
        if page.head.type == "hardware" and page.head.applies_to:
            product, variant = (*page.head.applies_to, "")[:2]
            numeric = tuple(row for row in rows(page, COLUMNS) if NUMBER.fullmatch(row.cells["value"]))
            found.append(Sheet(page, product, variant, numeric))
    return found


def _read(wiki: Wiki, sheet: Sheet, metric: str, qualifier: str) -> Spec | UnknownSpec:
    wanted, implied = _metric(wiki, metric)
    if implied and qualifier and implied != qualifier:
        return UnknownSpec(metric=metric, reason=f"{metric!r} means the {implied} figure, which contradicts the qualifier {qualifier!r}")
    qualifier = qualifier or implied
    here = [row for row in sheet.rows if _key(row.cells["metric"]) == wanted]
    name = f"{sheet.product} {sheet.variant}".strip()
    if not here:
        silent = next((row for row in rows(sheet.page, ("metric", "why", "obtain")) if _key(row.cells["metric"]) == wanted), None)
        if silent:
            reason = f"{citation(sheet.page, silent.line)} says: {silent.cells['why']}; {silent.cells['obtain']}"
            return UnknownSpec(metric=metric, reason=reason)
        names = sorted({_key(row.cells["metric"]) for row in sheet.rows})
        return UnknownSpec(metric=metric, reason=f"{sheet.page.path} ({name}) has no such row", candidates=_nearest(wanted, names))
    if qualifier:
        fitting = [row for row in here if row.cells["qualifier"] == qualifier]
    else:
        fitting = [row for row in here if row.cells["qualifier"] == "dense"] or [row for row in here if row.cells["qualifier"] != "sparse"]
    if len(fitting) != 1:
        told = tuple(f"{row.cells['value']} {row.cells['unit']} {row.cells['qualifier']}".strip() + f", line {row.line}" for row in here)
        why = f"has no {qualifier or 'dense'} figure" if not fitting else "has several rows"
        return UnknownSpec(metric=metric, reason=f"{sheet.page.path} ({name}) {why} of {wanted}; name the qualifier", candidates=told)
    row = fitting[0]
    return Spec(
        metric=wanted,
        value=_value(row.cells["value"]),
        unit=row.cells["unit"],
        qualifier=row.cells["qualifier"],
        product=sheet.product,
        variant=sheet.variant,
        citation=citation(sheet.page, row.line),
    )


def _metric(wiki: Wiki, metric: str) -> tuple[str, str]:
    page = wiki.page("metric-names")
    for row in rows(page, ("alias", "metric", "qualifier")) if page else ():
        if _key(row.cells["alias"]) == _key(metric):
            return _key(row.cells["metric"]), row.cells["qualifier"]
    return _key(metric), ""


def _identify(wiki: Wiki, sheets: list[Sheet], product: str, variant: str) -> Name | None:
    page = wiki.page("product-aliases")
    reported = (
        next((row.cells for row in rows(page, ("driver says", "product", "variant")) if row.cells["driver says"] == product), None)
        if page
        else None
    )
    if reported and variant in ("", reported["variant"]):
        return Name(reported["product"], reported["variant"])
    names: dict[str, Name] = {}
    for known in _known(wiki, sheets):
        names.setdefault(_plain(known.product), Name(known.product, ""))
        names[_plain(f"{known.product} {known.variant}")] = known if known.variant else Name(known.product, "")
    for row in rows(page, ("alias", "product", "variant")) if page else ():
        names.setdefault(_plain(row.cells["alias"]), Name(row.cells["product"], row.cells["variant"]))
    whole = names.get(_plain(product))
    if whole is None:
        return (names.get(_plain(f"{product} {variant}")) if variant else None) or _family(page, sheets, product)
    if not variant:
        return whole
    exact = names.get(_plain(f"{whole.product} {variant}"))
    return exact if exact and whole.variant in ("", exact.variant) else None


def _family(page: Page | None, sheets: list[Sheet], product: str) -> Name | None:
    """A page that says why a whole family has no figures; never one that holds any."""
    words = set(re.findall(r"[a-z0-9]+", product.lower()))
    for row in rows(page, ("word", "family")) if page else ():
        silent = any(sheet.product == row.cells["family"] and not sheet.rows for sheet in sheets)
        if silent and row.cells["word"].lower() in words:
            return Name(row.cells["family"], "")
    return None


def _known(wiki: Wiki, sheets: list[Sheet]) -> list[Name]:
    """Every variant that the wiki says to be sold, in its order, and every one that it holds."""
    page = wiki.page("product-aliases")
    listed = [Name(row.cells["product"], row.cells["sold as"]) for row in rows(page, ("product", "sold as"))] if page else []
    return [*listed, *(Name(sheet.product, sheet.variant) for sheet in sheets)]


def _plain(name: str) -> str:
    """Case, separators and vendor words off; nothing else, so that one product never becomes another."""
    return "".join(word for word in re.split(r"[^a-z0-9]+", name.lower()) if word not in VENDOR_WORDS)


def _key(metric: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", metric.strip().lower()).strip("_")


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _nearest(name: str, names: list[str]) -> tuple[str, ...]:
    return tuple(difflib.get_close_matches(name, names, n=4, cutoff=0.4)) or tuple(names[:6])
