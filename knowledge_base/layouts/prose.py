"""Numbers in passing: bullets below a product's heading, and sentences that name product, number and label in one breath. Mentions only."""

from __future__ import annotations

import re

from knowledge_base.layouts import cells, labels, names
from knowledge_base.layouts.findings import MENTION, Place, Value
from knowledge_base.layouts.markdown import Line
from knowledge_base.layouts.names import Name
from knowledge_base.layouts.tables import Reader
from knowledge_base.layouts.words import Words

BULLET = re.compile(r"(?:[-*+]|\d+\.)\s+(?P<label>\*\*[^*:|]+:?\*\*|[^:|*]{2,60}?)\s*:\s*(?P<value>.+)$")
STOP = re.compile(r"→|->|⇒|×|\bvs\b|\d\s?[-–—]\s?\d")


class Prose:
    """Reads lines that stand outside tables."""

    def __init__(self, reader: Reader, place: Place) -> None:
        self.reader, self.place = reader, place
        self.words: Words = reader.words
        kinds = self.words.kinds
        self.stop = kinds["measured"] | kinds["workload"] | kinds["system"] | kinds["same"]
        product = self.words.product.pattern
        number = r"\*{0,2}~?(?P<number>\d[\d,]*(?:\.\d+)?)\s?"
        self.count = re.compile(
            rf"(?P<names>{product}(?:/{product})*)\*{{0,2}}(?:'s|\s*:|\s+has|\s+with)\s*{number}(?P<unit>SMs|CUs)\b", re.IGNORECASE
        )
        self.rate = re.compile(
            rf"(?P<names>{product})\*{{0,2}}(?:'s|:|\s+has|\s+with)?\s+(?P<label>(?:peak\s+)?(?:HBM\w*|memory|GPU memory) bandwidth)"
            rf"\s*(?:of|is|:|\()\s*{number}(?P<unit>TB/s|GB/s)",
            re.IGNORECASE,
        )
        self.behind = re.compile(
            rf"(?P<names>{product})\*{{0,2}}(?:'s|:|\s+has|\s+with)?\s+{number}(?P<unit>TB/s|GB/s|MB|GB)\*{{0,2}}\s+(?:of\s+)?"
            r"(?P<label>(?:HBM\w*|memory) bandwidth|L2(?: cache)?|HBM\w*|GDDR\w*)(?P<rest>\s+\w+)?",
            re.IGNORECASE,
        )

    def read(self, line: Line) -> None:
        """Take what a line mentions."""
        if line.section.refused or set(names.words_of(line.text)) & (self.stop):
            return
        if not line.fenced and line.section.name and (match := BULLET.fullmatch(line.text)):
            self._bullet(line.number, line.section.name, match["label"], match["value"])
        self.sentence(line.number, line.text)

    def sentence(self, number: int, text: str) -> None:
        """Take the counts and bandwidths that stand beside a product's name."""
        if STOP.search(text):
            text = re.split(STOP, text)[0] if not re.search(r"→|->|⇒|\bvs\b", text) else ""
        for pattern in (self.count, self.rate, self.behind):
            for match in pattern.finditer(text):
                if re.match(r"\s*[/*^]\s*\d", text[match.end() :]):
                    continue
                for name in match["names"].split("/"):
                    self._take(number, name, match)

    def _take(self, number: int, product: str, match: re.Match[str]) -> None:
        name = names.about(product, self.words)
        unit, said = match["unit"], match.groupdict()
        label = (said.get("label") or "").lower()
        if unit in ("SMs", "CUs"):
            metric, unit = ("sm_count", "SM") if unit == "SMs" else ("cu_count", "CU")
        elif "/" in unit:
            metric = "memory_bandwidth"
        else:
            metric = "l2_size" if label.startswith("l2") else "memory_capacity"
        bandwidth = (said.get("rest") or "").strip().lower() == "bandwidth" or "bandwidth" in label
        if name and ((unit in ("TB/s", "GB/s")) == bandwidth or label.startswith(("hbm", "gddr"))):
            value = Value(metric, float(match["number"].replace(",", "")), unit, "", self.place.cite(number), caveat="a mention in passing")
            if not self.reader.findings.refusal(value):
                self.reader.findings.add(MENTION, name, value)

    def _bullet(self, number: int, name: Name, label_text: str, text: str) -> None:
        if names.mentioned(f"{label_text} {text}", self.words) not in ([], [name.product]):
            return
        label = labels.read(label_text.strip("*: "), self.words)
        readings = cells.read(text.rstrip("."), self.words) if label and not label.silent else ()
        if label is None or not isinstance(readings, tuple):
            return
        for reading in readings:
            reading = reading._replace(unit=reading.unit or label.unit)
            for value in self.reader.values(label, reading, self.place.cite(number), "a mention in passing"):
                self.reader.findings.add(MENTION, name, value)
