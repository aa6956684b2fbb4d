"""Scalars declared outside a loop: set anew in each iteration, added up over all of them, or carried from one to the
next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.analysis.declarations import Declaration
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.reductions import Reduction, find_reductions
from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import node_contains, walk

if TYPE_CHECKING:
    from tree_sitter import Node


def carried(unit: Unit, loop: Loop) -> tuple[tuple[str, ...], tuple[Reduction, ...], str]:
    """Names that are set anew, reductions, and why neither explains some other scalar; empty where all are
    explained."""
    outside: dict[str, list[Node]] = {}
    written = set(unit.written_names(loop.body))
    for node in walk(loop.body):
        if node.type != "identifier":
            continue
        declaration = unit.declaration(node)
        if declaration is None or node_contains(loop.node, declaration.node):
            continue
        if declaration.form == "value":
            outside.setdefault(declaration.name, []).append(node)
        elif declaration.form == "pointer" and declaration.name in written:
            return (), (), f"{declaration.name} walks from one iteration to the next"
    reductions = {r.name: r for r in find_reductions(unit, loop.body)}
    private, reduced = [], []
    for name, uses in outside.items():
        if name not in written:
            continue
        if name in reductions:
            reduced.append(reductions[name])
        elif (
            _set_first(unit, loop, uses)
            and (own := unit.declaration(uses[0])) is not None
            and not read_later(unit, loop, own)
        ):
            private.append(name)
        else:
            return (), (), f"{name} carries a value from one iteration to the next"
    return tuple(private), tuple(reduced), ""


def _set_first(unit: Unit, loop: Loop, uses: list[Node]) -> bool:
    """The first mention in the body is an assignment that every iteration carries out."""
    first = uses[0]
    parent = first.parent
    if parent is None or parent.type != "assignment_expression":
        return False
    operator, left, right = unit.split_binary(parent)
    if operator != "=" or left != first or any(node_contains(right, u) for u in uses):
        return False
    # Every later use stands inside the same statement list, so the assignment dominates it.
    holder = parent.parent
    if holder is not None and holder.type == "for_statement":
        inner = unit.loop(holder)
        if (
            inner is not None
            and inner.variable == unit.text(first)
            and all(node_contains(holder, u) or _is_reset(unit, u) for u in uses)
        ):
            return True
    while holder is not None and holder.type == "expression_statement":
        holder = holder.parent
    return (
        holder is not None
        and node_contains(loop.body, holder)
        and (holder == loop.body or all(node_contains(holder, u) for u in uses))
    )


def _is_reset(unit: Unit, use: Node) -> bool:
    """Stands in a loop that starts by setting it."""
    current: Node | None = use
    while current is not None:
        if current.type == "for_statement":
            loop = unit.loop(current)
            if loop is not None and loop.variable == unit.text(use) and not loop.declared_here:
                return True
        current = current.parent
    return False


def read_later(unit: Unit, loop: Loop, declaration: Declaration) -> bool:
    """Whether a mention after the loop, or before it where an outer loop comes round, reads the value left by it."""
    function = unit.enclosing_function(loop.node)
    if _read_between(unit, function, declaration, loop.node.end_byte, function.end_byte):
        return True
    current = loop.node.parent
    while current is not None and current != function:
        around = current.type in ("for_statement", "while_statement", "do_statement") and not node_contains(
            current, declaration.node
        )
        if around and _read_between(unit, current, declaration, current.start_byte, loop.node.start_byte):
            return True
        current = current.parent
    return False


def _read_between(unit: Unit, region: Node, declaration: Declaration, start: int, end: int) -> bool:
    """Whether the region's bytes from `start` to `end` may read a scalar before they have set it."""
    reached = start
    for node in walk(region):
        if node.type != "identifier" or unit.text(node) != declaration.name or not reached <= node.start_byte < end:
            continue
        own = unit.declaration(node)
        if own is None or own.symbol != declaration.symbol or node_contains(declaration.node, node):
            continue
        covered = _set_here(unit, node)
        if covered is None:
            return True
        if node_contains(covered, region) or covered == region or covered.end_byte >= end:
            return False
        reached = covered.end_byte
    return False


def _set_here(unit: Unit, name: Node) -> Node | None:
    """The stretch of code that runs only after `name` was set by this mention; None where the mention reads it."""
    assignment = name.parent
    if assignment is None or assignment.type != "assignment_expression":
        return None
    operator, left, right = unit.split_binary(assignment)
    if (
        operator != "="
        or left != name
        or any(n.type == "identifier" and unit.text(n) == unit.text(name) for n in walk(right))
    ):
        return None
    holder = assignment.parent
    if holder is not None and holder.type == "expression_statement":
        inside = holder.parent
        return inside if inside is not None and inside.type == "compound_statement" else holder
    return holder if holder is not None and holder.type == "for_statement" else None
