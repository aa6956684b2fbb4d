"""What foreign labels, units and product names mean: the tables of `words.md`, loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from knowledge_base.pages.terminology import METRIC_NAMES
from knowledge_base.pages.wiki import BUNDLED, lines_of

DATA = Path(__file__).with_name("words.md")


class Metric(NamedTuple):
    """How values of a metric must look."""

    dimension: str
    unit: str
    """Meant where a cell has none; empty: a cell without unit is not read."""
    scope: str
    """What `per ...` in a cell must say, where it says any."""


class DType(NamedTuple):
    """A data type of a peak."""

    name: str
    alone: str
    """vector | matrix where the label names neither; empty: then it stays unread."""
    kinds: tuple[str, ...]


class Exempt(NamedTuple):
    """A product whose sparse peak is not twice the dense one, with the range of its ratio."""

    product: str
    dtype: str
    least: float
    most: float


class Words(NamedTuple):
    """All of `words.md`."""

    metrics: dict[str, Metric]
    bounds: dict[str, tuple[float, float]]
    """Least and most of every metric of the bundled page `metric-names`, in its dimension's base unit."""
    labels: dict[str, str]
    """Label, as `key` makes it -> metric."""
    units: dict[str, tuple[str, float]]
    """Spelling -> dimension and factor."""
    number: re.Pattern[str]
    """A whole number with an optional unit at the start of a text: groups mark, number, unit."""
    dtypes: dict[str, DType]
    product: re.Pattern[str]
    prefilter: re.Pattern[bytes]
    """A file whose upper case does not hold this names no product and no architecture."""
    kinds: dict[str, frozenset[str]]
    exempt: tuple[Exempt, ...]


def key(label: str) -> str:
    """Lower case, brackets off, whatever is neither letter nor digit as one blank."""
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\([^)]*\)", " ", label.lower())))


def load() -> Words:
    """Read the data file that lies beside this module."""
    tables = _tables(DATA.read_text(encoding="utf-8"))
    metrics = {row["metric"]: Metric(row["dimension"], row["unit"], row["scope"]) for row in tables["Metrics"]}
    bounds = _tables((BUNDLED / METRIC_NAMES).read_text(encoding="utf-8"))["Metrics"]
    units = {row["spelling"]: (row["dimension"], float(row["factor"])) for row in tables["Units"]}
    spellings = "|".join(re.escape(unit) for unit in sorted(units, key=len, reverse=True))
    products = "|".join(row["pattern"].replace("\\|", "|") for row in tables["Products"])
    return Words(
        metrics=metrics,
        bounds={row["metric"]: (float(row["least"]), float(row["most"])) for row in bounds},
        labels={row["label"]: row["metric"] for row in tables["Labels"]},
        units=units,
        number=re.compile(
            r"(?P<mark>(?:[~≈]|(?i:up to|about|approx\.?|around)(?=\s))?)\s*"
            r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?(?![\d,.]\d))"
            rf"\s?(?P<unit>(?:{spellings})(?![A-Za-z]))?"
        ),
        dtypes={
            row["word"]: DType(row["dtype"], row["alone"], tuple(row["kinds"].split())) for row in tables["Data types"]
        },
        product=re.compile(rf"(?<![A-Za-z0-9])(?:{products})(?![A-Za-z0-9])", re.IGNORECASE),
        prefilter=re.compile(
            re.sub(r"(?<!\\)[a-z]", lambda letter: letter[0].upper(), rf"{products}|CC \d|SM_\d").encode()
        ),
        kinds={row["kind"]: frozenset(row["words"].split()) for row in tables["Words"]},
        exempt=tuple(
            Exempt(row["product"], row["dtype"], float(row["least"]), float(row["most"]))
            for row in tables["Sparse peaks that are not twice the dense one"]
        ),
    )


def _tables(text: str) -> dict[str, list[dict[str, str]]]:
    """Heading -> rows of the table below it."""
    tables: dict[str, list[dict[str, str]]] = {}
    columns: list[str] = []
    rows: list[dict[str, str]] = []
    for line in lines_of(text):
        if line.startswith("## "):
            columns, rows = [], tables.setdefault(line[3:].strip(), [])
        elif line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not columns:
                columns = cells
            elif not set(line) <= set("|- "):
                rows.append(dict(zip(columns, cells, strict=True)))
        else:
            columns = []
    return tables
