"""Markdown pages of external wikis: tables of `metric | value | unit` and lines of `metric: value unit`, each below a
heading that is about one product. Other tables and prose are not read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from knowledge_base.layouts.figure_collector import FigureCollector, WikiFile
from knowledge_base.layouts.metric_labels import MetricLabel, read_label
from knowledge_base.layouts.product_headings import (
    ProductHeading,
    plain_text,
    products_in,
    read_heading,
    words_of,
)
from knowledge_base.layouts.value_cells import read_cell
from knowledge_base.pages.figures import HardwareFigure
from knowledge_base.pages.names import ProductName

HIDDEN_TEXT = re.compile(r"<!--.*?-->|^\s*(```|~~~).*?^\s*\1", re.DOTALL | re.MULTILINE)
"""Comments and blocks of code."""
HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*")
UNDERLINE = re.compile(r"=+|-{3,}")
HEADING_BEHIND_ROW = re.compile(r"(\|.*\|)\s*(#{1,6}\s+\S.*)")
METRIC_LINE = re.compile(r"(?:[-*+]\s+)?(?:\*\*)?([^:|]{2,60}?)(?:\*\*)?:(?:\*\*)?\s+(\S.*)")
LONGEST_CAPTION = 100
"""Characters; a longer line above a table is a paragraph."""
LONGEST_CAVEAT = 240
DENSE_ONLY = ("fp64", "fp32", "fp16_vector", "bf16_vector")
"""How the peaks begin that structured sparsity does not double: they are dense where nothing is said."""


@dataclass
class OpenHeading:
    """A heading above the current line."""

    level: int
    about: ProductHeading
    is_measured: bool
    """Whether it speaks of measurements or of whole systems, below which no number of one GPU is read."""
    caveat: str = ""
    """What a quote below it says against the exactness of its numbers."""


class PageReader:
    """Reads the figures of one page into a collector."""

    def __init__(self, file: WikiFile, collector: FigureCollector) -> None:
        self.file, self.collector, self.vocabulary = file, collector, collector.vocabulary
        self.headings: list[OpenHeading] = []
        self.rows: list[tuple[int, list[str]]] = []
        """Number and cells of the rows of the table that is being read."""
        self.text_above = ""
        """The last line of text."""

    def read(self) -> None:
        """Read every line of the page."""
        text = HIDDEN_TEXT.sub(lambda match: "\n" * match[0].count("\n"), "\n".join(self.file.lines))
        above = ""
        for number, line in enumerate(map(str.strip, text.split("\n")), 1):
            if line.startswith("|"):
                self._take_row(number, line)
            else:
                self._close_table()
                if heading := HEADING.fullmatch(line):
                    self._open_heading(len(heading[1]), heading[2])
                elif UNDERLINE.fullmatch(line) and above and above[0] not in "|#>-*+`~=":
                    self._open_heading(1 if line[0] == "=" else 2, above)
                elif line.startswith(">"):
                    self._take_quote(line.lstrip("> "))
                elif line:
                    self._take_metric_line(number, line)
                    self.text_above = line
            above = line
        self._close_table()

    def _open_heading(self, level: int, text: str) -> None:
        words = self.vocabulary.words
        self.headings = [heading for heading in self.headings if heading.level < level]
        is_measured = not (words["measured"] | words["system"]).isdisjoint(words_of(text))
        self.headings.append(OpenHeading(level, read_heading(text, self.vocabulary), is_measured))
        self.text_above = ""

    def _take_quote(self, text: str) -> None:
        """Keep a quote that doubts the numbers of its section."""
        if self.headings and self.vocabulary.words["doubt"].intersection(words_of(text)):
            self.headings[-1].caveat = plain_text(text)[:LONGEST_CAVEAT]

    def _product(self) -> ProductName | None:
        """The product that the current line is about; None where it is about none, or about several."""
        if any(heading.is_measured for heading in self.headings):
            return None
        about = (heading.about for heading in reversed(self.headings) if heading.about.scope != "neutral")
        return next((one.name for one in about), None)

    def _take_metric_line(self, number: int, line: str) -> None:
        match, name = METRIC_LINE.fullmatch(line), self._product()
        label = read_label(match[1], self.vocabulary) if match and name else None
        if match and name and label:
            self._add(name, label, number, [match[1], match[2]], "")

    def _take_row(self, number: int, line: str) -> None:
        joined = HEADING_BEHIND_ROW.fullmatch(line)
        row = joined[1] if joined else line
        if not set(row) <= set("|-: "):
            cells = re.split(r"(?<!\\)\|", row.removeprefix("|").removesuffix("|"))
            self.rows.append((number, [cell.strip() for cell in cells]))
        if joined and (heading := HEADING.fullmatch(joined[2])):
            self._close_table()
            self._open_heading(len(heading[1]), heading[2])

    def _close_table(self) -> None:
        """Read the table that ends here, if its columns are a metric, its value and perhaps its unit."""
        rows, self.rows = self.rows, []
        name = self._product()
        header = [words_of(plain_text(cell)) for cell in rows[0][1]] if rows else []
        if name is None or len(header) < 2 or not self._is_value_table(header):
            return
        caption = self.text_above if len(self.text_above) <= LONGEST_CAPTION else ""
        if any(product != name.product for product in products_in(caption, self.vocabulary)):
            return
        unit_column = next((i for i, words in enumerate(header) if words in (["unit"], ["units"])), 0)
        for number, cells in rows[1:]:
            label = read_label(cells[0], self.vocabulary)
            if label and len(cells) > max(1, unit_column):
                self._add(name, label, number, cells, cells[unit_column] if unit_column else "")

    def _is_value_table(self, header: list[list[str]]) -> bool:
        words = self.vocabulary.words
        is_labels = all(word in words["label column"] for word in header[0])
        return is_labels and header[1] != [] and words["value column"].issuperset(header[1])

    def _add(self, name: ProductName, label: MetricLabel, number: int, cells: list[str], unit: str) -> None:
        """Add the figures of one row or line: label and value first, then notes."""
        words, citation = self.vocabulary.words, self.file.cite(number)
        text = plain_text(" ".join(cells[1:]))
        others = [product for product in products_in(" ".join(cells), self.vocabulary) if product != name.product]
        refusing = (words["measured"] | words["inherited"]).intersection(words_of(text))
        for metric in label.metrics:
            cell = read_cell(cells[1], metric, unit, self.vocabulary)
            if cell is None or others or refusing:
                reason = f"the line has no single number of this product with its unit: {text}"
                self.collector.add_gap(name, metric, reason, citation)
                continue
            caveats = [heading.caveat for heading in self.headings if heading.caveat]
            caveats += [cell.doubt] * bool(cell.doubt)
            caveats += [f"the row says: {text}"] * bool(words["doubt"].intersection(words_of(text)))
            is_plain = metric.startswith(DENSE_ONLY) and not (cell.qualifier or label.qualifier)
            figure = HardwareFigure(
                *name,
                metric,
                cell.value,
                cell.unit,
                "dense" if is_plain else self._qualifier(metric, cell.qualifier or label.qualifier),
                citation,
                evidence="unofficial" if caveats else "vendor",
                caveat="; ".join(dict.fromkeys(caveats)),
            )
            self.collector.add(figure)

    def _qualifier(self, metric: str, qualifier: str) -> str:
        """The qualifier where the metric has any."""
        return qualifier if self.vocabulary.metrics.kinds[metric].qualifiers else ""
