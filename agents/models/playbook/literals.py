"""Literals that make float arithmetic double by oversight: `0.5 * x` of a float x, stored to a float."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.element_types import SAME_TYPE, floating
from agents.models.playbook.reductions import call_name
from agents.models.playbook.syntax import Edit, Unit
from agents.models.playbook.tree import walk

if TYPE_CHECKING:
    from tree_sitter import Node

LITERAL = re.compile(r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
ARITHMETIC = frozenset({"+", "-", "*", "/"})
LARGEST = 3e38
SMALLEST = 1.2e-38
"""Of the normal floats: `x + 1e-60` guards a division or a logarithm only as a double."""
ANGLES = frozenset({"sin", "cos", "tan"})
"""Of a large angle in float too few digits are left."""


class FloatLiterals(Recipe):
    """`f` on the literals of an expression whose variables are all float and whose value becomes a float."""

    name = "float_literals"
    apart = True

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        seen: set[int] = set()
        for function in unit.reachable:
            if "kw_" in unit.text(function).split("(")[0]:
                continue
            for node in walk(function.child_by_field_name("body")):
                if _is_double(unit, node) and (top := _whole(unit, node)).id not in seen:
                    seen.add(top.id)
                    literals = [n for n in walk(top) if _is_double(unit, n)]
                    if all(_fits(unit, n) for n in literals) and _becomes_float(unit, top) and _only_float(unit, top):
                        yield [Edit(n.end_byte, n.end_byte, "f") for n in literals]


def _is_double(unit: Unit, node: Node) -> bool:
    text = unit.text(node) if node.type == "number_literal" else ""
    return bool(LITERAL.fullmatch(text)) and not text.isdigit()


def _fits(unit: Unit, node: Node) -> bool:
    value = float(unit.text(node))
    return value == 0.0 or SMALLEST < value < LARGEST


def _whole(unit: Unit, node: Node) -> Node:
    """The arithmetic that a literal is part of."""
    while (parent := node.parent) is not None:
        if parent.type == "argument_list" and parent.parent is not None and _overloaded(unit, parent.parent):
            parent = parent.parent
        elif not (
            parent.type in ("parenthesized_expression", "unary_expression")
            or (parent.type == "binary_expression" and unit.binary(parent)[0] in ARITHMETIC)
            or (parent.type == "conditional_expression" and parent.child_by_field_name("condition") != node)
        ):
            break
        node = parent
    return node


def _overloaded(unit: Unit, call: Node) -> bool:
    """A function of <cmath> whose result has the type of its arguments."""
    return call.type == "call_expression" and re.sub(r"^kw_", "", call_name(unit, call)) in SAME_TYPE - ANGLES


def _becomes_float(unit: Unit, top: Node) -> bool:
    parent = top.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return unit.binary(parent)[2] == top and floating(unit, unit.binary(parent)[1]) == "float"
    if parent.type == "init_declarator" and parent.parent is not None:
        kind = parent.parent.child_by_field_name("type")
        return kind is not None and unit.aliases.get(unit.text(kind), unit.text(kind)) == "float"
    if parent.type == "return_statement":
        kind = unit.function_of(parent).child_by_field_name("type")
        return kind is not None and unit.aliases.get(unit.text(kind), unit.text(kind)) == "float"
    cast = (
        parent.type == "argument_list"
        and parent.parent is not None
        and unit.text(parent.parent).startswith(("static_cast<float>", "float("))
    )
    return cast or (parent.type == "cast_expression" and unit.text(parent).replace(" ", "").startswith("(float)"))


def _only_float(unit: Unit, top: Node) -> bool:
    """Something in it is float, and nothing but literals is double or unknown."""
    kinds: set[str] = set()
    stack = [top]
    while stack:
        node = stack.pop()
        if _is_double(unit, node):
            continue
        if node.type in ("parenthesized_expression", "binary_expression", "unary_expression", "conditional_expression"):
            condition = node.child_by_field_name("condition")
            stack.extend(n for n in node.named_children if n != condition)
        elif _overloaded(unit, node):
            stack.extend(unit.arguments(node))
        else:
            kinds.add(floating(unit, node))
    return "float" in kinds and kinds <= {"float", "int"}
