"""Function-like macros of the file itself, replaced where they are used: `A(i, j)` hides an element that recipes must see."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from agents.models.playbook.syntax import Edit, Unit, parsed
from agents.models.playbook.tree import walk

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_ROUNDS = 8
"""Of macros that use macros."""
NO_EXPRESSION = re.compile(r"#|[;{}]|\b(?:do|while|for|if|return)\b|__VA_ARGS__")
DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+\w+\(", re.MULTILINE)


@dataclass(frozen=True)
class Macro:
    """`#define name(parameters) text`, where text is an expression."""

    parameters: tuple[str, ...]
    text: str
    end: int
    """Byte behind the definition."""


@lru_cache(maxsize=16)
def expanded(source: str) -> str:
    """`source` as the preprocessor would leave it where it calls its own macros; as it was where nothing can be replaced safely."""
    if not DEFINED.search(source):
        return source
    unit = parsed(source)
    for _ in range(MAX_ROUNDS):
        macros = _macros(unit)
        edits = _uses(unit, macros)
        if not edits:
            break
        unit = parsed(unit.apply(edits))
    return source if unit.broken else unit.source


def macro_words(unit: Unit) -> set[str]:
    """Every name in the texts of macros: what one stands for depends on where it is used."""
    values = [n.child_by_field_name("value") for n in walk(unit.root) if n.type in ("preproc_def", "preproc_function_def")]
    return {word for value in values if value is not None for word in re.findall(r"\b[A-Za-z_]\w*", unit.text(value))}


def _macros(unit: Unit) -> dict[str, Macro]:
    """Those defined once, outside any #if, and never undefined."""
    found: dict[str, Macro] = {}
    defined = Counter(re.findall(r"#[ \t]*(?:define|undef)[ \t]+(\w+)", unit.source))
    for node in walk(unit.root):
        name, parameters, value = (node.child_by_field_name(f) for f in ("name", "parameters", "value"))
        if node.type != "preproc_function_def" or name is None or parameters is None or value is None or _conditional(node):
            continue
        text = re.sub(r"//.*|/\*.*?\*/", " ", unit.text(value).replace("\\\n", " ")).strip()
        names = tuple(unit.text(p) for p in parameters.named_children)
        if defined[unit.text(name)] == 1 and text and not NO_EXPRESSION.search(text):
            found[unit.text(name)] = Macro(names, text, node.end_byte)
    return found


def _conditional(node: Node) -> bool:
    current = node.parent
    while current is not None:
        if current.type.startswith("preproc_"):
            return True
        current = current.parent
    return False


def _uses(unit: Unit, macros: Mapping[str, Macro]) -> list[Edit]:
    """Outermost calls of macros; those inside their arguments wait for the next round."""
    edits: list[Edit] = []
    for node in walk(unit.root):
        callee = node.child_by_field_name("function") if node.type == "call_expression" else None
        macro = macros.get(unit.text(callee)) if callee is not None and callee.type == "identifier" else None
        if macro is None or node.start_byte < macro.end or (edits and node.start_byte < edits[-1].end):
            continue
        arguments = [unit.text(a) for a in unit.arguments(node)]
        if len(arguments) == len(macro.parameters):
            values = dict(zip(macro.parameters, arguments, strict=True))
            text = re.sub(r"\b[A-Za-z_]\w*\b", lambda found: values.get(found[0], found[0]), macro.text)  # noqa: B023
            edits.append(Edit(node.start_byte, node.end_byte, text))
    return edits
