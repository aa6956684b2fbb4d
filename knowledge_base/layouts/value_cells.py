"""The value of one cell: a number with its unit and nothing that would change what they mean."""

from __future__ import annotations

import re
from typing import NamedTuple

from knowledge_base.layouts.metric_labels import qualifier_in
from knowledge_base.layouts.product_headings import plain_text, words_of
from knowledge_base.layouts.vocabulary import Vocabulary

FOOTNOTE_SIGN = re.compile(r"\*(?!\*)|<sup>|[†‡]|\[\^|\\\*")
UNIT_SPELLINGS = {"SMs": "SM", "CUs": "CU", "Watts": "W"}
COUNT_UNITS = ("SM", "CU", "warps", "threads", "blocks", "32-bit registers", "registers")
"""Units that wikis leave out, since the label names them."""


class CellValue(NamedTuple):
    """The number that a cell states."""

    value: float
    unit: str
    """Empty where neither the cell nor the metric has one."""
    qualifier: str
    """dense, sparse, total, per_direction, or empty."""
    doubt: str
    """Why the number may not be the vendor's exact one; empty: nothing says so."""


def read_cell(text: str, metric: str, unit: str, vocabulary: Vocabulary) -> CellValue | None:
    """The value of `metric` in a cell, `unit` being that of the row's own column (empty: none); None where the cell
    holds anything but one number, its unit and words that do not change them."""
    has_footnote = FOOTNOTE_SIGN.search(text.replace("**", "")) is not None
    text = plain_text(text)
    match = vocabulary.quantity.match(text)
    rest = text[match.end() :].replace("2:4", " ") if match else ""
    if match is None or not re.fullmatch(r"(?:[\s(,][\s(),\w-]*)?", rest) or (unit and match["unit"]):
        return None
    unit = match["unit"] or unit
    allowed = vocabulary.words["value note"] | set(metric.replace("_sm", "_sm_cu").split("_"))
    words = [word for part in words_of(rest) for word in part.split("-")]
    # `1,448 GB total` is the memory of several GPUs; a link's total is that of both directions.
    if not allowed.issuperset(words) or ("total" in words and not unit.endswith("/s")):
        return None
    kind = vocabulary.metrics.kinds[metric]
    unit = unit or next((count for count in COUNT_UNITS if count in kind.units), "")
    doubts = ["it is marked as approximate"] * bool(match["mark"]) + ["it has a footnote"] * has_footnote
    return CellValue(
        float(match["number"].replace(",", "")),
        UNIT_SPELLINGS.get(unit, unit),
        qualifier_in(rest, vocabulary),
        "; ".join(doubts),
    )
