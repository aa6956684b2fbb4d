"""Hardware records as JSON: one product a file, one scalar a line. An index made of the records is never read."""

from __future__ import annotations

import json
import re
from typing import Any

from knowledge_base.layouts.figure_collector import FigureCollector, WikiFile
from knowledge_base.layouts.metric_labels import peak_metric
from knowledge_base.layouts.product_headings import single_product
from knowledge_base.layouts.value_cells import COUNT_UNITS
from knowledge_base.pages.figures import HardwareFigure
from knowledge_base.pages.names import ProductName
from tools.roofline.hardware import SpecEvidence

UNIT_KINDS = {"cuda-core": "vector", "vector": "vector", "tensor-core": "matrix", "matrix-core": "matrix"}
UNIT_BY_FIELD_PART = {"gb": "GB", "mb": "MB", "kb": "KB", "tb_s": "TB/s"}
RIDGE_POINT = re.compile(r"\d\s*/\s*\d[\d.]*\s*[≈=]|~")


def read_record(text: str, file: WikiFile, collector: FigureCollector) -> None:
    """Read one record `{"identity": ..., "facts": ...}` into the collector; ValueError when it is not JSON."""
    record = json.loads(text)
    identity = record.get("identity") if isinstance(record, dict) else None
    facts = record.get("facts") if isinstance(record, dict) else None
    if not isinstance(identity, dict) or not isinstance(facts, dict) or record.get("type") != "spec-sheet":
        return
    # An architecture (sm120) filed as a product stands for several products with different numbers.
    name = single_product(str(identity.get("product") or ""), collector.vocabulary)
    if name is not None:
        _RecordReader(name, file, collector, str(identity.get("vendor", ""))).read(facts)


class _RecordReader:
    """Reads the facts of one record into the collector."""

    def __init__(self, name: ProductName, file: WikiFile, collector: FigureCollector, vendor: str) -> None:
        self.name, self.file, self.collector, self.vendor = name, file, collector, vendor
        self.vocabulary = collector.vocabulary

    def read(self, facts: dict[str, Any]) -> None:
        line, peaks = self._line_of("peak_compute", 0), facts.get("peak_compute")
        for row in peaks if isinstance(peaks, list) else ():
            line = self._line_of("dtype", line)
            if isinstance(row, dict) and line:
                self._read_peak(row, line)
        for group in ("memory", "compute_units"):
            fields, start = facts.get(group), self._line_of(group, 0)
            if not isinstance(fields, dict) or not start:
                continue
            for field, value in fields.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and (metric := self._metric(field)):
                    parts = UNIT_BY_FIELD_PART.items()
                    units = [unit for part, unit in parts if re.search(rf"(?:^|_){part}(?:_|$)", field)]
                    units += [unit for unit in COUNT_UNITS if unit in self.vocabulary.metrics.kinds[metric].units]
                    provenance = str(fields.get("provenance", ""))
                    self._add(metric, value, (units or [""])[0], "", self._line_of(field, start), provenance)
        unavailable, start = facts.get("unavailable"), self._line_of("unavailable", 0)
        for field, reason in unavailable.items() if isinstance(unavailable, dict) and start else ():
            if (metric := self._metric(field)) and (line := self._line_of(field, start)):
                self.collector.add_gap(self.name, metric, str(reason), self.file.cite(line))

    def _metric(self, field: str) -> str:
        metric = self.vocabulary.metric_by_label.get(field, "")
        return "cu_count" if metric == "sm_count" and self.vendor == "amd" else metric

    def _read_peak(self, row: dict[str, Any], first_line: int) -> None:
        data_type = self.vocabulary.data_type_by_word.get(str(row.get("dtype", "")).lower())
        kind = UNIT_KINDS.get(str(row.get("unit_kind", "")), "")
        metric = peak_metric(data_type, kind) if data_type and kind else ""
        # Some records file a ridge point, `206 / 5.3 = 38.9`, as a peak.
        if not metric or RIDGE_POINT.search(str(row.get("use_case", ""))):
            return
        lines = enumerate(self.file.lines[first_line:], first_line + 1)
        last_line = next((number for number, text in lines if text.strip().startswith("}")), first_line)
        for field, qualifier in (("dense", "dense"), ("sparse_2to4", "sparse")):
            line = self._line_of(field, first_line)
            if isinstance(row.get(field), int | float) and line <= last_line:
                self._add(metric, row[field], str(row.get("unit", "")), qualifier, line, str(row.get("provenance", "")))

    def _add(self, metric: str, value: float, unit: str, qualifier: str, line: int, provenance: str) -> None:
        """Add a figure, if line `line` (0: none) holds that very value."""
        text = self.file.lines[line - 1].partition(":")[2].strip().rstrip(",") if line else ""
        if not re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", text) or float(text) != float(value):
            return
        evidence: SpecEvidence = "vendor" if provenance == "vendor-published" else "unofficial"
        caveat = "" if evidence == "vendor" else f"the record's evidence is {provenance or 'not stated'}"
        cited = self.file.cite(line)
        self.collector.add(
            HardwareFigure(*self.name, metric, float(value), unit, qualifier, cited, evidence=evidence, caveat=caveat)
        )

    def _line_of(self, field: str, start: int) -> int:
        """The number (from 1) of the first line with the field behind line `start`; 0 when there is none."""
        lines = enumerate(self.file.lines[start:], start + 1)
        return next((number for number, text in lines if text.lstrip().startswith(f'"{field}":')), 0)
