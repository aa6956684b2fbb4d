"""Hardware records as JSON: one product a file, one scalar a line. The record's own fields are read, never an index
made of them."""

from __future__ import annotations

import json
import re
from typing import Any

from knowledge_base.layouts import labels, markdown, product_names
from knowledge_base.layouts.collector import Capability, Findings, Place
from knowledge_base.layouts.markdown import Section, Table
from knowledge_base.layouts.tables import Reader
from knowledge_base.layouts.terminology import Words, key
from knowledge_base.pages.figures import Figure
from knowledge_base.pages.terminology import Name
from tools.roofline.hardware import SpecEvidence

KINDS = {"cuda-core": "vector", "vector": "vector", "tensor-core": "matrix", "matrix-core": "matrix"}
SCALARS = {"gb": "GB", "mb": "MB", "kb": "KB", "tb_s": "TB/s"}
FLAT = re.compile(r'^\s*"[^"]+":\s*"(\|.*\|)",?$')


def read_sheet(text: str, place: Place, findings: Findings) -> None:
    """Read one record `{"identity": ..., "facts": ...}`; ValueError when it is no JSON."""
    record = json.loads(text)
    identity = record.get("identity") if isinstance(record, dict) else None
    facts = record.get("facts") if isinstance(record, dict) else None
    if not isinstance(identity, dict) or not isinstance(facts, dict) or record.get("type") != "spec-sheet":
        return
    # An architecture (sm120) filed as a product stands for several products with different numbers.
    name = product_names.about(str(identity.get("product") or ""), findings.words)
    if name is None:
        return
    reader = _Sheet(name, place, findings, str(identity.get("vendor", "")))
    capability = identity.get("compute_capability")
    if isinstance(capability, str) and (line := reader.line("compute_capability", 0)):
        findings.capabilities.append(Capability(name.product, capability, place.cite(line)))
    reader.read(facts)


class _Sheet:
    def __init__(self, name: Name, place: Place, findings: Findings, vendor: str) -> None:
        self.name, self.place, self.findings, self.vendor = name, place, findings, vendor
        self.words: Words = findings.words

    def line(self, field: str, start: int) -> int:
        """Line (from 1) of the first `"field":` at or below `start`; 0 when there is none."""
        mark = f'"{field}":'
        return next(
            (i for i, text in enumerate(self.place.lines[start:], start + 1) if text.lstrip().startswith(mark)), 0
        )

    def read(self, facts: dict[str, Any]) -> None:
        at = self.line("peak_compute", 0)
        peaks = facts.get("peak_compute")
        for row in peaks if isinstance(peaks, list) else ():
            at = self.line("dtype", at)
            if isinstance(row, dict) and at:
                self._peak(row, at)
        for group in ("memory", "compute_units"):
            fields = facts.get(group)
            start = self.line(group, 0)
            if not isinstance(fields, dict) or not start:
                continue
            for field, value in fields.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._scalar(field, float(value), self.line(field, start), str(fields.get("provenance", "")))
        start = self.line("unavailable", 0)
        unavailable = facts.get("unavailable")
        for field, reason in unavailable.items() if isinstance(unavailable, dict) and start else ():
            if (metric := self.metric(field)) and (line := self.line(field, start)):
                self.findings.silent(self.name, metric, str(reason), self.place.cite(line))

    def metric(self, field: str) -> str:
        metric = self.words.labels.get(key(field.replace("_", " ")), "")
        return "cu_count" if metric == "sm_count" and self.vendor == "amd" else metric

    def _scalar(self, field: str, value: float, line: int, provenance: str) -> None:
        metric = self.metric(field)
        unit = next(
            (unit for mark, unit in SCALARS.items() if re.search(rf"(?:^|_){mark}(?:_|$)", field)),
            self.findings.of(metric).unit,
        )
        if metric and line and self.says(line, value):
            evidence, caveat = _evidence(provenance)
            self.findings.add(
                Figure(*self.name, metric, value, unit, "", self.place.cite(line), evidence=evidence, caveat=caveat)
            )

    def _peak(self, row: dict[str, Any], at: int) -> None:
        word = self.words.dtypes.get(str(row.get("dtype", "")).lower())
        kind = KINDS.get(str(row.get("unit_kind", "")), "")
        metric = labels.peak(word.name, kind, self.words) if word and kind else ""
        # A ridge point, `206 / 5.3 = 38.9`, filed as a peak.
        if not metric or re.search(r"\d\s*/\s*\d[\d.]*\s*[≈=]|~", str(row.get("use_case", ""))):
            return
        for field, qualifier in (("dense", "dense"), ("sparse_2to4", "sparse")):
            value = row.get(field)
            line = self.line(field, at) if isinstance(value, int | float) else 0
            if line and line <= self.end(at) and self.says(line, float(row[field])):
                evidence, caveat = _evidence(str(row.get("provenance", "")))
                parts = (metric, float(row[field]), str(row.get("unit", "")), qualifier, self.place.cite(line))
                self.findings.add(
                    Figure(self.name.product, self.name.variant, *parts, evidence=evidence, caveat=caveat)
                )

    def says(self, line: int, value: float) -> bool:
        """Whether that very line holds the value."""
        text = self.place.lines[line - 1].partition(":")[2].strip().rstrip(",")
        return bool(re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", text)) and float(text) == value

    def end(self, at: int) -> int:
        """Last line of the row that `at` stands in."""
        return next((i for i, text in enumerate(self.place.lines[at:], at + 1) if text.strip().startswith("}")), at)


def _evidence(provenance: str) -> tuple[SpecEvidence, str]:
    return (
        ("vendor", "")
        if provenance == "vendor-published"
        else ("unofficial", f"the record's evidence is {provenance or 'not stated'}")
    )


def read_text(place: Place, findings: Findings) -> None:
    """Flattened tables of limits in the strings of any other record; each is cited by the line that holds it."""
    reader = Reader(findings, place)
    for number, line in enumerate(place.lines, 1):
        if "CC " in line and (match := FLAT.match(line)):
            rows = list(markdown.flattened(match[1]))
            if rows and "CC " in " ".join(rows[0]):
                section = Section(None, "", "", False, True, False)
                reader.read(Table(rows[0], number, tuple((number, row) for row in rows[1:]), section, "", ""))
