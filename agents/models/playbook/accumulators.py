"""An accumulator in memory, kept in a scalar while the loop runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.models.playbook.contraction import unconditional
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.effects import read
from agents.models.playbook.element_types import floating
from agents.models.playbook.polynomial import Poly, loaded
from agents.models.playbook.syntax import OPAQUE, Edit, Unit, fresh, pragma_before
from agents.models.playbook.tree import contains, walk

if TYPE_CHECKING:
    from tree_sitter import Node


def in_scalar(unit: Unit, loop: Loop) -> Iterator[list[Edit]]:
    """An element that the loop reads and writes again and again, always the same one, is kept in a scalar while the loop runs."""
    reader = read(unit, loop.body)
    parent, first = loop.node.parent, pragma_before(unit, loop.node)
    if reader.effects.problem or parent is None or first is not None or any(n.type == "preproc_call" for n in walk(loop.body)):
        return
    ends = [bound for bound in (loop.lower, loop.upper, loop.step) if bound is not None]
    if any(n.type in ("subscript_expression", "pointer_expression") for bound in ends for n in walk(bound)):
        return
    if any(n.type in ("break_statement", "return_statement", "goto_statement") for n in walk(loop.body)):
        return
    elements = [n for n in walk(loop.body, skip=OPAQUE) if n.type in ("subscript_expression", "pointer_expression")]
    for root, index in dict.fromkeys((a.root, a.index) for a in reader.effects.accesses if a.write):
        mine = [a for a in reader.effects.accesses if a.root == root and a.index == index]
        others = [a for a in reader.effects.accesses if a.root == root and a.index != index]
        same = [n for n in elements if (found := reader.element(n, {})) is not None and found == (root, index)]
        moves = any(n == loop.symbol or loaded(n, loop.symbol) for p in index or () for n in p.symbols)
        if (
            index is None
            or moves
            or not all(_another(a.index, index) for a in others)
            or not all(_fixed(unit, loop, n) and not guarded(unit, loop, n) for n in same)
            or not any(unconditional(loop, n) or _touched_before(unit, loop, n) for n in same)
        ):
            continue
        kind = floating(unit, same[0]) if same else ""
        if any(a.node not in elements or floating(unit, a.node) != kind for a in others):
            # Of another width, or somewhere that cannot be seen: indices say nothing.
            continue
        # All accesses are written in this loop, none in a helper; one that only writes gains nothing.
        if len(same) < len({a.node.id for a in mine}) or not any(not a.write or not a.plain for a in mine) or not kind:
            continue
        name, indent, target = fresh(unit, "kw_sum"), unit.indent(loop.node), unit.text(same[0])
        yield [
            Edit(loop.node.start_byte, loop.node.start_byte, f"{{\n{indent}  auto {name} = {target};\n{indent}  "),
            *(Edit(n.start_byte, n.end_byte, name) for n in same),
            Edit(loop.node.end_byte, loop.node.end_byte, f"\n{indent}  {target} = {name};\n{indent}}}"),
        ]


def _fixed(unit: Unit, loop: Loop, element: Node) -> bool:
    """The same element, under the same name, before and after the loop."""
    inside = [n for n in walk(element) if n.type == "identifier" and (d := unit.declaration(n)) is not None and contains(loop.node, d.node)]
    assigned = unit.assigned(loop.body)
    return not inside and not any(n.type == "identifier" and unit.text(n) in assigned for n in walk(element))


def _touched_before(unit: Unit, loop: Loop, element: Node) -> bool:
    """Whether a statement ahead in the block stores to the element, so that it is there also where the loop would not touch it."""
    ahead = loop.node.prev_named_sibling
    while ahead is not None:
        for node in walk(ahead) if ahead.type == "expression_statement" else ():
            if node.type == element.type and unit.text(node) == unit.text(element):
                return True
        ahead = ahead.prev_named_sibling
    return False


def guarded(unit: Unit, loop: Loop, node: Node) -> bool:
    """Whether a condition inside the loop asks about an index or a pointer in `node`: the element may not be there where it does not
    hold."""
    places = [n for n in walk(node) if n.type == "subscript_argument_list"]
    names = {unit.text(n) for place in places for n in walk(place) if n.type == "identifier"}
    pointers = {unit.text(n.named_children[0]) for n in walk(node) if n.type in ("subscript_expression", "pointer_expression")}
    while names | pointers and node.parent is not None and node != loop.body:
        above, asked = node.parent, None
        if above.type in ("if_statement", "conditional_expression"):
            asked = above.child_by_field_name("condition")
        elif above.type == "binary_expression" and unit.binary(above)[0] in ("&&", "||"):
            asked = unit.binary(above)[1]
        for name in walk(asked) if asked is not None and asked != node else ():
            if name.type == "identifier" and (unit.text(name) in names or (unit.text(name) in pointers and not _followed(name))):
                return True
        node = above
    return False


def _followed(name: Node) -> bool:
    """Whether a pointer is named for one of its elements, and not for itself."""
    above = name.parent
    return above is not None and above.type in ("subscript_expression", "pointer_expression") and above.named_children[0] == name


def _another(index: tuple[Poly, ...] | None, other: tuple[Poly, ...]) -> bool:
    """Certainly another element: a number lies between two of their indices."""
    return index is not None and len(index) == len(other) and any((a - b).value for a, b in zip(index, other, strict=True))
