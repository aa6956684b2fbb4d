"""Checks of a wiki that no reader should have to make: ids, links, sources, rules, table rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from knowledge_base.artifacts import Page
from knowledge_base.pages.figures import HardwareFigure
from knowledge_base.pages.names import Metrics, comparable_name, metrics_of
from knowledge_base.pages.wiki import HEADING, Wiki, WikiProblem, lines_of, unfenced
from knowledge_base.specs import lookup, sheets

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`]*`")
CONFLICTS_PAGE = "source-conflicts"
"""The page that tells of documents which differ."""
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def lint_wiki(wiki: Wiki, rules: frozenset[str]) -> tuple[WikiProblem, ...]:
    """Everything wrong with `wiki`; `rules` are the ids that pages may name."""
    found = [
        problem
        for page in wiki.pages
        for problem in (
            *_front_matter_problems(page, rules),
            *_broken_links(wiki, page),
            *sheets.sheet_problems(wiki, page),
        )
    ]
    figures = lookup.figures_of(wiki).figures
    return tuple(
        sorted((*wiki.problems, *found, *_duplicate_products(wiki.pages), *contradictions(figures, metrics_of(wiki))))
    )


def contradictions(figures: Iterable[HardwareFigure], known: Metrics) -> Iterator[WikiProblem]:
    """Figures of different pages that differ in value though product, variant, metric and qualifier are the same; and
    those of a product that repeat a limit of its capability, which stands once.

    Within a page that is a row that stands there twice. A figure whose caveat names source-conflicts says itself that
    another is known, and a measurement or somebody else's figure does not contradict the vendor's.
    """
    first: dict[tuple[str, ...], HardwareFigure] = {}
    for figure in figures:
        if CONFLICTS_PAGE in figure.caveat:
            continue
        about = (figure.product, figure.variant, figure.metric, figure.qualifier, figure.evidence)
        other = first.setdefault(about, figure)
        here, there = (other, figure) if figure.via else (figure, other)
        same = known.scaled(other.value, other.unit) == known.scaled(figure.value, figure.unit)
        if here.via is None and here.citation.path != there.citation.path and (there.via or not same):
            text = f"{here.metric} of {f'{here.product} {here.variant}'.strip()} is {here.value:g} {here.unit}, which"
            said = f"{'repeats' if same else 'contradicts'} {there.value:g} {there.unit} <- {there.citation}"
            remedy = f"correct one, or tell why in {CONFLICTS_PAGE} and name it in the caveat"
            yield WikiProblem(
                here.citation.path, here.citation.line, f"{text} {said}; {'leave it out' if same else remedy}"
            )


def _duplicate_products(pages: Iterable[Page]) -> Iterator[WikiProblem]:
    """Hardware pages that are about the same product and variant; those of limits are about none, and each driver is
    measured anew."""
    first: dict[tuple[str, ...], Page] = {}
    for page in pages:
        about = tuple(comparable_name(name) for name in page.head.applies_to)
        if (
            page.head.type != "hardware"
            or not about
            or any(source.startswith("measured:") for source in page.head.sources)
        ):
            continue
        other = first.setdefault(about, page)
        if other is not page:
            said = ", ".join(page.head.applies_to)
            yield WikiProblem(
                page.path,
                1,
                f"applies_to [{said}] is that of {other.path}, too; merge them, or name what tells them apart",
            )


def _front_matter_problems(page: Page, known: frozenset[str]) -> Iterator[WikiProblem]:
    head = page.head
    stem = PurePosixPath(page.path).stem
    if head.id != stem and stem != "README":
        yield WikiProblem(page.path, 1, f"id {head.id!r} is not the file's name, {stem!r}; rename one of them")
    if not head.sources:
        yield WikiProblem(page.path, 1, "names no sources")
    if not DATE.fullmatch(head.last_checked):
        yield WikiProblem(page.path, 1, f"last_checked must be a date such as 2026-01-31, not {head.last_checked!r}")
    if head.type in ("method", "skill") and head.axis is None:
        yield WikiProblem(page.path, 1, f"a {head.type} needs an axis: compute, memory, latency or occupancy")
    for architecture, pattern in head.signature.items():
        try:
            re.compile(pattern)
        except re.error as error:
            yield WikiProblem(page.path, 1, f"signature of {architecture} is not a regular expression: {error}")
    for rule in head.rules:
        if rule not in known:
            yield WikiProblem(page.path, 1, f"names the rule {rule!r}, which does not exist")


def _broken_links(wiki: Wiki, page: Page) -> Iterator[WikiProblem]:
    for index, line in unfenced(lines_of(page.body)):
        number = page.body_line + index
        for target in LINK.findall(CODE.sub("", line)):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = (wiki.root / page.path).parent / name if name else wiki.root / page.path
            if not file.exists():
                yield WikiProblem(page.path, number, f"link to {target!r} leads nowhere")
            elif anchor and file.suffix == ".md" and anchor not in _anchors(file):
                yield WikiProblem(page.path, number, f"link to {target!r}: no heading there has the anchor {anchor!r}")


def _anchors(file: Path) -> frozenset[str]:
    """The anchors of a Markdown file, as the usual renderers make them of its headings."""
    found: list[str] = []
    for _, line in unfenced(lines_of(file.read_text(encoding="utf-8", errors="replace"))):
        match = HEADING.match(line)
        if match:
            name = re.sub(r"[^\w\- ]", "", match[2].lower()).replace(" ", "-")
            again = sum(one == name or re.fullmatch(rf"{re.escape(name)}-\d+", one) is not None for one in found)
            found.append(f"{name}-{again}" if again else name)
    return frozenset(found)
