"""Pointers that a loop moves along, written as indices: what is walked shows, and iterations no longer wait for each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.syntax import Declaration, Edit, Loop, Unit, contains, pragma_before, statements, walk

if TYPE_CHECKING:
    from tree_sitter import Node


class IndexPointers(Recipe):
    """`const float* p = a + j; for (i) { s += *p; p += n; }` as `s += p[i * n]`."""

    name = "index_pointers"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                if loop.step is None and pragma_before(unit, loop.node) is None:
                    for step in _steps(unit, loop):
                        yield _indexed(unit, loop, *step)


def _steps(unit: Unit, loop: Loop) -> Iterator[tuple[Node, Node, str]]:
    """Statements of the loop's body itself that move a pointer on by something that does not change: statement, pointer, step."""
    if loop.body.type != "compound_statement" or any(n.type in ("continue_statement", "break_statement") for n in walk(loop.body)):
        return
    for node in statements(loop.body):
        inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
        if inner is not None and inner.type == "update_expression":
            name, text = inner.child_by_field_name("argument"), "1" if "++" in unit.text(inner) else ""
        elif inner is not None and inner.type == "assignment_expression" and unit.binary(inner)[0] == "+=":
            _, name, by = unit.binary(inner)
            changed = {*unit.assigned(loop.body), loop.variable}
            fixed = all(n.type in ("identifier", "number_literal", "binary_expression", "parenthesized_expression") for n in walk(by))
            text = unit.text(by) if fixed and not any(unit.text(n) in changed for n in walk(by)) else ""
        else:
            continue
        if name is not None and name.type == "identifier" and text:
            yield node, name, text


def _indexed(unit: Unit, loop: Loop, step: Node, name: Node, by: str) -> list[Edit]:
    declaration = unit.declaration(name)
    if declaration is None or declaration.form != "pointer" or not _only_here(unit, loop, declaration):
        return []
    word, lower = declaration.name, unit.text(loop.lower)
    count = loop.variable if lower == "0" else f"({loop.variable} - ({lower}))"
    offset = f"(long){count}" if by == "1" else f"(long){count} * ({by})"
    edits = [Edit(step.start_byte, step.end_byte, "")]
    for use in walk(loop.body):
        if use.type != "identifier" or unit.text(use) != word or contains(step, use):
            continue
        parent = use.parent
        if use.start_byte > step.start_byte or parent is None:
            return []
        if parent.type == "pointer_expression" and unit.text(parent).startswith("*"):
            edits.append(Edit(parent.start_byte, parent.end_byte, f"{word}[{offset}]"))
        elif parent.type == "subscript_expression" and parent.child_by_field_name("argument") == use:
            edits.append(Edit(use.start_byte, use.end_byte, f"({word} + {offset})"))
        else:
            return []
    return edits


def _only_here(unit: Unit, loop: Loop, declaration: Declaration) -> bool:
    """Declared with a value in the block of the loop, moved once, and not looked at behind the loop or by an outer turn."""
    block = loop.node.parent
    if declaration.kind != "local" or declaration.initial is None or block is None or declaration.scope != block:
        return False
    if unit.assigned(declaration.scope).count(declaration.name) != 1:
        return False
    uses = (n for n in walk(declaration.scope) if n.type == "identifier" and unit.text(n) == declaration.name)
    return all(contains(loop.body, n) or contains(declaration.node, n) for n in uses)
