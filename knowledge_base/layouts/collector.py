"""What the readers of one wiki gather, through the same gates: figures, limits of capabilities, silences, problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from knowledge_base.layouts.terminology import Metric, Words
from knowledge_base.pages.figures import Figure, Figures, Silence
from knowledge_base.pages.terminology import Name
from tools.artifacts import digest
from tools.roofline.hardware import Citation

NARROW = ("fp16_tensor", "bf16_tensor", "fp8_tensor", "fp6_tensor", "fp4_tensor", "int8_tensor")
SPARSED = frozenset({"tf32_tensor", *NARROW})
"""Peaks that structured sparsity doubles."""
REGISTER_BYTES = 4


class Place(NamedTuple):
    """A file's path in the wiki and its lines."""

    path: str
    lines: list[str]

    def cite(self, number: int) -> Citation:
        """Cite line `number`, from 1."""
        return Citation(path=self.path, line=number, sha256=digest(self.lines[number - 1]))


class Capability(NamedTuple):
    """A line that maps a product to a compute capability."""

    product: str
    capability: str
    citation: Citation


@dataclass
class Findings:
    """Gathers; `settle` makes the Figures."""

    words: Words
    figures: list[Figure] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    limits: list[Figure] = field(default_factory=list)
    """With a compute capability in the place of the product."""
    capabilities: list[Capability] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        """Take a figure if it passes the gates; else keep why not."""
        if refused := self.refusal(figure):
            self.silent(Name(figure.product, figure.variant), figure.metric, refused, figure.citation)
        else:
            self.figures.append(_canonical(figure))

    def limit(self, figure: Figure) -> None:
        """Take a limit that holds for every product of a compute capability."""
        if not self.refusal(figure):
            self.limits.append(_canonical(figure))

    def silent(self, name: Name, metric: str, reason: str, citation: Citation) -> None:
        """Keep why there is no number."""
        self.silences.append(Silence(name.product, name.variant, metric, reason, citation))

    def refusal(self, figure: Figure) -> str:
        """Why a figure cannot be its metric's; empty when it can."""
        metric = self.of(figure.metric)
        dimension, factor = self.words.units.get(figure.unit, ("", 1.0))
        if metric.dimension == "registers" and dimension == "bytes":
            dimension, factor = "registers", factor / REGISTER_BYTES
        if figure.unit == metric.unit and not dimension:
            dimension = metric.dimension
        if dimension != metric.dimension:
            return f"{figure.value:g} {figure.unit} has not the unit of {figure.metric}"
        size = figure.value * factor
        least, most = self.words.bounds[figure.metric]
        if not least <= size <= most:
            return f"{figure.value:g} {figure.unit} is no possible {figure.metric}"
        return ""

    def of(self, metric: str) -> Metric:
        """How a metric's values must look; every name that is not in the table is a peak's."""
        return self.words.metrics.get(metric) or self.words.metrics["peak"]

    def size(self, figure: Figure) -> float:
        """A figure's value in its dimension's base unit."""
        return figure.value * self.words.units.get(figure.unit, ("", 1.0))[1]

    def settle(self) -> Figures:
        """Join limits to products, apply the gates between figures, keep one line of each number."""
        self._join()
        read = {(figure.product, figure.metric) for figure in self.figures}
        self.silences = [silence for silence in self.silences if (silence.product, silence.metric) not in read]
        self._sparse()
        self._narrow()
        groups: dict[tuple[str, str, str, str], list[Figure]] = {}
        for figure in self.figures:
            groups.setdefault((figure.product, figure.variant, figure.metric, figure.qualifier), []).append(figure)
        kept = [figure for group in groups.values() for figure in self._distinct(group)]
        return Figures(tuple(kept), tuple(dict.fromkeys(self.silences)), tuple(self.problems))

    def _distinct(self, group: list[Figure]) -> list[Figure]:
        """One figure of each value that lines about the same number give; none of two that contradict each other is
        the vendor's."""
        values: dict[float, list[Figure]] = {}
        for figure in group:
            values.setdefault(round(self.size(figure), 6), []).append(figure)
        kept = []
        for same in values.values():
            doubted = next((figure for figure in same if figure.evidence == "unofficial"), None)
            own = next(
                (figure for figure in same if figure.product.lower().replace(" ", "-") in figure.citation.path.lower()),
                same[0],
            )
            figure = doubted or own
            other = next((others[0] for size, others in values.items() if not _near(size, self.size(figure))), None)
            if other:
                caveat = joined((figure.caveat, f"{other.citation} says {other.value:g} {other.unit}"))
                figure = figure._replace(caveat=caveat, evidence="unofficial")
            kept.append(figure)
        return kept

    def _join(self) -> None:
        """Limits of a capability for its products, where a product's own page does not state the number."""
        held = {(figure.product, figure.metric, figure.qualifier) for figure in self.figures}
        variants: dict[str, set[str]] = {}
        for figure in self.figures:
            variants.setdefault(figure.product, set()).add(figure.variant)
        for mapped in dict.fromkeys(self.capabilities):
            for limit in self.limits:
                if limit.product != mapped.capability or (mapped.product, limit.metric, limit.qualifier) in held:
                    continue
                caveat = joined((f"via compute capability {mapped.capability}", limit.caveat))
                for variant in sorted(variants.get(mapped.product, {""})):
                    self.figures.append(
                        limit._replace(product=mapped.product, variant=variant, via=mapped.citation, caveat=caveat)
                    )

    def _sparse(self) -> None:
        """A sparse peak is twice the dense one of its own row; anything else is a misread or corrupt cell."""
        dense = {
            (f.product, f.variant, f.metric, f.citation.path): self.size(f)
            for f in self.figures
            if f.qualifier == "dense"
        }
        for figure in list(self.figures):
            base = dense.get((figure.product, figure.variant, figure.metric, figure.citation.path))
            if figure.qualifier != "sparse" or base is None:
                continue
            least, most = next(
                (
                    (e.lower_bound, e.most)
                    for e in self.words.exempt
                    if (e.product, f"{e.dtype}_tensor") == (figure.product, figure.metric)
                ),
                (1.9, 2.1),
            )
            if not least <= self.size(figure) / base <= most:
                self._drop(figure, f"{figure.value:g} {figure.unit} sparse is not twice the dense figure")

    def _narrow(self) -> None:
        """A matrix peak of a narrow type that does not exceed the FP32 peak is a vector figure under the wrong name."""
        fp32 = {(f.product, f.variant, f.citation.path): self.size(f) for f in self.figures if f.metric == "fp32"}
        for figure in list(self.figures):
            vector = fp32.get((figure.product, figure.variant, figure.citation.path))
            if figure.metric in NARROW and vector is not None and self.size(figure) <= vector:
                self._drop(
                    figure,
                    f"{figure.value:g} {figure.unit} is not above the FP32 figure of the same page: no matrix peak",
                )

    def _drop(self, figure: Figure, reason: str) -> None:
        self.figures.remove(figure)
        self.silent(Name(figure.product, figure.variant), figure.metric, reason, figure.citation)


def joined(parts: Iterable[str]) -> str:
    """Caveats as one text, each once."""
    return "; ".join(dict.fromkeys(part for part in parts if part))


def _near(left: float, right: float) -> bool:
    return abs(left - right) <= 1e-3 * max(abs(left), abs(right))


def _canonical(figure: Figure) -> Figure:
    """Registers are counted, whether the wiki prints 65,536, 64K or 256 KB."""
    if figure.metric != "registers_per_sm" or figure.unit == "32-bit registers":
        return figure
    factor = {"K": 1024.0, "KB": 1024 / REGISTER_BYTES, "KiB": 1024 / REGISTER_BYTES}.get(figure.unit, 1.0)
    said = f"printed as {figure.value:g} {figure.unit}" if factor != 1.0 else ""
    return figure._replace(value=figure.value * factor, unit="32-bit registers", caveat=joined((figure.caveat, said)))
