"""References in an analysis, replaced by the figures of the records that they name."""

from __future__ import annotations

import re

from agents.artifacts import Analysis
from agents.checks.cited_sources import REFERENCE_PATTERN
from graph.artifacts import Inspection
from tools.artifacts import Finding, Quantity, Record
from tools.cli.formatting import format_percent, format_seconds

Figures = dict[str, dict[str, Quantity]]
"""Record -> metric -> value."""


def analysis_text(record: Record, *, short: bool = False) -> str:
    """Return the analysis in an inspection's record, with each reference replaced by its figure and record, and the
    figures that it uses; `short`: with the names of findings alone, for a reader who has their texts."""
    inspection = Inspection.model_validate(record.payload)
    if short:
        named = re.sub(r"\[rule:([\w.-]+)\]", r"\1", inspection.analysis.text)
        inspection = inspection.model_copy(update={"analysis": inspection.analysis.model_copy(update={"text": named})})
    return text_with_figures(inspection.analysis, inspection.findings, inspection.seen.counters, record.id)


def text_with_figures(analysis: Analysis, findings: tuple[Finding, ...], figures: Figures, inspection: str) -> str:
    """The text of an analysis with its references replaced, and the figures that it rests on with their citations."""
    text = replace_references(analysis.text, findings, figures, inspection)
    return f"{text} It rests on {'; '.join(map(str, analysis.figures))}." if analysis.figures else text


def replace_references(text: str, findings: tuple[Finding, ...], figures: Figures, inspection: str) -> str:
    """`text` with its references replaced; a reference to a figure that does not exist becomes N/A."""
    by_rule = {finding.rule: finding for finding in findings}

    def replacement(match: re.Match[str]) -> str:
        finding = by_rule.get(match["rule"] or "")
        if finding is not None:
            sources = ", ".join(f"`{source}`" for source in finding.evidence or (inspection,))
            return f"**{finding.rule}** ({finding.text.rstrip('.')}; record {sources})"
        if match["record"] and not match["metric"]:
            return f"record `{match['record']}`"
        quantity = figures.get(match["record"] or "", {}).get(match["metric"] or "")
        if quantity is None:
            return f"N/A ({match[0][1:-1]})"
        return f"{_quantity_text(quantity)} ({match['metric']}, record `{match['record']}`)"

    return REFERENCE_PATTERN.sub(replacement, text)


def _quantity_text(quantity: Quantity) -> str:
    if quantity.unit == "s":
        return format_seconds(quantity.value)
    return (
        format_percent(quantity.value)
        if quantity.unit == "fraction"
        else f"{quantity.value:.4g} {quantity.unit}".rstrip()
    )
