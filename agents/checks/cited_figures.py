"""The figures on which a plan or an analysis rests, resolved exactly against what its writer was given (law 2).

A figure of the hardware must equal a Spec of the brief, a counter must equal the value of its record as the prompt
shows it, and any other figure must stand in the cited passage, page or finding. Prose is words and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.artifacts import AnalystBrief, Figure, PlannerBrief
from agents.checks.cited_sources import WIKI_LINE, given_texts
from tools.artifacts import Quantity

NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?")


def quantity_text(quantity: Quantity) -> str:
    """A counter as prompts show it: four digits and its unit, times in microseconds."""
    value, unit = (1e6 * quantity.value, "us") if quantity.unit == "s" else (quantity.value, quantity.unit)
    return f"{value:.4g} {unit}".rstrip()


def figure_faults(figures: tuple[Figure, ...], brief: PlannerBrief | AnalystBrief) -> tuple[str, ...]:
    """One sentence for each figure that does not resolve."""
    return tuple(fault for figure in figures if (fault := _fault(figure, brief)))


def resolved_figures(figures: tuple[Figure, ...], brief: PlannerBrief | AnalystBrief) -> tuple[Figure, ...]:
    """The figures that resolve, in their order."""
    return tuple(figure for figure in figures if not _fault(figure, brief))


def _fault(figure: Figure, brief: PlannerBrief | AnalystBrief) -> str:
    """Why a figure does not resolve; empty where it does."""
    start, citation = f"figures: {figure.metric} {figure.value:g} {figure.unit}".rstrip(), figure.citation.strip()
    specs = [spec for spec in brief.specs if str(spec.citation) == citation]
    if any((spec.metric, spec.value, spec.unit) == (figure.metric, figure.value, figure.unit) for spec in specs):
        return ""
    if specs:
        return f"{start} is not what {citation} gives, {'; '.join(map(str, specs))}; copy metric, value and unit"
    counters = brief.seen.counters.get(citation, {})
    if figure.metric in counters:
        shown = quantity_text(counters[figure.metric])
        same = quantity_text(Quantity(value=figure.value, unit=figure.unit)) == shown
        return "" if same else f"{start} is not what record {citation} gives, {shown}; copy value and unit"
    texts = list(_cited_texts(citation, brief))
    if any(float(number.replace(",", "")) == figure.value for text in texts for number in NUMBER.findall(text)):
        return ""
    if texts or counters:
        return f"{start} does not stand in {citation}; cite where it stands, or leave it out"
    return f"{start}: {citation!r} is no spec, record or line that you were given; cite one that is, or leave it out"


def _cited_texts(citation: str, brief: PlannerBrief | AnalystBrief) -> Iterator[str]:
    """The texts of a brief to which a citation leads."""
    named = WIKI_LINE.fullmatch(citation)
    if named is None:
        yield from (finding.text for finding in brief.findings if citation in (finding.rule, *finding.evidence))
        return
    for text in given_texts(brief):
        if text.path == named[1] and text.first_line <= int(named[2]) <= text.last_line:
            yield text.text
