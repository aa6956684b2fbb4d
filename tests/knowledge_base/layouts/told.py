"""Figures as lines that a test can compare."""

from knowledge_base.pages.figures import Figures


def told(figures: Figures | None) -> list[str]:
    """One line a figure: product and variant, metric, value and unit, then qualifier and evidence where they say something."""
    lines = []
    for f in figures.figures if figures else ():
        evidence = "" if f.evidence == "vendor" else f.evidence
        line = f"{f.product} {f.variant}".strip() + f"|{f.metric}|{f.value:.10g} {f.unit}|{f.qualifier}|{evidence}"
        lines.append(line.rstrip("|"))
    return sorted(lines)
