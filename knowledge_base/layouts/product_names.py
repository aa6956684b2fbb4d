"""Which product a heading, a column, a row or a record is about: exactly one, whole, or none (no product is taken
for another)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from knowledge_base.layouts.terminology import Words
from knowledge_base.pages.terminology import Name

MARKS = re.compile(r"[*`<\[†‡]")
NUMBERING = re.compile(r"^(?:\d+(?:\.\d+)*\.?|[A-Z]\.)\s+")
COMPARED = re.compile(r"\b(?:vs\.?|versus|differen\w+|compar\w+|from|against)\b", re.IGNORECASE)
WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
Scope = Literal["product", "neutral", "closed"]


class Heading(NamedTuple):
    """What a heading says about the lines below it."""

    text: str
    scope: Scope
    """product: about `name`; neutral: about what the heading above it is about; closed: about no single product."""
    name: Name | None = None
    capability: str = ""
    """Compute capability, where it is about an architecture (sm_90 -> 9.0)."""


def plain(text: str) -> str:
    """Without Markdown's marks, footnote signs and links."""
    if MARKS.search(text):
        text = re.sub(r"<sup>.*?</sup>|\[\^\w+\]", "", text)
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = text.replace("**", "").replace("`", "").strip().strip("*†‡")
    return " ".join(text.split())


def words_of(text: str) -> list[str]:
    """Lower-case words; `architecture-analysis` stays one."""
    return WORD.findall(text.lower())


def mentioned(text: str, words: Words) -> list[str]:
    """Products named in a text, in order, each once."""
    found = [re.sub(r"\s+", " ", match[0]).upper() for match in words.product.finditer(text)]
    return list(dict.fromkeys(found))


def about(text: str, words: Words) -> Name | None:
    """The one product that a heading, a header or a cell is about; None when it names none or several, or says
    anything besides."""
    text = plain(text)
    outside = re.sub(r"\([^)]*\)", " ", text)
    inside = " ".join(re.findall(r"\(([^)]*)\)", text))
    if mentioned(outside, words):
        # A product in the bracket is a board or a chip that holds this one: `B200 (GB200 / sm_100)`.
        return _single(f"{outside} {words.product.sub(' ', inside)}", words)
    return _single(f"{outside} {inside}", words) if inside else None


def heading(text: str, words: Words) -> Heading:
    """What a heading is about; unknown words close the section, so that nothing is bound to the wrong product."""
    text = NUMBERING.sub("", plain(text))
    said = [word for part in words_of(text) for word in part.split("-")]
    if said and words.kinds["neutral"].issuperset(said):
        return Heading(text, "neutral")
    if COMPARED.search(text):
        return Heading(text, "closed")
    if mentioned(text, words):
        name = about(text, words)
        return Heading(text, "product", name) if name else Heading(text, "closed")
    return Heading(text, "closed", capability=capability_of(text))


def of_hardware(text: str, words: Words) -> bool:
    """Whether a heading speaks of nothing but hardware, so that a table below it that names its own products is a
    table of hardware."""
    text = NUMBERING.sub("", plain(text))
    kinds = ("neutral", "about", "architecture", "comparison", "variant", "fluff")
    allowed = frozenset().union(*(words.kinds[kind] for kind in kinds))
    return all(word in allowed or _chip(word) for word in _rest(text, words))


def capability_of(text: str) -> str:
    """`sm_90`, `CC 9.0`, `9.0` in a header -> 9.0; empty where there is none or several, or a placeholder such as
    10.x."""
    found = {f"{major}.{minor}" for major, minor in re.findall(r"\bsm_?(\d{1,2})(\d)a?\b", text, re.IGNORECASE)}
    found |= set(re.findall(r"\b(?:CC|Compute Capability)\s*(\d{1,2}\.\d)\b", text, re.IGNORECASE))
    return found.pop() if len(found) == 1 else ""


def several(text: str, words: Words) -> list[Name]:
    """Products of a list such as `H100, H200` or `RTX PRO 5000/6000 Blackwell`; parts that are not exactly a product
    are left out."""
    names = []
    for part in plain(text).split(","):
        short = re.fullmatch(r"\s*(.*?)(\d{3,4})/(\d{3,4})(.*)", part)
        spelled = [f"{short[1]}{number}{short[4]}" for number in (short[2], short[3])] if short else part.split("/")
        names += [name for name in (about(text, words) for text in spelled) if name]
    return names


def _single(text: str, words: Words) -> Name | None:
    products = mentioned(text, words)
    if len(products) != 1:
        return None
    rest = _rest(text, words)
    variant = [word for word in rest if word in words.kinds["variant"] or _size(word)]
    allowed = words.kinds["about"] | words.kinds["memory type"]
    if any(word not in allowed and not _chip(word) for word in rest if word not in variant):
        return None
    return Name(products[0], _spelled(variant))


def _rest(text: str, words: Words) -> list[str]:
    """Words besides the products and names of architectures; a size of memory is one word."""
    text = re.sub(r"\b(?:sm|gfx)_?\d+[a-z]?\b", " ", words.product.sub(" ", text), flags=re.IGNORECASE)
    text = re.sub(r"\b(\d+)\s+GB\b", r"\1GB", text, flags=re.IGNORECASE)
    return [word for part in words_of(text) for word in part.split("-")]


def _chip(word: str) -> bool:
    return bool(re.fullmatch(r"(?:g[abhpv]|ad|tu)\d{3}[a-z]?", word))


def _size(word: str) -> bool:
    return bool(re.fullmatch(r"\d{2,3}gb", word))


def _spelled(variant: list[str]) -> str:
    spelled = {"max": "Max-Q", "q": "", "pcie": "PCIe"}
    parts = [
        spelled.get(word, word.upper() if word[:3] in ("sxm", "nvl", "oam") else word.capitalize()) for word in variant
    ]
    return " ".join(re.sub(r"^(\d+)gb$", r"\1 GB", part, flags=re.IGNORECASE) for part in parts if part)
