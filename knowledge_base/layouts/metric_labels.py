"""The label of a table row -> its metrics. A label with an unknown word is not read."""

from __future__ import annotations

import re
from typing import NamedTuple

from knowledge_base.layouts.product_headings import plain_text, words_of
from knowledge_base.layouts.vocabulary import DataType, Vocabulary
from knowledge_base.pages.names import comparable_metric


class MetricLabel(NamedTuple):
    """What a label asks for."""

    metrics: tuple[str, ...]
    """Several when the label names several data types, as `FP8 / INT8` does."""
    qualifier: str = ""
    """dense, sparse, total, per_direction, or empty where the label says none of these."""


def read_label(text: str, vocabulary: Vocabulary) -> MetricLabel | None:
    """The metrics of a label; None for one that is not known."""
    text = plain_text(text)
    words = [word for part in words_of(text.replace("_", " ")) for word in part.split("-")]
    if (vocabulary.words["measured"] | vocabulary.words["system"]).intersection(words):
        return None
    name = comparable_metric(text)
    if metric := vocabulary.metric_by_label.get(name):
        return MetricLabel((metric,))
    metric, qualifier = vocabulary.metrics.canonical(text)
    if metric in vocabulary.metrics.kinds and name in (metric, f"{metric}_{qualifier}"):
        return MetricLabel((metric,), qualifier)
    data_types = list(dict.fromkeys(filter(None, map(vocabulary.data_type_by_word.get, words))))
    known = vocabulary.words["peak"] | set(vocabulary.data_type_by_word)
    pair = re.match(r"(\w+)\s*/\s*(\w+)", text.lower())
    is_pair = pair is not None and len(data_types) == 2 and set(pair.groups()) <= set(vocabulary.data_type_by_word)
    if not (len(data_types) == 1 or is_pair) or not known.issuperset(words):
        return None
    metrics = [peak_metric(data_type, unit_kind(text)) for data_type in data_types]
    return MetricLabel(tuple(metrics), qualifier_in(text, vocabulary)) if all(metrics) else None


def peak_metric(data_type: DataType, kind: str) -> str:
    """The metric of a data type's peak on a kind of unit (empty: its default); empty where there is none."""
    kind = kind or data_type.default_kind
    if kind not in data_type.kinds:
        return ""
    if data_type.name == "fp32":
        return "fp32_matrix" if kind == "matrix" else "fp32"
    return f"{data_type.name}_{'tensor' if kind == 'matrix' else 'vector'}"


def unit_kind(text: str) -> str:
    """vector or matrix as a label says; `both` when it says both, empty when it says neither."""
    text = text.lower()
    is_vector = re.search(r"non-?\s?matrix|non-?\s?tensor|\bvector\b|\bvfma\b|\bcuda\b|\bshader\b", text)
    text = re.sub(r"non-?\s?(?:matrix|tensor)", " ", text)
    is_matrix = re.search(r"\btensor\b|\bmatrix\b|\bmfma\b|\btc\b|\bwmma\b", text)
    return "both" if is_vector and is_matrix else "vector" if is_vector else "matrix" if is_matrix else ""


def qualifier_in(text: str, vocabulary: Vocabulary) -> str:
    """dense, sparse, total or per_direction as a text says; empty when it says none of these, or two."""
    words = set(words_of(text))
    said = [
        name
        for name, is_said in (
            ("sparse", words & {"sparse", "sparsity"}),
            ("dense", "dense" in words),
            ("total", words & {"bidirectional", "total"} or {"both", "directions"} <= words),
            ("per_direction", "unidirectional" in words or {"per", "direction"} <= words),
        )
        if is_said
    ]
    return said[0] if len(said) == 1 else ""
