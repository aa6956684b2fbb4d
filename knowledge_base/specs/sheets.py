"""The hardware pages of our own layout -> figures.

A page of one product variant says so in `applies_to: [product, variant]` and holds one number a row under `metric | value | unit |
qualifier | source`, then `evidence` and `caveat` where there is something to say. What holds for a compute capability stands once, in
a table with the column `cc` before these, and belongs to every product whose own page states that capability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from knowledge_base.artifacts import Page
from knowledge_base.pages.figures import Figure, Figures, Silence
from knowledge_base.pages.terminology import NUMBER, Metrics, Name, key, metrics
from knowledge_base.pages.wiki import Problem, Row, Wiki, citation, rows
from tools.roofline.hardware import SpecEvidence

COLUMNS = ("metric", "value", "unit", "qualifier", "source")
LIMITS = ("cc", *COLUMNS)
SILENT = ("metric", "why", "obtain")
CAPABILITY = "compute_capability"
TIERS: tuple[SpecEvidence, ...] = ("vendor", "measured", "unofficial", "mention")
"""Best first."""
SPARSE_RATIO = (1.9, 2.1)
"""Bounds of sparse over dense: structured sparsity doubles a peak, give or take the vendor's rounding."""


def read(wiki: Wiki) -> Figures:
    """Every number of the hardware pages of `wiki`; rows that `problems` names are left out."""
    known = metrics(wiki)
    limits = [limit for page in _hardware(wiki) for limit in _limits(page, known)]
    figures: list[Figure] = []
    silences: list[Silence] = []
    for page in _hardware(wiki):
        name = product(page)
        if name is None:
            continue
        own = [found for row in rows(page, COLUMNS) if isinstance(found := _figure(page, row, known, name), Figure)]
        figures += [*own, *_inherited(page, name, own, limits)]
        silences += _silences(page, name)
    return Figures(tuple(figures), tuple(silences))


def problems(wiki: Wiki, page: Page) -> Iterator[Problem]:
    """What is wrong with the table rows of one hardware page."""
    if page.head.type != "hardware":
        return
    known = metrics(wiki)
    name = product(page) or Name("")
    keys = {source.partition(":")[0] for source in page.head.sources}
    table = [*rows(page, COLUMNS), *rows(page, LIMITS)]
    twice = Counter(_identity(row) for row in table)
    for row in table:
        found = _figure(page, row, known, name)
        if isinstance(found, Problem):
            yield found
            continue
        required = known.kinds[found.metric].qualifiers
        if required and found.qualifier not in required:
            yield Problem(
                page.path, row.line, f"{found.metric} needs one of the qualifiers {', '.join(sorted(required))}"
            )
        if row.cells["source"].partition(",")[0] not in keys:
            yield Problem(
                page.path, row.line, f"source {row.cells['source']!r} does not start with a key of the page's sources"
            )
        if twice[_identity(row)] > 1:
            yield Problem(page.path, row.line, f"metric {found.metric!r} stands there twice with the same qualifier")
    for row in rows(page, SILENT):
        if key(row.cells["metric"]) not in known.kinds:
            yield Problem(page.path, row.line, f"no metric is called {row.cells['metric']!r}; see metric-names")
    figures = [found for row in rows(page, COLUMNS) if isinstance(found := _figure(page, row, known, name), Figure)]
    yield from _implausible(figures, known)


def product(page: Page) -> Name | None:
    """The product variant that a hardware page is about."""
    if page.head.type != "hardware" or not page.head.applies_to:
        return None
    return Name(*(*page.head.applies_to, "")[:2])


def _hardware(wiki: Wiki) -> list[Page]:
    return [page for page in wiki.pages if page.head.type == "hardware"]


def _figure(page: Page, row: Row, known: Metrics, name: Name) -> Figure | Problem:
    cells = row.cells
    if any(column not in cells for column in COLUMNS):
        return Problem(page.path, row.line, f"has {len(cells)} cells; {' | '.join(COLUMNS)} are needed")
    metric = key(cells["metric"])
    if metric not in known.kinds:
        return Problem(page.path, row.line, f"no metric is called {cells['metric']!r}; see metric-names")
    if not NUMBER.fullmatch(cells["value"]):
        return Problem(page.path, row.line, f"value {cells['value']!r} is not one number")
    if cells["unit"] not in known.kinds[metric].units:
        allowed = ", ".join(sorted(known.kinds[metric].units))
        return Problem(page.path, row.line, f"unit {cells['unit']!r} is none of {metric}; write {allowed}")
    value = float(cells["value"].replace(",", ""))
    if not known.possible(metric, value, cells["unit"]):
        return Problem(
            page.path,
            row.line,
            f"{value:g} {cells['unit']} is no possible {metric}; correct it, or the bounds in metric-names",
        )
    tier = next((tier for tier in get_args(SpecEvidence) if tier == (cells.get("evidence") or "vendor")), None)
    if tier is None:
        return Problem(page.path, row.line, f"evidence {cells['evidence']!r} is none of {', '.join(TIERS)}")
    parts = (metric, value, cells["unit"], cells["qualifier"], citation(page, row.line))
    return Figure(name.product, name.variant, *parts, evidence=tier, caveat=cells.get("caveat", ""))


def _limits(page: Page, known: Metrics) -> list[Figure]:
    """With the capability in the place of the product."""
    return [
        found
        for row in rows(page, LIMITS)
        if isinstance(found := _figure(page, row, known, Name(row.cells["cc"])), Figure)
    ]


def _inherited(page: Page, name: Name, own: list[Figure], limits: list[Figure]) -> Iterator[Figure]:
    """The limits of the capability that the page states: each cites its own line, and by way of which line it is
    this product's."""
    stated = {row.line: row.cells["value"] for row in rows(page, COLUMNS) if key(row.cells["metric"]) == CAPABILITY}
    for figure in own:
        if figure.metric != CAPABILITY:
            continue
        for limit in limits:
            if limit.product == stated[figure.citation.line]:
                evidence = max(figure.evidence, limit.evidence, key=TIERS.index)
                caveat = "; ".join(text for text in (limit.caveat, figure.caveat) if text)
                yield limit._replace(
                    product=name.product, variant=name.variant, via=figure.citation, evidence=evidence, caveat=caveat
                )


def _silences(page: Page, name: Name) -> list[Silence]:
    return [
        Silence(*name, key(row.cells["metric"]), f"{row.cells['why']}; {row.cells['obtain']}", citation(page, row.line))
        for row in rows(page, SILENT)
        if all(column in row.cells for column in SILENT)
    ]


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(row.cells.get(column, "") for column in ("cc", "metric", "qualifier"))


def _implausible(figures: list[Figure], known: Metrics) -> Iterator[Problem]:
    low, high = SPARSE_RATIO
    dense = {
        figure.metric: known.scaled(figure.value, figure.unit)[0] for figure in figures if figure.qualifier == "dense"
    }
    for figure in figures:
        if figure.qualifier == "sparse" and figure.metric in dense:
            ratio = known.scaled(figure.value, figure.unit)[0] / dense[figure.metric]
            if not low <= ratio <= high and not figure.caveat:
                text = (
                    f"the sparse {figure.metric} is {ratio:.2f} times the dense one; say in the caveat why it is "
                    f"not twice"
                )
                yield Problem(figure.citation.path, figure.citation.line, text)
