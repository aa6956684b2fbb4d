"""Label of a row or column -> metric; for peaks data type, unit and dense or sparse. What a label says besides makes
it unread."""

from __future__ import annotations

import re
from typing import NamedTuple

from knowledge_base.layouts import cells
from knowledge_base.layouts.product_names import plain, words_of
from knowledge_base.layouts.terminology import Words, key


class Label(NamedTuple):
    """What a label asks for."""

    metrics: tuple[str, ...]
    """Several when the label names several data types."""
    unit: str = ""
    """The label's own, for cells without one."""
    qualifier: str = ""
    silent: str = ""
    """Why nothing is read although the label is about a metric."""


def read(text: str, words: Words) -> Label | None:
    """The metrics of a label; None for one that is not known."""
    text = plain(text)
    said = set(words_of(text))
    if said & (words.kinds["measured"] | words.kinds["system"]):
        return None
    metric = words.labels.get(key(text))
    if metric:
        notes = " ".join(re.findall(r"\(([^)]*)\)", text))
        unit = notes if notes in words.units and notes not in cells.ONE else ""
        known = unit or not notes or words.kinds["note"].issuperset(words_of(notes))
        return Label((metric,), unit, cells.qualifier(notes, words)) if known else None
    return _peak(text, words)


def _peak(text: str, words: Words) -> Label | None:
    text = re.sub(r"\b(?:FP32|FP16) Acc\w*", " ", text, flags=re.IGNORECASE)
    unit = next((said for said in ("PFLOPS", "TFLOPS", "TOPS") if re.search(rf"\b{said}\b", text)), "")
    said = [word for part in words_of(text) for word in part.split("-")]
    dtypes = list(dict.fromkeys(words.dtypes[word].name for word in said if word in words.dtypes))
    if not dtypes or any(word not in words.kinds["peak"] and word not in words.dtypes for word in said):
        return None
    if "tf32" in dtypes and "fp32" in dtypes:
        dtypes.remove("fp32")
    kind = cells.kind(text)
    metrics = [peak(dtype, kind, words, alone=len(dtypes) == 1) for dtype in dtypes]
    if not all(metrics) or kind == "both":
        names = ", ".join(dtypes)
        return Label(
            tuple(f"{dtype}_{unit}" for dtype in dtypes for unit in ("vector", "tensor")),
            silent=f"{names}: vector or matrix is not said",
        )
    return Label(tuple(metric for metric in metrics if metric), unit, cells.qualifier(text, words))


def peak(dtype: str, kind: str, words: Words, alone: bool = True) -> str:
    """The metric of a data type on a unit (vector | matrix, empty: what the type means alone); empty where there is none such."""
    known = next((entry for entry in words.dtypes.values() if entry.name == dtype), None)
    if known is None:
        return ""
    kind = kind or known.alone or ("matrix" if dtype == "fp16" and not alone else "")
    if kind not in known.kinds:
        return ""
    if kind == "matrix":
        return f"{dtype}_tensor"
    return "fp32" if dtype == "fp32" else f"{dtype}_vector"
