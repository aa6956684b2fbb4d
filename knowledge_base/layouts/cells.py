"""The value of one cell: number, unit and what the words around it say, or why there is none. What is not understood
whole is not read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from knowledge_base.layouts.product_names import plain, words_of
from knowledge_base.layouts.terminology import Words

DASHES = frozenset({"", "-", "–", "—", "--", "n/a", "na", "none", "null", "tbd", "?", "no"})
NUMBER = r"\d[\d,]*(?:\.\d+)?"
RANGE = re.compile(
    rf"{NUMBER}\s?[A-Za-z/]*\s?(?:-|–|—|\bto\b)\s?{NUMBER}|{NUMBER}\s?[A-Za-z/]*\s+or\s+{NUMBER}", re.IGNORECASE
)


WHOLE = re.compile(
    r"(?:of )?(?:the )?(?:(?:[a-z]{2}\d{3}\w? )?(?:full|whole|entire)\b(?!.?(?:rate|speed|duplex)).*|chip|die)",
    re.IGNORECASE,
)
"""A bracket that says of a number that it is that of the chip, of which a product enables less."""


OTHER = re.compile(
    rf"({NUMBER})\s?[A-Za-z/]*?\s*(?:with |w/ ?|in |for )?(?:structured )?"
    r"((?:sparsity|sparse|dense|total|aggregate|bidirectional|unidirectional|one-way|(?:per|each) "
    r"direction|both directions)\b)",
    re.IGNORECASE,
)
"""In a bracket: another number, and the word that is said of it and not of the number before the bracket."""
OPPOSITE = {"sparse": "dense", "dense": "sparse", "total": "per_direction", "per_direction": "total"}


class Reading(NamedTuple):
    """A value that a cell states."""

    value: float
    unit: str
    """Empty where the cell has none."""
    qualifier: str = ""
    """dense | sparse, total | per_direction, or empty."""
    kind: str = ""
    """vector | matrix where the cell says so."""
    scope: str = ""
    """sm | block | thread where the cell says `per ...`."""
    doubt: str = ""
    """Why the number is no vendor's exact one: approximate, provisional ..."""


@dataclass(frozen=True)
class Refusal:
    """A cell that states no single value, and why."""

    reason: str


def read(text: str, words: Words) -> tuple[Reading, ...] | Refusal:
    """The values of a cell, in order; none for an empty one."""
    text = plain(text)
    if text.lower() in DASHES or words.kinds["fluff"].issuperset(
        word for part in words_of(text) for word in part.split("-")
    ):
        return ()
    if words.kinds["same"].intersection(words_of(re.sub(r"\([^)]*\)", " ", text))):
        return Refusal(f"inherited by prose: {text}")
    if re.search(r"→|->|⇒", text):
        return Refusal(f"two sides of an arrow: {text}")
    doubt = ", ".join(word for word in words_of(text) if word in words.kinds["doubt"])
    if words.kinds["measured"].intersection(words_of(text)) - words.kinds["doubt"]:
        return Refusal(f"measured, not published: {text}")
    if re.match(r"[<>≤≥]", text):
        return Refusal(f"a bound: {text}")
    formula = re.search(r"[=≈](?=[^=≈]*$)", text)
    if formula and formula.start() > 0:
        text = text[formula.end() :].strip()
    bare = re.sub(r"\([^)]*\)", " ", text)
    if RANGE.search(re.sub(r"\d+-bit", "", bare)):
        return Refusal(f"ambiguous: {text}")
    if not re.match(rf"(?:[~≈]|up to\b|about\b|around\b|approx\b)?\.?\s*{NUMBER}", bare, re.IGNORECASE):
        return Refusal(f"no number: {text}")
    readings = []
    for part in _parts(text):
        reading = _part(part, doubt, words)
        if reading is None:
            return Refusal(f"not understood: {text}")
        readings.append(reading)
    return tuple(readings)


def _parts(text: str) -> list[str]:
    """Cut where a further value follows: at `;`, or at `,`, `/` and `|` between two values that each have a unit."""
    unit = r"(?:[A-Za-z][A-Za-z/]*)"
    note = r"(?:\s*\([^)]*\)|\s+(?:dense|sparse))?"
    pair = re.compile(rf"({NUMBER}\s?{unit}{note})\s*[,/]\s+(?=(?:up to\s+)?{NUMBER}\s?{unit})", re.IGNORECASE)
    return [part.strip() for part in re.split(r";(?![^(]*\))", pair.sub(r"\1;", text)) if part.strip()]


def _part(text: str, doubt: str, words: Words) -> Reading | None:
    notes = " ".join(re.findall(r"\(([^)]*)\)", text))
    bare = re.sub(r"\s+", " ", re.sub(r"\([^)]*\)", " ", text)).strip()
    match = words.number.match(bare)
    if match is None:
        return None
    after = bare[match.end() :]
    if after[:1].isalnum() or re.match(r"\s*(?:[×x*^+](?!\w)|[×x*/+^]\s*\d|[:%])", after):
        return None
    rest = [word for part in words_of(after) for word in part.split("-")]
    if _of_many(rest, notes, match["unit"] or ""):
        return None
    if any(word not in words.kinds["fluff"] for word in rest):
        return None
    if match["mark"] in ("~", "≈") or match["mark"].lower() in ("about", "around", "approx", "approx."):
        doubt = ", ".join(filter(None, ("approximate", doubt)))
    said = set(rest) | set(words_of(notes))
    value, says = float(match["number"].replace(",", "")), qualifier(" ".join([after, notes]), words)
    rate = not match["unit"] or words.units[match["unit"]][0] in ("operations", "rate")
    other = OTHER.search(re.sub(r"\b\d\s*:\s*\d\b", " ", notes)) if rate else None
    if other:
        of_other = qualifier(other[2], words)
        twice = of_other in ("sparse", "total")
        ratio = float(other[1].replace(",", "")) / value if value else 0.0
        if not (1.9 <= ratio <= 2.1 if twice else 0.45 <= ratio <= 0.55):
            return None
        says = OPPOSITE[of_other]
    return Reading(
        value=value,
        unit=ONE.get(match["unit"], match["unit"]) or "",
        qualifier=says,
        kind=kind(" ".join([after, notes])),
        scope=next(
            (scope for scope, said_as in SCOPES.items() if said_as & set(rest) and ("per" in said or "/" in after)), ""
        ),
        doubt=doubt,
    )


def _of_many(rest: list[str], notes: str, unit: str) -> bool:
    """Whether the number is that of several GPUs together, of a part of one, or of a whole chip of which a product
    enables less."""
    said = words_of(notes)
    if WHOLE.fullmatch(notes):
        return True
    if "total" in rest and not unit.endswith("/s"):
        return True
    if re.search(r"\d\s*(?:GPUs|cards|accelerators)\b", notes, re.IGNORECASE) and "total" not in said:
        return True
    each = re.fullmatch(r"\s*(?:per|each)\s+(\w+).*", notes, re.IGNORECASE)
    return each is not None and each[1].lower() not in ("sm", "cu", "block", "gpu", "thread", "direction")


ONE = {"SMs": "SM", "CUs": "CU", "Watts": "W"}
"""One spelling of units that wikis print in two ways."""
SCOPES = {"block": {"block"}, "thread": {"thread"}, "sm": {"sm", "cu"}}


def qualifier(text: str, words: Words) -> str:
    """dense | sparse, total | per_direction as a text says; empty when it says nothing or both."""
    said = set(words_of(text))
    found = []
    if said & words.kinds["sparse"]:
        found.append("sparse")
    if "dense" in said:
        found.append("dense")
    if said & {"bidirectional", "total", "aggregate"} or {"both", "directions"} <= said:
        found.append("total")
    if said & {"unidirectional", "one-way"} or {"per", "direction"} <= said or {"each", "direction"} <= said:
        found.append("per_direction")
    return found[0] if len(found) == 1 else ""


def kind(text: str) -> str:
    """vector | matrix as a label or a note says; empty when it says neither, `both` when it says both."""
    text = text.lower()
    vector = re.search(r"non-?\s?matrix|non-?\s?tensor|\bvector\b|\bvfma\b|\bcuda\b|\bshader\b", text)
    rest = re.sub(r"non-?\s?(?:matrix|tensor)", " ", text)
    matrix = re.search(r"\btensor\b|\bmatrix\b|\bmfma\b|\btc\b|\bwmma\b", rest)
    return "both" if vector and matrix else "vector" if vector else "matrix" if matrix else ""
