"""Statements that fold values into a scalar: sums, products, maxima and minima."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agents.models.playbook.analysis.types import floating
from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import library_function_name, statements, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

Operator = Literal["+", "*", "max", "min"]
EXTREMA: dict[str, Operator] = {
    "fmax": "max",
    "fmaxf": "max",
    "max": "max",
    "fmin": "min",
    "fminf": "min",
    "min": "min",
}


@dataclass(frozen=True)
class Reduction:
    """`name = name <operator> value`."""

    name: str
    operator: Operator
    statement: Node
    value: Node


@dataclass(frozen=True)
class Extremum:
    """The larger or smaller of two expressions, however it is written."""

    operator: Operator
    first: Node
    second: Node


def extremum(unit: Unit, node: Node) -> Extremum | None:
    """`fmaxf(a, b)`, `std::max(a, b)`, `a > b ? a : b` and the like."""
    node = strip_parentheses(node)
    if node.type == "call_expression":
        arguments = unit.arguments(node)
        operator = EXTREMA.get(library_function_name(unit, node))
        return Extremum(operator, arguments[0], arguments[1]) if operator is not None and len(arguments) == 2 else None
    if node.type != "conditional_expression":
        return None
    condition, yes, no = (node.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
    if condition is None or yes is None or no is None or strip_parentheses(condition).type != "binary_expression":
        return None
    sign, left, right = unit.split_binary(strip_parentheses(condition))
    if sign not in ("<", "<=", ">", ">="):
        return None
    texts = [unit.text(strip_parentheses(n)) for n in (left, right, yes, no)]
    if texts[:2] == texts[2:]:
        return Extremum("max" if sign[0] == ">" else "min", left, right)
    return Extremum("min" if sign[0] == ">" else "max", left, right) if texts[:2] == texts[:1:-1] else None


def as_reduction(unit: Unit, statement: Node) -> Reduction | None:
    """`statement` as the folding of a value into a plain variable."""
    node = statement
    if node.type == "if_statement":
        return _conditional(unit, node)
    if node.type == "expression_statement" and node.named_child_count == 1:
        node = node.named_children[0]
    if node.type != "assignment_expression":
        return None
    operator, left, right = unit.split_binary(node)
    if left.type != "identifier":
        return None
    name = unit.text(left)
    found: tuple[Operator, Node] | None = None
    if operator in ("+=", "-="):
        found = "+", right
    elif operator == "*=":
        found = "*", right
    elif operator == "=":
        found = _folded(unit, name, strip_parentheses(right))
    if found is None or _mentions(unit, found[1], name) or (found[0] in "+*" and _cut_off(unit, left, right)):
        return None
    return Reduction(name, found[0], statement, found[1])


def _cut_off(unit: Unit, total: Node, value: Node) -> bool:
    """An integer to which something with a fraction is added: each sum is cut off, so that the order matters."""
    return floating(unit, total) == "int" and floating(unit, value) != "int"


def _folded(unit: Unit, name: str, right: Node) -> tuple[Operator, Node] | None:
    pair = extremum(unit, right)
    if pair is not None:
        for mine, other in ((pair.first, pair.second), (pair.second, pair.first)):
            if unit.text(strip_parentheses(mine)) == name:
                return pair.operator, other
        return None
    if right.type == "call_expression" and library_function_name(unit, right) in ("fma", "fmaf"):
        arguments = unit.arguments(right)
        whole = (
            len(arguments) == 3
            and unit.text(arguments[2]) == name
            and not any(_mentions(unit, a, name) for a in arguments[:2])
        )
        return ("+", arguments[0]) if whole else None
    if right.type == "binary_expression":
        sign, left, other = unit.split_binary(right)
        if sign in ("+", "-", "*") and unit.text(strip_parentheses(left)) == name:
            return ("*" if sign == "*" else "+"), other
        if sign in ("+", "*") and unit.text(strip_parentheses(other)) == name:
            return ("+" if sign == "+" else "*"), left
    return None


def _conditional(unit: Unit, node: Node) -> Reduction | None:
    """`if (value > name) name = value;`"""
    condition, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    if condition is None or then is None or node.child_by_field_name("alternative") is not None:
        return None
    test, made = strip_parentheses(condition), assignment(unit, then)
    if test.type != "binary_expression" or made is None:
        return None
    target, value = made
    sign, left, right = unit.split_binary(test)
    texts = (unit.text(strip_parentheses(left)), unit.text(strip_parentheses(right)))
    name, wanted = unit.text(target), unit.text(strip_parentheses(value))
    if target.type != "identifier" or sign not in ("<", "<=", ">", ">=") or _mentions(unit, value, name):
        return None
    if texts == (wanted, name):
        return Reduction(name, "max" if sign[0] == ">" else "min", node, value)
    return Reduction(name, "min" if sign[0] == ">" else "max", node, value) if texts == (name, wanted) else None


def assignment(unit: Unit, body: Node) -> tuple[Node, Node] | None:
    """Target and value of a body that is nothing but one `=`."""
    inner = statements(body)
    node = inner[0].named_children[0] if len(inner) == 1 and inner[0].type == "expression_statement" else None
    if node is None or node.type != "assignment_expression":
        return None
    operator, left, right = unit.split_binary(node)
    return (left, right) if operator == "=" else None


def _mentions(unit: Unit, node: Node, name: str) -> bool:
    return any(n.type == "identifier" and unit.text(n) == name for n in walk(node))


def find_reductions(unit: Unit, body: Node) -> list[Reduction]:
    """Variables that inside `body` occur in reductions of one operator and nowhere else, one entry a variable."""
    found: dict[str, list[Reduction]] = {}
    for node in walk(body):
        if node.type in ("expression_statement", "if_statement") and (one := as_reduction(unit, node)) is not None:
            found.setdefault(one.name, []).append(one)
    kept = []
    for name, group in found.items():
        inside = [r.statement for r in group]
        mentions = [n for n in walk(body) if n.type == "identifier" and unit.text(n) == name]
        covered = all(any(s.start_byte <= n.start_byte < s.end_byte for s in inside) for n in mentions)
        if covered and len({r.operator for r in group}) == 1 and not any(_mentions(unit, r.value, name) for r in group):
            kept.append(group[0])
    return kept
