"""Work that does not change from one iteration to the next, moved out of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.conditions import COMPARISONS
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.effects import PURE, read
from agents.models.playbook.element_types import floating
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.polynomial import loaded
from agents.models.playbook.reductions import call_name
from agents.models.playbook.syntax import OPAQUE, Edit, Unit, fresh, pragma_before
from agents.models.playbook.tree import contains, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node


WHOLE = frozenset({"floor", "ceil", "round", "trunc", "rint", "nearbyint", "lrint", "lround", "llrint", "llround", "fmod", "int"})

MAX_COPIES = 3


class HoistInvariants(Recipe):
    """Division by an invariant becomes multiplication by its reciprocal; an accumulator in memory becomes a scalar; invariant calls
    and loads are made once."""

    name = "hoist_invariants"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in reversed(unit.loops(body)) if body is not None else []:
                if is_innermost(unit, loop):
                    yield from _accumulators(unit, loop)
                    yield from _divisions(unit, loop)
                    yield from _calls(unit, loop)


def _invariant(unit: Unit, loop: Loop, node: Node) -> bool:
    """Nothing that `node` reads is written in the loop, and it has no effects."""
    assigned = {*unit.assigned(loop.body), loop.variable}
    for inner in walk(node, skip=OPAQUE):
        if inner.type in ("assignment_expression", "update_expression", "pointer_expression"):
            return False
        if inner.type == "call_expression" and call_name(unit, inner) not in PURE and not _is_type(unit, inner):
            return False
        if inner.type == "identifier":
            declaration = unit.declaration(inner)
            inside = declaration is not None and loop.node.start_byte <= declaration.node.start_byte < loop.node.end_byte
            if unit.text(inner) in assigned or inside:
                return False
    return not (any(n.type == "subscript_expression" for n in walk(node)) and _may_change(unit, loop, node))


def _is_type(unit: Unit, call: Node) -> bool:
    return call_name(unit, call) in ("static_cast", "float", "double", "int", "size_t")


def _may_change(unit: Unit, loop: Loop, node: Node) -> bool:
    """Whether a buffer that `node` reads is written in the loop."""
    reader = read(unit, loop.body)
    if reader.effects.problem:
        return True
    written = {a.root for a in reader.effects.accesses if a.write}
    for inner in walk(node):
        if inner.type == "subscript_expression":
            element = reader.element(inner, {})
            if element is None or element[0] in written:
                return True
    return False


def _guarded(unit: Unit, loop: Loop, node: Node) -> bool:
    """Whether a condition inside the loop asks about an index in `node`: the element may not be there where it does not hold."""
    places = [n for n in walk(node) if n.type == "subscript_argument_list"]
    names = {unit.text(n) for place in places for n in walk(place) if n.type == "identifier"}
    while names and node.parent is not None and node != loop.body:
        above, asked = node.parent, None
        if above.type in ("if_statement", "conditional_expression"):
            asked = above.child_by_field_name("condition")
        elif above.type == "binary_expression" and unit.binary(above)[0] in ("&&", "||"):
            asked = unit.binary(above)[1]
        if asked is not None and asked != node and any(n.type == "identifier" and unit.text(n) in names for n in walk(asked)):
            return True
        node = above
    return False


def _before(unit: Unit, loop: Loop, declarations: str, within: list[Edit]) -> list[Edit]:
    """Put `declarations` in front of the loop (and its pragma) and carry out the edits inside it."""
    parent = loop.node.parent
    indent = unit.indent(loop.node)
    first = pragma_before(unit, loop.node) or loop.node
    if parent is not None and parent.type == "compound_statement":
        return [Edit(first.start_byte, first.start_byte, f"{declarations}\n{indent}"), *within]
    opening = Edit(loop.node.start_byte, loop.node.start_byte, f"{{\n{indent}{declarations}\n{indent}")
    return [opening, *within, Edit(loop.node.end_byte, loop.node.end_byte, f"\n{indent}}}")]


def _divisions(unit: Unit, loop: Loop) -> Iterator[list[Edit]]:
    for node in walk(loop.body, skip=OPAQUE):
        if node.type == "assignment_expression":
            operator, left, right = unit.binary(node)
            if operator != "/=":
                continue
            sign = "*="
        elif node.type == "binary_expression":
            operator, left, right = unit.binary(node)
            if operator != "/":
                continue
            sign = "*"
        else:
            continue
        kind = floating(unit, right)
        # A literal is left to the compiler; an integer divisor may be meant to truncate.
        if kind not in ("float", "double") or strip(right).type == "number_literal" or not _invariant(unit, loop, right):
            continue
        if (
            _invariant(unit, loop, left)
            or floating(unit, left) not in ("float", "double", "")
            or (kind == "double" and floating(unit, left) == "")
        ):
            continue
        if _made_whole(unit, loop, node) or _guarded(unit, loop, right):
            continue
        name = fresh(unit, "kw_reciprocal")
        one = "1.0f" if kind == "float" else "1.0"
        places = [Edit(left.end_byte, node.end_byte, f" {sign} {name}")]
        yield _before(unit, loop, f"const {kind} {name} = {one} / ({unit.text(right)});", places)


def _made_whole(unit: Unit, loop: Loop, node: Node, depth: int = 0) -> bool:
    """Whether the value, or a local that it goes to, is cut to a whole number or compared: there the last bit of a quotient decides."""
    value = node
    if node.type == "assignment_expression":
        value = unit.binary(node)[1]
    while node.parent is not None and not node.type.endswith("statement") and node.type != "declaration":
        above = node.parent
        kind = ""
        if above.type == "cast_expression":
            kind = floating(unit, above)
        elif above.type == "call_expression":
            kind = "int" if call_name(unit, above).removesuffix("f") in WHOLE else floating(unit, above)
        elif above.type in ("subscript_argument_list", "init_declarator"):
            name = above.child_by_field_name("declarator")
            kind = floating(unit, name) if name is not None else "int"
            value = name if name is not None else value
        elif above.type == "assignment_expression" and unit.binary(above)[1] != node:
            value = unit.binary(above)[1]
            kind = floating(unit, value)
        if kind == "int" or (above.type == "binary_expression" and unit.binary(above)[0] in COMPARISONS):
            return True
        node = above
    if value.type != "identifier" or depth == MAX_COPIES:
        return False
    uses = [n for n in walk(loop.body) if n.type == "identifier" and unit.text(n) == unit.text(value) and n != value]
    return any(_made_whole(unit, loop, use, depth + 1) for use in uses)


def _calls(unit: Unit, loop: Loop) -> Iterator[list[Edit]]:
    """Invariant calls of mathematical functions."""
    for node in walk(loop.body, skip=OPAQUE):
        if (
            node.type == "call_expression"
            and call_name(unit, node) in PURE
            and unit.arguments(node)
            and _invariant(unit, loop, node)
            and not _guarded(unit, loop, node)
        ):
            name = fresh(unit, "kw_invariant")
            yield _before(unit, loop, f"const auto {name} = {unit.text(node)};", [Edit(node.start_byte, node.end_byte, name)])


def _accumulators(unit: Unit, loop: Loop) -> Iterator[list[Edit]]:
    """An element that the loop reads and writes again and again, always the same one, is kept in a scalar while the loop runs."""
    reader = read(unit, loop.body)
    parent, first = loop.node.parent, pragma_before(unit, loop.node)
    if reader.effects.problem or parent is None or (first is not None and "omp" in unit.text(first)):
        return
    if any(n.type in ("break_statement", "return_statement", "goto_statement") for n in walk(loop.body)):
        return
    elements = [n for n in walk(loop.body, skip=OPAQUE) if n.type in ("subscript_expression", "pointer_expression")]
    for root in dict.fromkeys(a.root for a in reader.effects.accesses if a.write):
        mine = [a for a in reader.effects.accesses if a.root == root]
        index = mine[0].index
        same = [n for n in elements if (found := reader.element(n, {})) is not None and found == (root, index)]
        moves = any(n == loop.symbol or loaded(n, loop.symbol) for p in index or () for n in p.symbols)
        if (
            index is None
            or moves
            or any(a.index != index for a in mine)
            or not all(_fixed(unit, loop, n) and not _guarded(unit, loop, n) for n in same)
        ):
            continue
        kind = floating(unit, same[0]) if same else ""
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
