"""Resolves the figures of a plan or an analysis exactly against the brief that its writer received.

A hardware figure must equal a Spec of the brief, a counter must equal the value of its record as the prompt shows it,
and any other figure must occur in the cited passage, page or finding. Prose is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.artifacts import AnalystBrief, Figure, KernelObservations, PlannerBrief
from agents.checks.cited_sources import WIKI_LINE_PATTERN, given_texts
from tools.artifacts import Quantity

NUMBER_PATTERN = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?")


def quantity_text(quantity: Quantity) -> str:
    """A counter as prompts show it: four significant digits and the unit, times in microseconds."""
    value, unit = (1e6 * quantity.value, "us") if quantity.unit == "s" else (quantity.value, quantity.unit)
    return f"{value:.4g} {unit}".rstrip()


def times_lines(seen: KernelObservations) -> tuple[str, ...]:
    """The times of each workload as prompts show them, and what a gain must exceed."""
    lines = (
        f"{name}: " + "; ".join(f"{what} {1e6 * s:.4g} us" for what, s in times.items() if s is not None)
        for name, times in seen.times.items()
    )
    return (*lines, *([seen.thresholds] if seen.thresholds else []))


def figure_faults(figures: tuple[Figure, ...], brief: PlannerBrief | AnalystBrief) -> tuple[str, ...]:
    """Return one sentence for each figure that does not resolve."""
    return tuple(fault for figure in figures if (fault := _reason_if_unresolved(figure, brief)))


def resolved_figures(figures: tuple[Figure, ...], brief: PlannerBrief | AnalystBrief) -> tuple[Figure, ...]:
    """Return the figures that resolve, in their original order."""
    return tuple(figure for figure in figures if not _reason_if_unresolved(figure, brief))


def _reason_if_unresolved(figure: Figure, brief: PlannerBrief | AnalystBrief) -> str:
    """Return why a figure does not resolve, in one sentence; empty when it resolves."""
    start, citation = f"figures: {figure.metric} {figure.value:g} {figure.unit}".rstrip(), figure.citation.strip()
    specs = [spec for spec in brief.specs if str(spec.citation) == citation]
    if any((spec.metric, spec.value, spec.unit) == (figure.metric, figure.value, figure.unit) for spec in specs):
        return ""
    if specs:
        return f"{start} differs from {citation}, which gives {'; '.join(map(str, specs))}; copy metric, value and unit"
    counters = brief.observations.counters.get(citation, {})
    if figure.metric in counters:
        shown = quantity_text(counters[figure.metric])
        same = quantity_text(Quantity(value=figure.value, unit=figure.unit)) == shown
        return "" if same else f"{start} differs from record {citation}, which gives {shown}; copy value and unit"
    texts = list(_cited_texts(citation, brief))
    if any(float(number.replace(",", "")) == figure.value for text in texts for number in NUMBER_PATTERN.findall(text)):
        return ""
    if texts or counters:
        return f"{start} does not occur in {citation}; cite a source that holds it, or leave it out"
    return (
        f"{start}: {citation!r} is not among the specs, records and lines that you were given; cite one of those, "
        f"or leave it out"
    )


def _cited_texts(citation: str, brief: PlannerBrief | AnalystBrief) -> Iterator[str]:
    """Yield the texts of a brief that a citation refers to."""
    named = WIKI_LINE_PATTERN.fullmatch(citation)
    if citation in brief.records:
        # The prompt shows times and limits of the device once, beside all records of the kernel.
        yield from times_lines(brief.observations)
        yield from brief.machine
    if named is None:
        yield from (finding.text for finding in brief.findings if citation in (finding.rule, *finding.evidence))
        return
    for text in given_texts(brief):
        if text.path == named[1] and text.first_line <= int(named[2]) <= text.last_line:
            yield text.text
