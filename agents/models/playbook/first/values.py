"""What a reference computes as values that can be read element by element, and the C++ text of elements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agents.models.playbook.first.sizes import Size
from tools.artifacts import DType

Index = tuple[str, ...]
"""C++ text of one index an axis."""
STORED: dict[DType, str] = {
    "float64": "double",
    "float32": "float",
    "float16": "_Float16",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
"""Element types in memory."""
FLOATS: tuple[DType, ...] = ("float16", "float32", "float64")
ORDER: tuple[DType, ...] = ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS)
"""From the narrowest."""
Combine = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "scan"]


class Reader(Protocol):
    """Whoever writes out a loop: gives the text of an element, from memory or computed on the spot."""

    def at(self, value: Value, index: Index) -> str:
        """The element of `value` at `index`, of its `computed` type."""

    def guarded(self, value: Value, index: Index) -> str:
        """The same where the index is in range only if a condition in front of it holds."""


@dataclass(eq=False)
class Value:
    """A tensor that is computed where it is read."""

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    uses: tuple[tuple[Value, bool], ...] = ()
    """What it is made from; True: each element of that is read for several of these."""
    cost: int = 0
    """Of one element, in additions, without what it is made from."""
    text: Callable[[Reader, Index], str] = field(default=lambda reader, index: "", repr=False)

    @property
    def computed(self) -> DType:
        """In what type its elements are computed."""
        return "float32" if self.dtype == "float16" else self.dtype


@dataclass(eq=False)
class Argument(Value):
    """A tensor of the caller's."""


@dataclass(eq=False)
class View(Value):
    """Elements of another value at other places."""

    @property
    def base(self) -> Value:
        """What it is a view of."""
        return self.uses[0][0]


@dataclass(eq=False)
class Reduction(Value):
    """Elements of `source` put together along its axes `over`; a scan keeps them all."""

    source: Value = field(default_factory=lambda: Value("", "float32", ()))
    over: tuple[int, ...] = ()
    combine: Combine = "sum"
    wide: bool = True
    """Floats are added up in double."""


@dataclass(eq=False)
class Parts(Value):
    """Values one behind the other along an axis."""

    parts: tuple[Value, ...] = ()
    axis: int = 0
    offsets: tuple[Size, ...] = ()


def loops(shape: Sequence[Size], letter: str = "i") -> Index:
    """A loop's variable for each axis that needs one, and 0 for the others."""
    names, number = [], 0
    for size in shape:
        names.append("0" if size.one else f"{letter}{number}")
        number += not size.one
    return tuple(names)


def cast(text: str, given: DType, wanted: DType) -> str:
    """An element's text in another type."""
    if given == wanted:
        return text
    return f"{wrap(text)} != 0" if wanted == "bool" else f"{STORED[wanted]}({text})"


def constant(text: str, dtype: DType) -> str:
    """A number of `sizes.Scalars.number` as an operand of this type."""
    try:
        number = float(text)
    except ValueError:
        # Computed in double; a bare scalar of the kernel, or brackets around the whole, need no more.
        inner = text[len("double") :] if text.startswith("double(") and atomic(text) else text
        inner = inner[1:-1] if inner.startswith("(") and atomic(inner) else inner
        return text if dtype == "float64" else f"{STORED[dtype]}({inner})"
    if not math.isfinite(number):
        return "NAN" if math.isnan(number) else "INFINITY" if number > 0 else "-INFINITY"
    if dtype == "bool":
        return "true" if number else "false"
    if dtype not in FLOATS:
        return str(int(number))
    shown = text if any(c in text for c in ".en") else f"{text}.0"
    return f"{shown}f" if dtype != "float64" else shown


def wrap(text: str) -> str:
    """The text in brackets unless it is one operand already."""
    return text if atomic(text) else f"({text})"


def atomic(text: str) -> bool:
    """Whether it is a name, a number, a call, an element, or in brackets."""
    if re.fullmatch(r"[\d.]+(e[-+]?\d+)?f?", text):
        return True
    rest = text.lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:")
    if not rest:
        return True
    if rest[0] == "<":
        rest = rest[rest.find(">") + 1 :]
    if rest[:1] not in ("(", "["):
        return False
    depth = 0
    for position, sign in enumerate(rest):
        depth += (sign in "([") - (sign in ")]")
        if depth == 0:
            return position == len(rest) - 1 or rest[position:] == ")()"
    return False


def filled(template: str, texts: Sequence[str]) -> str:
    """A template of C++ with its operands, in brackets where they do not stand between brackets or commas."""

    def operand(found: re.Match[str]) -> str:
        text, before, behind = texts[int(found[1])], template[: found.start()].rstrip()[-1:], template[found.end() :][:1]
        return text if before in ("", "(", ",") and behind in ("", ")", ",") else wrap(text)

    return re.sub(r"\{(\d)\}", operand, template)


def plus(*terms: str) -> str:
    """Sum of indices, zeros left out."""
    kept = [term for term in terms if term != "0"]
    return " + ".join(kept) if kept else "0"


def times(a: str, b: str) -> str:
    """Product of indices; a product of sizes is taken in 64 bits."""
    if "0" in (a, b):
        return "0"
    return b if a == "1" else a if b == "1" else f"{wrap(a)} * {wrap(b)}"


def flat(index: Index, shape: Sequence[Size]) -> str:
    """Position in a row-major array."""
    position = "0"
    for at, size in zip(index, shape, strict=True):
        position = plus(times(position, size.text), at)
    return position
