"""The vocabulary of external wikis: labels, data types, product names and units, loaded from `vocabulary.yaml`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from knowledge_base.artifacts import PageType
from knowledge_base.pages.names import Metrics, metrics_of
from knowledge_base.pages.wiki import Wiki

DATA = Path(__file__).with_name("vocabulary.yaml")


class DataType(NamedTuple):
    """The number format of a peak."""

    name: str
    kinds: tuple[str, ...]
    """Which units compute it: vector, matrix or both."""
    default_kind: str
    """The unit that a label means which names none; empty: such a label is not read."""


class Vocabulary(NamedTuple):
    """What the labels, units and product names of external wikis mean."""

    metrics: Metrics
    """Metrics of the bundled wiki, with their units and bounds."""
    metric_by_label: dict[str, str]
    """Keyed by `names.comparable_metric` of the label."""
    data_type_by_word: dict[str, DataType]
    quantity: re.Pattern[str]
    """A number with an optional unit at the start of a text: groups `mark`, `number` and `unit`."""
    product: re.Pattern[str]
    words: dict[str, frozenset[str]]


@cache
def load_vocabulary() -> Vocabulary:
    """Read the data file beside this module."""
    data = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    types: tuple[PageType, ...] = ("meta",)
    metrics = metrics_of(Wiki.open(types=types))
    units = {unit for kind in metrics.kinds.values() for unit in kind.units} | set(metrics.spellings)
    spellings = "|".join(re.escape(unit) for unit in sorted(units, key=len, reverse=True))
    return Vocabulary(
        metrics=metrics,
        metric_by_label={label: metric for metric, labels in data["labels"].items() for label in labels},
        data_type_by_word={
            word: DataType(name, tuple(entry["kinds"]), entry.get("default", ""))
            for name, entry in data["data_types"].items()
            for word in entry["spellings"]
        },
        quantity=re.compile(
            r"(?P<mark>[~≈]?)\s*(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?(?![\d,.]\d))"
            rf"\s?(?P<unit>(?:{spellings})(?![A-Za-z]))?"
        ),
        product=re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(data['products'])})(?![A-Za-z0-9])", re.IGNORECASE),
        words={kind: frozenset(map(str, words)) for kind, words in data["words"].items()},
    )
