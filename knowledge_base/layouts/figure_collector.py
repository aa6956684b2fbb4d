"""The figures that the readers of one external wiki find, checked one by one and against each other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from knowledge_base.layouts.vocabulary import Vocabulary
from knowledge_base.pages.figures import SPARSE_RATIO, HardwareFigure, HardwareFigures, StatedGap
from knowledge_base.pages.names import ProductName
from tools.artifacts import digest
from tools.roofline.hardware import Citation


class WikiFile(NamedTuple):
    """A file of a wiki."""

    path: str
    """Relative to the wiki's root, with forward slashes."""
    lines: list[str]

    def cite(self, number: int) -> Citation:
        """Cite line `number`, from 1."""
        return Citation(path=self.path, line=number, sha256=digest(self.lines[number - 1]))


@dataclass
class FigureCollector:
    """Takes figures and gaps; `checked_figures` gives those that pass."""

    vocabulary: Vocabulary
    figures: list[HardwareFigure] = field(default_factory=list)
    gaps: list[StatedGap] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, figure: HardwareFigure) -> None:
        """Take a figure whose unit, size and qualifier its metric can have; of any other keep the reason."""
        metrics = self.vocabulary.metrics
        printed, required = f"{figure.value:g} {figure.unit}".strip(), metrics.kinds[figure.metric].qualifiers
        if not metrics.allows_unit(figure.metric, figure.unit):
            self._refuse(figure, f"{printed} does not have a unit of {figure.metric}")
        elif not metrics.is_possible(figure.metric, figure.value, figure.unit):
            self._refuse(figure, f"{printed} is not a possible {figure.metric}")
        elif required and figure.qualifier not in required:
            self._refuse(figure, f"{printed} says none of {', '.join(sorted(required))}")
        else:
            self.figures.append(figure)

    def add_gap(self, name: ProductName, metric: str, reason: str, citation: Citation) -> None:
        """Keep the reason why a line has no figure."""
        self.gaps.append(StatedGap(name.product, name.variant, metric, reason, citation))

    def checked_figures(self) -> HardwareFigures:
        """Everything that was taken, without the peaks that contradict another peak of the same file."""
        self._refuse_inconsistent_peaks()
        stated = {(figure.product, figure.variant, figure.metric) for figure in self.figures}
        gaps = [gap for gap in self.gaps if (gap.product, gap.variant, gap.metric) not in stated]
        return HardwareFigures(tuple(self.figures), tuple(dict.fromkeys(gaps)), tuple(self.problems))

    def _refuse_inconsistent_peaks(self) -> None:
        """Refuse a sparse peak that is not twice the dense one, and a matrix peak that does not exceed FP32's: both
        are corrupt cells or vector figures under the wrong name."""
        peaks: dict[tuple[str, ...], dict[tuple[str, str], float]] = defaultdict(dict)
        scaled = self.vocabulary.metrics.scaled
        for figure in self.figures:
            group = peaks[figure.product, figure.variant, figure.citation.path]
            group[figure.metric, figure.qualifier] = scaled(figure.value, figure.unit)[0]
        for figure in list(self.figures):
            group = peaks[figure.product, figure.variant, figure.citation.path]
            value, dense = group[figure.metric, figure.qualifier], group.get((figure.metric, "dense"))
            is_matrix = figure.metric.endswith("_tensor") and not figure.metric.startswith(("fp64", "tf32"))
            if figure.qualifier == "sparse" and dense and not SPARSE_RATIO[0] <= value / dense <= SPARSE_RATIO[1]:
                reason = f"{figure.value:g} {figure.unit} sparse is not twice the dense figure"
            elif is_matrix and value <= group.get(("fp32", "dense"), 0.0):
                reason = f"{figure.value:g} {figure.unit} does not exceed the FP32 figure of the same file"
            else:
                continue
            self.figures.remove(figure)
            self._refuse(figure, reason)

    def _refuse(self, figure: HardwareFigure, reason: str) -> None:
        self.add_gap(ProductName(figure.product, figure.variant), figure.metric, reason, figure.citation)
