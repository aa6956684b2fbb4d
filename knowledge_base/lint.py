"""Checks of a wiki that no reader should have to make: ids, links, sources, rules, table rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge_base import sheets
from knowledge_base.artifacts import Page
from knowledge_base.wiki import Problem, Wiki

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def lint(wiki: Wiki, rules: frozenset[str]) -> tuple[Problem, ...]:
    """Everything wrong with `wiki`; `rules` are the ids that pages may name."""
    found = [problem for page in wiki.pages for problem in (*_head(page, rules), *_links(wiki, page), *sheets.problems(wiki, page))]
    return tuple(sorted((*wiki.problems, *found)))


def _head(page: Page, known: frozenset[str]) -> Iterator[Problem]:
    head = page.head
    if not head.sources:
        yield Problem(page.path, 1, "names no sources")
    if not DATE.fullmatch(head.last_checked):
        yield Problem(page.path, 1, f"last_checked must be a date such as 2026-01-31, not {head.last_checked!r}")
    if head.type in ("method", "skill") and head.axis is None:
        yield Problem(page.path, 1, f"a {head.type} needs an axis: compute, memory, latency or occupancy")
    for architecture, pattern in head.signature.items():
        try:
            re.compile(pattern)
        except re.error as error:
            yield Problem(page.path, 1, f"signature of {architecture} is not a regular expression: {error}")
    for rule in head.rules:
        if rule not in known:
            yield Problem(page.path, 1, f"names the rule {rule!r}, which does not exist")


def _links(wiki: Wiki, page: Page) -> Iterator[Problem]:
    fenced = False
    for number, line in enumerate(page.body.splitlines(), page.body_line):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        for target in LINK.findall(line) if not fenced else ():
            if "://" in target or target.startswith(("#", "mailto:")):
                continue
            if not ((wiki.root / page.path).parent / target.partition("#")[0]).exists():
                yield Problem(page.path, number, f"link to {target!r} leads nowhere")
