"""Elementary functions as C++ text that the compiler can inline into a vector loop: for lifted kernels and for the
recipe `vector_exp`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

Key = tuple[str, str]
"""Function and element type."""
DEFINED = re.compile(r"(?:^constexpr [^\n]*\n)?^static inline \S+ (\w+) kw_(\w+)\(.*?\}$", re.MULTILINE | re.DOTALL)
FUNCTIONS: dict[Key, str] = {
    (found[2], found[1]): found[0] + "\n" for found in DEFINED.finditer(Path(__file__).with_suffix(".hpp").read_text())
}
"""The C++ text of each, in an order in which each comes after what it calls."""
WIDER = frozenset({("exp", "double"), ("log", "double"), ("pick", "float")})
"""What the power of two floats is made of; every other function calls those of its own type."""


def with_called_functions(keys: Iterable[Key]) -> set[Key]:
    """Return the keys of these functions and of all functions that they call."""
    needed = set(keys)
    while more := {one for key in needed for one in _called_functions(key)} - needed:
        needed |= more
    return needed


def sources_of_called_functions(code: str) -> str:
    """The functions that `code` calls, for the types that it names, and what they call."""
    needed = with_called_functions(
        key for key in FUNCTIONS if re.search(rf"\bkw_{key[0]}\(", code) and re.search(rf"\b{key[1]}\b", code)
    )
    return "".join(f"{text}\n" for key, text in FUNCTIONS.items() if key in needed)


def _called_functions(key: Key) -> set[Key]:
    if key == ("pow", "float"):
        return set(WIDER)
    return {(name, key[1]) for name in re.findall(r"kw_([a-z]\w*)\(", FUNCTIONS[key])} - {key}
