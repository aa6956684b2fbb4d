"""A work array that each iteration stores to before it loads from the same place, made a scalar: what merging two passes leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.declarations import Declaration, declared_in
from agents.models.playbook.analysis.effects import Access, read
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import Edit, contains, fresh, walk

if TYPE_CHECKING:
    from tree_sitter import Node

WITHIN = frozenset(
    ("if_statement", "conditional_expression", "while_statement", "do_statement", "switch_statement", "continue_statement",
     "for_statement", "for_range_loop", "lambda_expression")
)  # fmt: skip
"""What may carry out what stands in it never, or more than once."""
ELEMENT = re.compile(r"(?:std::)?vector\s*<\s*([\w:]+(?:\s+\w+)*)\s*>")
MADE = re.compile(r"[^={}]*\(\s*[^,{}]*\)\s*;|[^={}(]*\[[^={}]*\]\s*;")
"""A declaration with a length and no first values."""


def contracted(unit: Unit, loop: Loop) -> Iterator[list[Edit]]:
    """Edits that replace one work array, declared alone in the block around `loop` and used in its body only."""
    block = loop.node.parent
    if block is None or block.type != "compound_statement" or loop.body.type != "compound_statement":
        return
    for array in declared_in(unit, block):
        kind, alone = _element(array), len(array.node.children_by_field_name("declarator")) == 1
        stored = any(n.type == "storage_class_specifier" for n in array.node.children)
        if not kind or "bool" in kind or not alone or stored or not MADE.fullmatch(unit.text(array.node)):
            continue
        places = _places(unit, loop, array)
        if places:
            name, start, indent = fresh(unit, f"kw_{array.name}"), loop.body.start_byte + 1, unit.indent(loop.node)
            yield [
                Edit(array.node.start_byte, array.node.end_byte, ""),
                Edit(start, start, f"\n{indent}  {kind} {name};"),
                *(Edit(n.start_byte, n.end_byte, name) for n in places),
            ]


def _element(array: Declaration) -> str:
    found = ELEMENT.fullmatch(array.type.strip()) if array.form == "object" else None
    return array.type.removeprefix("const ").strip() if array.form == "array" else found[1] if found is not None else ""


def _places(unit: Unit, loop: Loop, array: Declaration) -> list[Node]:
    """Every `w[i]` in the source, all in the loop's body and all the same element of one iteration, the first of them a plain store that
    no branch passes by; [] where any use is of another kind."""
    named = [n for n in walk(array.scope) if n.type == "identifier" and unit.text(n) == array.name and not contains(array.node, n)]
    reader = read(unit, loop.body)
    mine = [a for a in reader.effects.accesses if a.root == array.symbol]
    if reader.effects.problem or not named or not mine:
        return []
    places = [n.parent for n in named if n.parent is not None and n.parent.type == "subscript_expression" and n.parent.children[0] == n]
    same = mine[0].index is not None and all(a.index == mine[0].index and not a.ranges for a in mine)
    whole = {n.start_byte for n in places} == {a.node.start_byte for a in mine} and all(contains(loop.body, n) for n in places)
    if len(places) != len(named) or not same or not whole or not all(unit.declaration(n) == array for n in named):
        return []
    first = min(mine, key=_carried_out)
    jumps = any(n.type in ("continue_statement", "break_statement", "goto_statement") for n in walk(loop.body))
    sound = first.write and first.plain and unconditional(loop, first.node) and _steady(unit, loop, places) and not jumps
    return places if sound else []


def _carried_out(access: Access) -> tuple[int, bool]:
    """In the order of the text; of `w[i] = w[i] + 1` the load comes first."""
    statement = access.node
    while statement.parent is not None and not statement.type.endswith("statement") and statement.type != "declaration":
        statement = statement.parent
    return (statement.start_byte, access.write)


def unconditional(loop: Loop, node: Node) -> bool:
    """Whether every iteration carries `node` out, and once, but for a `continue` ahead of it."""
    current = node.parent
    while current is not None and current != loop.body:
        if current.type in WITHIN or (current.type == "binary_expression" and current.children[1].type in ("&&", "||")):
            return False
        current = current.parent
    return current == loop.body and loop.body.type not in WITHIN


def _steady(unit: Unit, loop: Loop, places: list[Node]) -> bool:
    """Nothing in the subscripts changes while an iteration runs."""
    changed = unit.assigned(loop.body)
    return not any(n.type == "identifier" and unit.text(n) in changed for place in places for n in walk(place.children[1]))
