"""Which product a heading or a record is about: exactly one whole name, or none. No product is taken for another."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from knowledge_base.layouts.vocabulary import Vocabulary
from knowledge_base.pages.names import ProductName

MARKS = re.compile(r"[*`<\[†‡]")
NUMBERING = re.compile(r"^(?:\d+(?:\.\d+)*\.?|[A-Z]\.)\s+")
COMPARISON = re.compile(r"\b(?:vs\.?|versus|differen\w+|compar\w+|from|against)\b", re.IGNORECASE)
WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
HeadingScope = Literal["product", "neutral", "closed"]


class ProductHeading(NamedTuple):
    """What a heading says about the lines below it."""

    scope: HeadingScope
    """product: they are about `name`; neutral: about what the heading above is about; closed: about no single
    product."""
    name: ProductName | None = None


def plain_text(text: str) -> str:
    """The text without Markdown's marks, signs of footnotes and targets of links."""
    if MARKS.search(text):
        text = re.sub(r"<sup>.*?</sup>|\[\^\w+\]", "", text)
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = text.replace("**", "").replace("`", "").strip().strip("*†‡")
    return " ".join(text.split())


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; `architecture-analysis` is one word."""
    return WORD.findall(text.lower())


def products_in(text: str, vocabulary: Vocabulary) -> list[str]:
    """The products that a text names, in order, each once and in upper case."""
    names = [re.sub(r"\s+", " ", match[0]).upper() for match in vocabulary.product.finditer(text)]
    return list(dict.fromkeys(names))


def single_product(text: str, vocabulary: Vocabulary) -> ProductName | None:
    """The one product that a text is about; None when it names none or several, or says anything else."""
    text = plain_text(text)
    outside = re.sub(r"\([^)]*\)", " ", text)
    if products_in(outside, vocabulary):
        # A product in brackets is a board or chip that holds this one: `B200 (GB200 / sm_100)`.
        inside = " ".join(re.findall(r"\(([^)]*)\)", text))
        text = f"{outside} {vocabulary.product.sub(' ', inside)}"
    products = products_in(text, vocabulary)
    if len(products) != 1:
        return None
    text = re.sub(r"\b(?:sm|gfx)_?\d+[a-z]?\b", " ", vocabulary.product.sub(" ", text), flags=re.IGNORECASE)
    text = re.sub(r"\b(\d+)\s+GB\b", r"\1GB", text, flags=re.IGNORECASE)
    words = [word for part in words_of(text) for word in part.split("-")]
    variant = [word for word in words if word in vocabulary.words["variant"] or re.fullmatch(r"\d{2,3}gb", word)]
    allowed = vocabulary.words["about"] | vocabulary.words["value note"] | set(variant)
    if any(word not in allowed and not _is_chip_name(word) for word in words):
        return None
    return ProductName(products[0], _variant_name(variant))


def read_heading(text: str, vocabulary: Vocabulary) -> ProductHeading:
    """What a heading is about; a heading with unknown words is closed, so that no number gets the wrong product."""
    text = NUMBERING.sub("", plain_text(text))
    words = [word for part in words_of(text) for word in part.split("-")]
    if words and vocabulary.words["neutral"].issuperset(words):
        return ProductHeading("neutral")
    name = None if COMPARISON.search(text) else single_product(text, vocabulary)
    return ProductHeading("product", name) if name else ProductHeading("closed")


def _is_chip_name(word: str) -> bool:
    return bool(re.fullmatch(r"(?:g[abhpv]|ad|tu)\d{3}[a-z]?", word))


def _variant_name(words: list[str]) -> str:
    """The words of a variant as vendors write them: `SXM5`, `PCIe 80 GB`, `Max-Q`."""
    spellings = {"max": "Max-Q", "q": "", "pcie": "PCIe"}
    parts = [
        spellings.get(word, word.upper() if word[:3] in ("sxm", "nvl", "oam") else word.capitalize()) for word in words
    ]
    return " ".join(re.sub(r"^(\d+)gb$", r"\1 GB", part, flags=re.IGNORECASE) for part in parts if part)
