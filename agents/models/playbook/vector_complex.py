"""Products of std::complex in the plain form: GCC's own asks each whether it is NaN, to mend infinities, and then calls a function."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.models.playbook.reductions import call_name
from agents.models.playbook.syntax import Edit, Unit
from agents.models.playbook.tree import strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

SAME = frozenset({"conj", "polar"})
"""Functions whose result is complex whatever they are given."""


def complex_product(kind: str) -> str:
    """kw_cmul of std::complex<kind>: what the C++ standard asks for, which says nothing of infinite parts."""
    name = f"std::complex<{kind}>"
    return f"""static inline __attribute__((always_inline)) {name} kw_cmul({name} x, {name} y) {{
  return {{x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()}};
}}
"""


def products(unit: Unit, function: Node) -> Iterator[tuple[str, list[Edit]]]:
    """Each `a * b` of two complex values, with the kind of their parts and the edits that make it a call."""
    if re.search(r"operator\s*\*|\b(?:struct|class|union)\s+complex\b", unit.source):
        # The file has a product of its own.
        return
    for node in walk(function.child_by_field_name("body")):
        if node.type != "binary_expression":
            continue
        operator, left, right = unit.binary(node)
        kinds = {complex_kind(unit, left), complex_kind(unit, right)}
        if operator == "*" and len(kinds) == 1 and (kind := kinds.pop()):
            yield (
                kind,
                [
                    Edit(node.start_byte, node.start_byte, "kw_cmul("),
                    Edit(left.end_byte, right.start_byte, ", "),
                    Edit(node.end_byte, node.end_byte, ")"),
                ],
            )


def complex_kind(unit: Unit, node: Node) -> str:
    """ "float" or "double" of a value that is surely complex of it; else ""."""
    node = strip(node)
    if node.type == "identifier":
        declaration = unit.declaration(node)
        if declaration is None or declaration.form not in ("value", "reference"):
            return ""
        if declaration.type == "auto" and declaration.initial is not None:
            return complex_kind(unit, declaration.initial)
        return _told(unit, declaration.type)
    if node.type in ("subscript_expression", "pointer_expression"):
        array = node.child_by_field_name("argument")
        declaration = unit.declaration(strip(array)) if array is not None and strip(array).type == "identifier" else None
        if declaration is None or unit.text(node).startswith("&"):
            return ""
        if declaration.form == "object":
            inner = re.fullmatch(r"(?:std::)?(?:vector|array)<\s*(.+?)\s*(?:,[^<>]*)?>", declaration.type)
            return _told(unit, inner[1]) if inner is not None else ""
        return _told(unit, declaration.type) if declaration.form in ("pointer", "array") else ""
    if node.type == "binary_expression":
        operator, left, right = unit.binary(node)
        kinds = {complex_kind(unit, left), complex_kind(unit, right)} - {""}
        return kinds.pop() if operator in ("+", "-", "*", "/") and len(kinds) == 1 else ""
    if node.type == "unary_expression":
        argument = node.child_by_field_name("argument")
        return complex_kind(unit, argument) if argument is not None and unit.text(node)[0] in "+-" else ""
    if node.type == "call_expression":
        name, arguments = call_name(unit, node), unit.arguments(node)
        return complex_kind(unit, arguments[0]) if name in {*SAME, "kw_cmul"} and arguments else _told(unit, name)
    return ""


def _told(unit: Unit, text: str) -> str:
    """From the words of a type."""
    words = " ".join(w for w in text.split() if w != "const")
    words = unit.aliases.get(words, words)
    found = re.fullmatch(r"(?:std::)?complex\s*<\s*(float|double)\s*>", words.removeprefix("const ").strip())
    return found[1] if found is not None else ""
