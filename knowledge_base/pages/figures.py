"""Hardware figures as a wiki states them, in any layout: the readers make them, `specs.lookup` answers with them."""

from __future__ import annotations

from typing import NamedTuple

from tools.roofline.hardware import Citation, SpecEvidence

SPARSE_RATIO = (1.9, 2.1)
"""Bounds of sparse over dense: structured sparsity doubles a peak, give or take the vendor's rounding."""


class HardwareFigure(NamedTuple):
    """One figure of one product variant, from one line."""

    product: str
    """As the wiki names it; compared without case, separators and vendor words."""
    variant: str
    """Empty where the wiki names none."""
    metric: str
    """Canonical, as the page `metric-names` of the bundled wiki has it."""
    value: float
    unit: str
    """As printed."""
    qualifier: str
    """dense | sparse for matrix peaks, total | per_direction for links, base | boost for clocks, opt-in, or empty."""
    citation: Citation
    via: Citation | None = None
    """The line that maps the product to its compute capability or architecture, when the number stands in a table of
    that."""
    evidence: SpecEvidence = "vendor"
    caveat: str = ""


class StatedGap(NamedTuple):
    """A line of a wiki that has no figure of a metric, with the reason."""

    product: str
    variant: str
    metric: str
    reason: str
    citation: Citation


class HardwareFigures(NamedTuple):
    """All figures of one wiki."""

    figures: tuple[HardwareFigure, ...]
    gaps: tuple[StatedGap, ...] = ()
    problems: tuple[str, ...] = ()
    """Files of the wiki that could not be read, as `path:line: text`; all others are read."""
