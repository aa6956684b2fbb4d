"""Work that does not change from one iteration to the next, moved out of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.accumulators import guarded, in_scalar
from agents.models.playbook.base import Recipe
from agents.models.playbook.conditions import COMPARISONS
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.effects import PURE, read
from agents.models.playbook.element_types import floating
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.reductions import call_name
from agents.models.playbook.syntax import OPAQUE, Edit, Unit, fresh, pragma_before
from agents.models.playbook.tree import strip, walk

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
                    yield from in_scalar(unit, loop)
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
        if _made_whole(unit, loop, node) or guarded(unit, loop, right):
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
            and not guarded(unit, loop, node)
        ):
            name = fresh(unit, "kw_invariant")
            yield _before(unit, loop, f"const auto {name} = {unit.text(node)};", [Edit(node.start_byte, node.end_byte, name)])
