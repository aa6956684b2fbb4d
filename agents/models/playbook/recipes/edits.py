"""Edits and questions that several recipes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import Edit, single, walk

if TYPE_CHECKING:
    from tree_sitter import Node


def insert_pragma(unit: Unit, node: Node, pragma: str, replaced: Node | None = None) -> list[Edit]:
    """Put `pragma` on a line of its own before `node`, in place of the pragma `replaced`."""
    if replaced is not None:
        return [Edit(replaced.start_byte, replaced.end_byte, pragma + "\n")]
    indent = unit.indent(node)
    if node.parent is None or node.parent.type != "compound_statement":
        return [
            Edit(node.start_byte, node.start_byte, f"{{\n{pragma}\n{indent}"),
            Edit(node.end_byte, node.end_byte, f"\n{indent}}}"),
        ]
    line = unit.code[unit.code.rfind(b"\n", 0, node.start_byte) + 1 : node.start_byte]
    own = f"\n{indent}" if line.strip() else ""
    return [Edit(node.start_byte, node.start_byte, f"{own}{pragma}\n{indent}")]


def nested(unit: Unit, outer: Loop) -> Loop | None:
    """The loop that is all of `outer`'s body, over a rectangle."""
    only = single(outer.body)
    inner = unit.loop(only) if only is not None and only.type == "for_statement" else None
    if inner is None or any(unit.text(n) == outer.variable for b in (inner.lower, inner.upper) for n in walk(b)):
        return None
    return inner
