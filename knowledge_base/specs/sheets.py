"""The hardware pages of our own layout -> figures.

A page of one product variant says so in `applies_to: [product, variant]`. Each row of its table has one figure, under
the columns `metric | value | unit | qualifier | source`, then `evidence` and `caveat` where they say something. A limit
of a compute capability stands once, in a table with the column `cc` before these, and belongs to every product whose
own page states that capability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from knowledge_base.artifacts import Page
from knowledge_base.pages.figures import SPARSE_RATIO, HardwareFigure, HardwareFigures, StatedGap
from knowledge_base.pages.names import NUMBER, Metrics, ProductName, comparable_metric, metrics_of
from knowledge_base.pages.wiki import TableRow, Wiki, WikiProblem, cite_line, table_rows
from tools.roofline.hardware import SpecEvidence

COLUMNS = ("metric", "value", "unit", "qualifier", "source")
LIMIT_COLUMNS = ("cc", *COLUMNS)
GAP_COLUMNS = ("metric", "why", "obtain")
CAPABILITY = "compute_capability"
EVIDENCE_TIERS: tuple[SpecEvidence, ...] = ("vendor", "measured", "unofficial", "mention")
"""Best first."""


def read_sheets(wiki: Wiki) -> HardwareFigures:
    """Every number of the hardware pages of `wiki`; rows that `sheet_problems` names are left out."""
    known = metrics_of(wiki)
    limits = [limit for page in _hardware_pages(wiki) for limit in _limits(page, known)]
    figures: list[HardwareFigure] = []
    gaps: list[StatedGap] = []
    for page in _hardware_pages(wiki):
        name = product_of(page)
        if name is None:
            continue
        own = [
            found
            for row in table_rows(page, COLUMNS)
            if isinstance(found := _figure(page, row, known, name), HardwareFigure)
        ]
        figures += [*own, *_inherited(page, name, own, limits)]
        gaps += _stated_gaps(page, name)
    return HardwareFigures(tuple(figures), tuple(gaps))


def sheet_problems(wiki: Wiki, page: Page) -> Iterator[WikiProblem]:
    """What is wrong with the table rows of one hardware page."""
    if page.head.type != "hardware":
        return
    known = metrics_of(wiki)
    name = product_of(page) or ProductName("")
    keys = {source.partition(":")[0] for source in page.head.sources}
    table = [*table_rows(page, COLUMNS), *table_rows(page, LIMIT_COLUMNS)]
    twice = Counter(_row_identity(row) for row in table)
    for row in table:
        found = _figure(page, row, known, name)
        if isinstance(found, WikiProblem):
            yield found
            continue
        required = known.kinds[found.metric].qualifiers
        if required and found.qualifier not in required:
            yield WikiProblem(
                page.path, row.line, f"{found.metric} needs one of the qualifiers {', '.join(sorted(required))}"
            )
        if row.cells["source"].partition(",")[0] not in keys:
            yield WikiProblem(
                page.path, row.line, f"source {row.cells['source']!r} does not start with a key of the page's sources"
            )
        if twice[_row_identity(row)] > 1:
            yield WikiProblem(
                page.path, row.line, f"metric {found.metric!r} stands there twice with the same qualifier"
            )
    for row in table_rows(page, GAP_COLUMNS):
        if comparable_metric(row.cells["metric"]) not in known.kinds:
            yield WikiProblem(page.path, row.line, f"no metric is called {row.cells['metric']!r}; see metric-names")
    figures = [
        found
        for row in table_rows(page, COLUMNS)
        if isinstance(found := _figure(page, row, known, name), HardwareFigure)
    ]
    yield from _implausible_peaks(figures, known)


def product_of(page: Page) -> ProductName | None:
    """The product variant that a hardware page is about."""
    if page.head.type != "hardware" or not page.head.applies_to:
        return None
    return ProductName(*(*page.head.applies_to, "")[:2])


def _hardware_pages(wiki: Wiki) -> list[Page]:
    return [page for page in wiki.pages if page.head.type == "hardware"]


def _figure(page: Page, row: TableRow, known: Metrics, name: ProductName) -> HardwareFigure | WikiProblem:
    cells = row.cells
    if any(column not in cells for column in COLUMNS):
        return WikiProblem(page.path, row.line, f"has {len(cells)} cells; {' | '.join(COLUMNS)} are needed")
    metric = comparable_metric(cells["metric"])
    if metric not in known.kinds:
        return WikiProblem(page.path, row.line, f"no metric is called {cells['metric']!r}; see metric-names")
    if not NUMBER.fullmatch(cells["value"]):
        return WikiProblem(page.path, row.line, f"value {cells['value']!r} is not one number")
    if cells["unit"] not in known.kinds[metric].units:
        allowed = ", ".join(sorted(known.kinds[metric].units))
        return WikiProblem(page.path, row.line, f"unit {cells['unit']!r} is none of {metric}; write {allowed}")
    value = float(cells["value"].replace(",", ""))
    if not known.is_possible(metric, value, cells["unit"]):
        return WikiProblem(
            page.path,
            row.line,
            f"{value:g} {cells['unit']} is no possible {metric}; correct it, or the bounds in metric-names",
        )
    tier = next((tier for tier in get_args(SpecEvidence) if tier == (cells.get("evidence") or "vendor")), None)
    if tier is None:
        return WikiProblem(
            page.path, row.line, f"evidence {cells['evidence']!r} is none of {', '.join(EVIDENCE_TIERS)}"
        )
    parts = (metric, value, cells["unit"], cells["qualifier"], cite_line(page, row.line))
    return HardwareFigure(name.product, name.variant, *parts, evidence=tier, caveat=cells.get("caveat", ""))


def _limits(page: Page, known: Metrics) -> list[HardwareFigure]:
    """With the capability in the place of the product."""
    return [
        found
        for row in table_rows(page, LIMIT_COLUMNS)
        if isinstance(found := _figure(page, row, known, ProductName(row.cells["cc"])), HardwareFigure)
    ]


def _inherited(
    page: Page, name: ProductName, own: list[HardwareFigure], limits: list[HardwareFigure]
) -> Iterator[HardwareFigure]:
    """The limits of the capability that the page states: each cites its own line, and by way of which line it is
    this product's."""
    stated = {
        row.line: row.cells["value"]
        for row in table_rows(page, COLUMNS)
        if comparable_metric(row.cells["metric"]) == CAPABILITY
    }
    for figure in own:
        if figure.metric != CAPABILITY:
            continue
        for limit in limits:
            if limit.product == stated[figure.citation.line]:
                evidence = max(figure.evidence, limit.evidence, key=EVIDENCE_TIERS.index)
                caveat = "; ".join(text for text in (limit.caveat, figure.caveat) if text)
                yield limit._replace(
                    product=name.product, variant=name.variant, via=figure.citation, evidence=evidence, caveat=caveat
                )


def _stated_gaps(page: Page, name: ProductName) -> list[StatedGap]:
    return [
        StatedGap(
            *name,
            comparable_metric(row.cells["metric"]),
            f"{row.cells['why']}; {row.cells['obtain']}",
            cite_line(page, row.line),
        )
        for row in table_rows(page, GAP_COLUMNS)
        if all(column in row.cells for column in GAP_COLUMNS)
    ]


def _row_identity(row: TableRow) -> tuple[str, ...]:
    return tuple(row.cells.get(column, "") for column in ("cc", "metric", "qualifier"))


def _implausible_peaks(figures: list[HardwareFigure], known: Metrics) -> Iterator[WikiProblem]:
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
                yield WikiProblem(figure.citation.path, figure.citation.line, text)
