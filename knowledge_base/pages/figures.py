"""Hardware numbers as a wiki holds them, in whatever layout: what the readers of layouts make and the resolver binds
(law 2)."""

from __future__ import annotations

from typing import NamedTuple

from tools.roofline.hardware import Citation, SpecEvidence


class Figure(NamedTuple):
    """One number of one product variant, from one line."""

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


class Silence(NamedTuple):
    """A wiki says why it has no number."""

    product: str
    variant: str
    metric: str
    reason: str
    citation: Citation


class Figures(NamedTuple):
    """All numbers of one wiki."""

    figures: tuple[Figure, ...]
    silences: tuple[Silence, ...] = ()
    problems: tuple[str, ...] = ()
    """Files of the wiki that could not be read, as `path:line: text`; they cost nothing but themselves."""
