"""Edits that several recipes make: pragmas, loops around loops, strips, names replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import CountedLoop
from agents.models.playbook.analysis.unit import CppUnit
from tools.languages.cpp_source import CppEdit, pragma_before, single_statement, walk

if TYPE_CHECKING:
    from tree_sitter import Node

COLLAPSE_CLAUSE = " collapse(2)"


def insert_pragma(unit: CppUnit, node: Node, pragma: str, replaced: Node | None = None) -> list[CppEdit]:
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


def remove_collapse(unit: CppUnit, loop: CountedLoop) -> list[CppEdit]:
    """Edits that leave a pragma to the first of two loops, where it deals out both and `loop`, one of them, is about
    to be rewritten."""
    edits, around = [], enclosing_loop(unit, loop)
    for one in (loop, around):
        pragma = pragma_before(one.node) if one is not None else None
        at = unit.text(pragma).encode().find(COLLAPSE_CLAUSE.encode()) if pragma is not None else -1
        if pragma is not None and at >= 0:
            edits.append(CppEdit(pragma.start_byte + at, pragma.start_byte + at + len(COLLAPSE_CLAUSE), ""))
    return edits


def enclosing_loop(unit: CppUnit, loop: CountedLoop) -> CountedLoop | None:
    """The counted loop directly around a loop."""
    current = loop.node.parent
    while current is not None and current.type == "compound_statement":
        current = current.parent
    return unit.loop(current) if current is not None and current.type == "for_statement" else None


def perfectly_nested_loop(unit: CppUnit, outer: CountedLoop) -> CountedLoop | None:
    """The loop that is all of `outer`'s body, over a rectangle."""
    only = single_statement(outer.body)
    inner = unit.loop(only) if only is not None and only.type == "for_statement" else None
    if inner is None or any(unit.text(n) == outer.variable for b in (inner.lower, inner.upper) for n in walk(b)):
        return None
    return inner


def replace_loop(unit: CppUnit, outer: CountedLoop, constants: Sequence[str], text: str) -> list[CppEdit]:
    """The edits that put `text` in the place of a loop, with declarations of constants in front of the perfect nest
    that it lies in."""
    top, indent = outer, unit.indent(outer.node)
    while (around := enclosing_loop(unit, top)) is not None and perfectly_nested_loop(unit, around) is top:
        top = around
    if top.node.parent is not None and top.node.parent.type == "compound_statement":
        start = pragma_before(top.node) or top.node
        declared = CppEdit(start.start_byte, start.start_byte, f"\n{indent}".join([*constants, ""]))
        return [
            *remove_collapse(unit, outer),
            declared,
            CppEdit(outer.node.start_byte, outer.node.end_byte, indent_lines(text, indent)),
        ]
    block = "\n".join(["{", *(f"  {c}" for c in constants), f"  {indent_lines(text, '  ')}", "}"])
    return [
        *remove_collapse(unit, outer),
        CppEdit(outer.node.start_byte, outer.node.end_byte, indent_lines(block, indent)),
    ]


def strip_header(unit: CppUnit, loop: CountedLoop, length: str) -> list[str]:
    v, kind, end = loop.variable, counter_type(loop), upper_bound_text(unit, loop)
    return [
        f"for ({kind} {v}_strip = {unit.text(loop.lower)}; {v}_strip < {end}; {v}_strip += {length}) {{",
        f"  const {kind} {v}_end = {v}_strip + {length} < {end} ? {v}_strip + {length} : {end};",
    ]


def upper_bound_text(unit: CppUnit, loop: CountedLoop) -> str:
    text = unit.text(loop.upper)
    return f"({text}) + 1" if loop.is_inclusive else text if re.fullmatch(r"\w+", text) else f"({text})"


def counter_type(loop: CountedLoop) -> str:
    """Type of a loop's variable."""
    return loop.declaration.type if loop.declaration is not None and loop.declaration.type else "long"


def text_with_names(unit: CppUnit, node: Node, names: Mapping[str, str]) -> str:
    """Text of `node` with plain names replaced."""
    text = unit.code[node.start_byte : node.end_byte]
    for inner in reversed([n for n in walk(node) if n.type == "identifier" and unit.text(n) in names]):
        start, end = inner.start_byte - node.start_byte, inner.end_byte - node.start_byte
        text = text[:start] + names[unit.text(inner)].encode() + text[end:]
    return text.decode()


def indent_lines(text: str, indent: str, first: bool = False) -> str:
    """`text` with its lines moved right, the first one only on request."""
    moved = text.replace("\n", f"\n{indent}")
    return indent + moved if first else moved
