"""Scratch arrays that live outside a loop but carry nothing from one iteration to the next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.effects import Access, read
from agents.models.playbook.polynomial import Poly
from agents.models.playbook.scopes import Declaration
from agents.models.playbook.syntax import Unit
from agents.models.playbook.tree import contains, walk

if TYPE_CHECKING:
    from tree_sitter import Node

BRANCHES = frozenset(
    {"if_statement", "conditional_expression", "while_statement", "do_statement", "switch_statement", "continue_statement"}
)


def filled_first(unit: Unit, loop: Loop, root: str, group: Sequence[Access]) -> bool:
    """Whether each iteration stores every element of `root` that it loads, before it loads it, and nobody loads one afterwards."""
    declaration = _local(unit, loop, root)
    if declaration is None or any(a.index is None or len(a.index) != 1 for a in group if a.write):
        return False
    function = unit.function_of(loop.node)
    if any(n.type == "identifier" and unit.text(n) == declaration.name and n.start_byte >= loop.node.end_byte for n in walk(function)):
        return False
    if _aliased(unit, loop, declaration):
        return False
    stores: list[Access] = []
    for access in group:
        if access.write and access.plain and _always(unit, loop, access.node):
            stores.append(access)
        elif not any(_covers(unit, loop, declaration, store, access) for store in stores):
            return False
    return True


def _local(unit: Unit, loop: Loop, root: str) -> Declaration | None:
    """A vector or array of this function, declared outside `loop` but inside all loops around it."""
    function = unit.function_of(loop.node)
    for node in walk(function.child_by_field_name("body")):
        if node.type != "identifier" or unit.text(node) != root.split("@")[0]:
            continue
        declaration = unit.declaration(node)
        if declaration is None or declaration.symbol != root or declaration.kind != "local" or declaration.form not in ("object", "array"):
            continue
        if declaration.form == "object" and "vector" not in declaration.type:
            return None
        around = loop.node.parent
        while around is not None and around != function:
            if around.type in ("for_statement", "while_statement", "do_statement") and not contains(around, declaration.node):
                return None
            around = around.parent
        return declaration
    return None


def _aliased(unit: Unit, loop: Loop, declaration: Declaration) -> bool:
    """Reached through a pointer or reference from outside, which would go on pointing at the one that all threads share."""
    reader = read(unit, loop.body)
    for node in walk(loop.node):
        named = unit.declaration(node) if node.type == "identifier" and unit.text(node) != declaration.name else None
        if named is None or named.kind != "local" or named.form not in ("pointer", "reference", "value") or contains(loop.node, named.node):
            continue
        target = reader.pointer(node, {}) if named.form != "reference" else None
        spoken = named.initial is not None and any(unit.text(n) == declaration.name for n in walk(named.initial))
        if (target is not None and target.root == declaration.symbol) or (named.form != "value" and spoken):
            return True
    return False


def _always(unit: Unit, loop: Loop, node: Node) -> bool:
    """Carried out in every iteration (of the loops around it)."""
    inside = contains(loop.body, node)
    function = unit.function_of(node)
    current = node.parent
    while current is not None and current != (loop.node if inside else function):
        if current.type in BRANCHES:
            return False
        current = current.parent
    if any(n.type == "continue_statement" for n in walk(loop.body)):
        return False
    if inside:
        return True
    calls = [n for n in walk(loop.body) if n.type == "call_expression" and unit.functions.get(unit.callee(n) or "") == function]
    return len(calls) == 1 and _always(unit, loop, calls[0])


def _covers(unit: Unit, loop: Loop, declaration: Declaration, store: Access, access: Access) -> bool:
    """The store, in all iterations of its loop, fills the element that the access loads."""
    if store.index is None:
        return False
    if store.index == access.index:
        return True
    mine = [r for r in store.ranges if store.index[0] == Poly.symbol(r.symbol)]
    if len(mine) != 1:
        return False
    size = _size(unit, loop, declaration)
    if mine[0].lower == Poly() and size is not None and any(u + Poly.constant(1) == size for u in mine[0].uppers):
        return True
    theirs = [r for r in access.ranges if access.index == (Poly.symbol(r.symbol),)]
    return len(theirs) == 1 and theirs[0].lower == mine[0].lower and set(theirs[0].uppers) <= set(mine[0].uppers)


def _size(unit: Unit, loop: Loop, declaration: Declaration) -> Poly | None:
    """Number of elements that a vector is made with."""
    if declaration.form != "object":
        return None
    reader = read(unit, loop.body)
    if declaration.initial is not None:
        made = declaration.initial.named_children
        return reader.poly(made[0], {}) if made else None
    # `vector<float> v(n)` reads like a function's declaration; n is looked up where it stands as a value.
    found = re.fullmatch(r".*\(\s*(\w+)\s*(?:,.*)?\)\s*;?", unit.text(declaration.node), re.DOTALL)
    body = loop.body if found is not None else None
    named = (
        next((n for n in walk(unit.function_of(body)) if n.type == "identifier" and unit.text(n) == found[1]), None)
        if body and found
        else None
    )
    return reader.poly(named, {}) if named is not None else None
