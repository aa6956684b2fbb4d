"""Edits that several recipes make: pragmas, loops around loops, strips, names replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import CppEdit, pragma_before, single_statement, walk

if TYPE_CHECKING:
    from tree_sitter import Node

COLLAPSE = " collapse(2)"


def insert_pragma(unit: Unit, node: Node, pragma: str, replaced: Node | None = None) -> list[CppEdit]:
    """Put `pragma` on a line of its own before `node`, in place of the pragma `replaced`."""
    if replaced is not None:
        return [CppEdit(replaced.start_byte, replaced.end_byte, pragma + "\n")]
    indent = unit.indent(node)
    if node.parent is None or node.parent.type != "compound_statement":
        return [
            CppEdit(node.start_byte, node.start_byte, f"{{\n{pragma}\n{indent}"),
            CppEdit(node.end_byte, node.end_byte, f"\n{indent}}}"),
        ]
    line = unit.code[unit.code.rfind(b"\n", 0, node.start_byte) + 1 : node.start_byte]
    own = f"\n{indent}" if line.strip() else ""
    return [CppEdit(node.start_byte, node.start_byte, f"{own}{pragma}\n{indent}")]


def uncollapsed(unit: Unit, loop: Loop) -> list[CppEdit]:
    """Edits that leave a pragma to the first of two loops, where it deals out both and `loop`, one of them, is about
    to be rewritten."""
    edits, around = [], enclosing(unit, loop)
    for one in (loop, around):
        pragma = pragma_before(one.node) if one is not None else None
        at = unit.text(pragma).encode().find(COLLAPSE.encode()) if pragma is not None else -1
        if pragma is not None and at >= 0:
            edits.append(CppEdit(pragma.start_byte + at, pragma.start_byte + at + len(COLLAPSE), ""))
    return edits


def enclosing(unit: Unit, loop: Loop) -> Loop | None:
    """The counted loop directly around a loop."""
    current = loop.node.parent
    while current is not None and current.type == "compound_statement":
        current = current.parent
    return unit.loop(current) if current is not None and current.type == "for_statement" else None


def nested(unit: Unit, outer: Loop) -> Loop | None:
    """The loop that is all of `outer`'s body, over a rectangle."""
    only = single_statement(outer.body)
    inner = unit.loop(only) if only is not None and only.type == "for_statement" else None
    if inner is None or any(unit.text(n) == outer.variable for b in (inner.lower, inner.upper) for n in walk(b)):
        return None
    return inner


def placed(unit: Unit, outer: Loop, constants: Sequence[str], text: str) -> list[CppEdit]:
    """The edits that put `text` in the place of a loop, with declarations of constants in front of the perfect nest
    that it lies in."""
    top, indent = outer, unit.indent(outer.node)
    while (around := enclosing(unit, top)) is not None and nested(unit, around) is top:
        top = around
    if top.node.parent is not None and top.node.parent.type == "compound_statement":
        start = pragma_before(top.node) or top.node
        declared = CppEdit(start.start_byte, start.start_byte, f"\n{indent}".join([*constants, ""]))
        return [
            *uncollapsed(unit, outer),
            declared,
            CppEdit(outer.node.start_byte, outer.node.end_byte, indented(text, indent)),
        ]
    block = "\n".join(["{", *(f"  {c}" for c in constants), f"  {indented(text, '  ')}", "}"])
    return [*uncollapsed(unit, outer), CppEdit(outer.node.start_byte, outer.node.end_byte, indented(block, indent))]


def strip_head(unit: Unit, loop: Loop, length: str) -> list[str]:
    v, kind, end = loop.variable, counter_type(loop), bound(unit, loop)
    return [
        f"for ({kind} {v}_strip = {unit.text(loop.lower)}; {v}_strip < {end}; {v}_strip += {length}) {{",
        f"  const {kind} {v}_end = {v}_strip + {length} < {end} ? {v}_strip + {length} : {end};",
    ]


def bound(unit: Unit, loop: Loop) -> str:
    text = unit.text(loop.upper)
    return f"({text}) + 1" if loop.inclusive else text if re.fullmatch(r"\w+", text) else f"({text})"


def counter_type(loop: Loop) -> str:
    """Type of a loop's variable."""
    return loop.declaration.type if loop.declaration is not None and loop.declaration.type else "long"


def renamed(unit: Unit, node: Node, names: Mapping[str, str]) -> str:
    """Text of `node` with plain names replaced."""
    text = unit.code[node.start_byte : node.end_byte]
    for inner in reversed([n for n in walk(node) if n.type == "identifier" and unit.text(n) in names]):
        start, end = inner.start_byte - node.start_byte, inner.end_byte - node.start_byte
        text = text[:start] + names[unit.text(inner)].encode() + text[end:]
    return text.decode()


def indented(text: str, indent: str, first: bool = False) -> str:
    """`text` with its lines moved right, the first one only on request."""
    moved = text.replace("\n", f"\n{indent}")
    return indent + moved if first else moved
