"""Tables of hardware numbers: rows of one product, products as columns or rows, limits as columns of compute
capabilities."""

from __future__ import annotations

import re
from typing import Literal

from knowledge_base.layouts import cells, labels, product_names
from knowledge_base.layouts.cells import Reading, Refusal
from knowledge_base.layouts.collector import SPARSED, Capability, Findings, Place, joined
from knowledge_base.layouts.labels import Label
from knowledge_base.layouts.markdown import Table
from knowledge_base.layouts.terminology import key
from knowledge_base.pages.figures import Figure
from knowledge_base.pages.terminology import Name
from tools.roofline.hardware import Citation, SpecEvidence

Row = tuple[int, tuple[str, ...]]
Convention = Literal["dense", "marked", "open", ""]
"""A table's peaks are dense; dense but for those with a footnote's sign; not told apart though sparsity is spoken
of; not said."""
MARK = re.compile(r"\*(?!\*)|<sup>|[†‡]|\[\^|\\\*")
"""A footnote's sign in a cell or at the footnote."""
CAPTION = 100
"""Characters; a longer line above a table is a paragraph."""
CAPABILITY = re.compile(r"(?:CC|SM|Compute Capability)?\s*(\d{1,2}\.\d)", re.IGNORECASE)


class Reader:
    """Reads the tables of one file into `findings`."""

    def __init__(self, findings: Findings, place: Place, curated: bool = True) -> None:
        """`curated`: the page is known to hold specifications, so that its tables need no heading that speaks of
        hardware alone."""
        self.findings, self.words = findings, findings.words
        self.place, self.curated = place, curated

    def read(self, table: Table) -> None:
        """Take what a table says; a table of unknown shape says nothing."""
        header = tuple(product_names.plain(cell) for cell in table.header)
        capabilities = {i: match[1] for i, cell in enumerate(header) if i and (match := CAPABILITY.fullmatch(cell))}
        products = {i: name for i, cell in enumerate(header) if i and (name := product_names.about(cell, self.words))}
        if table.section.refused:
            return
        said = set(product_names.words_of(" ".join(header)))
        workload = self.words.kinds["workload"]
        if said & (self.words.kinds["measured"] | (workload - self.words.kinds["product column"])):
            return
        if capabilities and len(capabilities) >= len(header) - 2:
            if re.search(r"\bcc\b|\bsm\b|capabilit", " ".join(header).lower()):
                self._limits(table, capabilities)
        elif self._is_map(header):
            self._map(table, header)
        elif not self.curated and not table.section.hardware:
            return
        elif products:
            for number, row in table.rows:
                for column, name in products.items():
                    self._cell(table, (number, row), name, row[0], column, "", "")
        elif key(header[0]) in self.words.kinds["product column"]:
            self._by_row(table, header)
        elif self._is_parameters(header):
            self._parameters(table, header)

    def _is_map(self, header: tuple[str, ...]) -> bool:
        first = key(header[0]) in ("cc", "compute capability", "capability")
        return first and any(set(product_names.words_of(cell)) & self.words.kinds["map column"] for cell in header[1:])

    def _is_parameters(self, header: tuple[str, ...]) -> bool:
        said = product_names.words_of(header[0])
        return len(header) > 1 and all(word in self.words.kinds["first"] for word in said)

    def _map(self, table: Table, header: tuple[str, ...]) -> None:
        column = next(
            i
            for i, cell in enumerate(header)
            if i and set(product_names.words_of(cell)) & self.words.kinds["map column"]
        )
        for number, row in table.rows:
            capability = CAPABILITY.fullmatch(product_names.plain(row[0])) if len(row) > column else None
            if capability:
                for name in product_names.several(row[column], self.words):
                    self.findings.capabilities.append(Capability(name.product, capability[1], self.place.cite(number)))

    def _limits(self, table: Table, capabilities: dict[int, str]) -> None:
        for number, row in table.rows:
            label = labels.read(row[0], self.words) if row else None
            if label is None or label.silent:
                continue
            for column, capability in capabilities.items():
                readings = cells.read(row[column], self.words) if column < len(row) else ()
                if isinstance(readings, tuple) and len(readings) == 1 and not label.metrics[0].endswith("_tensor"):
                    place, caveat = self.place.cite(number), self._footnote(table, row[column])
                    for figure in self.figures(Name(capability), label, readings[0], place, caveat):
                        self.findings.limit(figure)

    def _by_row(self, table: Table, header: tuple[str, ...]) -> None:
        if any(word in ("precision", "dtype") for cell in header for word in product_names.words_of(cell)):
            return
        # `GPU | Memory | Capacity | Bandwidth`: beside a column of memories these are the memory's.
        of_memory = any(key(cell) in ("memory", "memory type", "hbm") for cell in header)
        bare = {"capacity": "memory capacity", "bandwidth": "memory bandwidth"} if of_memory else {}
        for number, row in table.rows:
            # A second column of names (`Architecture | GPU | ...`) is the better one.
            named = [name for cell in row[:2] if (name := product_names.about(cell, self.words))]
            if len(named) == 1 and not set(product_names.words_of(" ".join(row))) & self.words.kinds["measured"]:
                for column in range(1, min(len(header), len(row))):
                    self._cell(
                        table, (number, row), named[0], bare.get(key(header[column]), header[column]), column, "", ""
                    )

    def _parameters(self, table: Table, header: tuple[str, ...]) -> None:
        section = table.section
        name = section.name
        captioned = product_names.mentioned(table.above, self.words) if len(table.above) <= CAPTION else []
        if captioned and (name is None or captioned != [name.product]):
            # A caption such as `**H200**` names another product than the heading does.
            name = product_names.about(table.above.rstrip(":"), self.words)
            if name is None:
                return
        if name is None and not section.capability:
            return
        value, sparse = self._columns(header)
        if not value:
            return
        unit = _header_unit(header[value])
        for number, row in table.rows:
            if len(row) <= value:
                continue
            notes = " ".join(cell for i, cell in enumerate(row) if i not in (0, value, sparse))
            if name:
                self._cell(table, (number, row), name, row[0], value, unit, notes)
                if sparse and sparse < len(row):
                    self._cell(table, (number, row), name, row[0], sparse, unit, notes, "sparse")
            else:
                self._limit_row(table, (number, row), value)

    def _columns(self, header: tuple[str, ...]) -> tuple[int, int]:
        """Index of the column of values and of the one of sparse peaks; 0 where there is none."""
        values, sparse = [], 0
        for i, cell in enumerate(header[1:], 1):
            said = [word for part in product_names.words_of(cell) for word in part.split("-")]
            if set(said) & self.words.kinds["sparse"]:
                sparse = sparse or i
            elif said and all(word in self.words.kinds["value"] for word in said):
                values.append(i)
        return (values[0] if len(values) == 1 else 0), sparse

    def _limit_row(self, table: Table, row: Row, column: int) -> None:
        """A row of an architecture's section: taken only for what every product of a compute capability shares."""
        label = labels.read(row[1][0], self.words)
        if label is None or label.silent or label.metrics[0] not in SHARED:
            return
        readings = cells.read(row[1][column], self.words)
        if isinstance(readings, tuple) and len(readings) == 1:
            name = Name(table.section.capability)
            for figure in self.figures(name, label, readings[0], self.place.cite(row[0]), table.section.caveat):
                self.findings.limit(figure)

    def _cell(
        self, table: Table, row: Row, name: Name, text: str, column: int, unit: str, notes: str, qualifier: str = ""
    ) -> None:
        """One cell of one product."""
        number, columns = row
        label = labels.read(text, self.words)
        if label is None or column >= len(columns):
            return
        if label.metrics == ("compute_capability",):
            if capability := re.match(r"(\d{1,2}\.\d)\b", product_names.plain(columns[column])):
                self.findings.capabilities.append(Capability(name.product, capability[1], self.place.cite(number)))
            return
        citation, cell = self.place.cite(number), columns[column]
        readings = self._readings(name, text, cell, notes)
        convention = "dense" if qualifier else self._convention(table, label)
        if isinstance(readings, tuple) and convention and _plain_peak(label, readings):
            readings = _resolved(readings, convention, MARK.search(cell.replace("**", "")) is not None)
        if isinstance(readings, Refusal):
            for metric in label.metrics:
                self.findings.silent(name, metric, readings.reason, citation)
            return
        doubt = self._doubt(notes)
        caveat = joined((table.section.caveat, self._footnote(table, cell), doubt))
        apart = convention != "" or any(reading.qualifier == "sparse" for reading in readings)
        for reading in readings:
            reading = reading._replace(
                unit=reading.unit or label.unit or unit, qualifier=qualifier or reading.qualifier
            )
            for figure in self.figures(
                name, label, reading, citation, caveat, table.section.doubted or bool(doubt), apart
            ):
                self.findings.add(figure)
            if label.silent and not reading.kind:
                self.findings.silent(name, label.metrics[0], label.silent, citation)

    def _readings(self, name: Name, text: str, cell: str, notes: str) -> tuple[Reading, ...] | Refusal:
        """What a cell states, unless the rest of its row takes it back."""
        readings = cells.read(cell, self.words)
        if isinstance(readings, Refusal):
            return readings
        said = set(product_names.words_of(notes))
        if readings and said & self.words.kinds["same"]:
            return Refusal(f"inherited by prose: {product_names.plain(notes)}")
        if said & self.words.kinds["observed"]:
            return Refusal(f"the row's note speaks of a measurement: {product_names.plain(notes)}")
        others = [
            product for product in product_names.mentioned(f"{text} {cell}", self.words) if product != name.product
        ]
        if others and readings:
            return Refusal(f"speaks of {', '.join(others)}: {product_names.plain(cell)}")
        return readings

    def _convention(self, table: Table, label: Label) -> Convention:
        """What a peak of a table is that says neither dense nor sparse itself."""
        header, around = " ".join(table.header).lower(), f"{table.above} {table.below}".lower()
        if "spars" in header or re.search(r"\bdense\b", f"{header} {around} {table.section.caveat.lower()}"):
            return "dense"
        said = any("spars" in text.lower() for _, row in table.rows for text in row)
        others = (labels.read(row[0], self.words) for _, row in table.rows if row and "spars" in row[0].lower())
        if any(other and other.qualifier == "sparse" and set(other.metrics) & set(label.metrics) for other in others):
            return "dense"
        footnoted = MARK.match(table.below) is not None and "spars" in table.below.lower()
        if said:
            return "dense" if footnoted else ""
        return "marked" if footnoted else "open" if "spars" in around else ""

    def figures(
        self,
        name: Name,
        label: Label,
        reading: Reading,
        citation: Citation,
        caveat: str,
        doubted: bool = False,
        apart: bool = False,
    ) -> list[Figure]:
        """The figures that a reading gives the metrics of a label; `apart`: a peak that says neither is known to be
        dense."""
        found = []
        for asked in label.metrics:
            metric, dtype = asked, asked.split("_")[0]
            is_peak = asked not in self.words.metrics
            if is_peak and reading.kind:
                metric = labels.peak(dtype, reading.kind, self.words)
            elif label.silent:
                continue
            metric = SCOPED.get((metric, reading.scope), metric)
            known = self.findings.of(metric)
            if (
                not metric
                or (known.scope and reading.scope not in ("", known.scope))
                or (reading.scope and not known.scope)
            ):
                continue
            said = reading.qualifier or label.qualifier
            unsaid = ""
            if is_peak:
                unsaid = UNSAID_PEAK if metric in SPARSED and said not in ("dense", "sparse") and not apart else ""
                said = said if said in ("dense", "sparse") else "dense"
            elif metric == "nvlink_bandwidth":
                unsaid = "" if said in ("total", "per_direction") else UNSAID_LINK
            else:
                said = ""
            evidence: SpecEvidence = "unofficial" if reading.doubt or doubted or unsaid else "vendor"
            told = joined((caveat, f"the wiki marks it {reading.doubt}" if reading.doubt else "", unsaid))
            unit = _unit(reading.unit, dtype) or known.unit
            found.append(Figure(*name, metric, reading.value, unit, said, citation, evidence=evidence, caveat=told))
        unique = {(figure.metric, figure.qualifier): figure for figure in found}
        return list(unique.values())

    def _doubt(self, notes: str) -> str:
        said = [word for word in product_names.words_of(notes) if word in self.words.kinds["doubt"]]
        return f"the row says: {product_names.plain(notes)}" if said else ""

    def _footnote(self, table: Table, cell: str) -> str:
        if not MARK.search(cell.replace("**", "")):
            return ""
        return f"footnote: {product_names.plain(table.below)[:240]}" if table.below else "marked with a footnote"


def _plain_peak(label: Label, readings: tuple[Reading, ...]) -> bool:
    """Whether a cell's peaks of matrix units say neither dense nor sparse."""
    matrix = any(metric.endswith("_tensor") for metric in label.metrics)
    return matrix and not label.qualifier and not any(reading.qualifier for reading in readings)


def _resolved(readings: tuple[Reading, ...], convention: Convention, marked: bool) -> tuple[Reading, ...] | Refusal:
    """Peaks by their table's convention: `1,979*` with `* with sparsity` below is a sparse one."""
    if convention == "open":
        return Refusal("sparsity is spoken of around the table, but not for which numbers")
    if convention == "marked" and marked:
        return tuple(reading._replace(qualifier="sparse") for reading in readings)
    return readings


UNSAID_PEAK = "dense or sparse is not said there"
UNSAID_LINK = "total or per direction is not said there"
SCOPED = {("max_shared_memory_per_sm", "block"): "max_shared_memory_per_block"}
SHARED = frozenset(
    {
        "warp_size",
        "max_threads_per_sm",
        "max_warps_per_sm",
        "max_blocks_per_sm",
        "max_registers_per_thread",
        "registers_per_sm",
        "max_shared_memory_per_block",
    }
)


def _unit(unit: str, dtype: str) -> str:
    """A header's `TFLOPS / TOPS` means the first for floating point and the second for integers."""
    first, _, second = unit.partition(" / ")
    return second if second and dtype.startswith("int") else first


def _header_unit(text: str) -> str:
    """The unit that a header names for all its cells; `TFLOPS / TOPS` stays a pair, floating point before integer."""
    units = re.findall(r"\b(?:PFLOPS|TFLOPS|TOPS|POPS|TB/s|GB/s|GiB|GB|MB|KB|MHz|GHz)\b", text)
    return " / ".join(units) if len(units) < 3 else ""
