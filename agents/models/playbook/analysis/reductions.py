"""Statements that fold values into a scalar: sums, products, maxima and minima."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agents.models.playbook.analysis.types import arithmetic_type
from agents.models.playbook.analysis.unit import CppUnit
from tools.languages.cpp_source import library_function_name, statements, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

Operator = Literal["+", "*", "max", "min"]
EXTREMUM_FUNCTIONS: dict[str, Operator] = {
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


def as_reduction(unit: CppUnit, statement: Node) -> Reduction | None:
    """`statement` as the folding of a value into a plain variable."""
    node = statement
    if node.type == "if_statement":
        return _conditional_extremum(unit, node)
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
        found = _operator_and_value(unit, name, strip_parentheses(right))
    if (
        found is None
        or _mentions(unit, found[1], name)
        or (found[0] in "+*" and _truncates_each_sum(unit, left, right))
    ):
        return None
    return Reduction(name, found[0], statement, found[1])


def _truncates_each_sum(unit: CppUnit, total: Node, value: Node) -> bool:
    """An integer to which something with a fraction is added: each sum is cut off, so that the order matters."""
    return arithmetic_type(unit, total) == "int" and arithmetic_type(unit, value) != "int"


def _operator_and_value(unit: CppUnit, name: str, right: Node) -> tuple[Operator, Node] | None:
    """Operator and value where an expression is `name <operator> value`, in either order."""
    operator, operands = _commutative_operation(unit, right)
    if operator is None:
        return None
    for mine, value in (operands, operands[::-1]):
        if unit.text(strip_parentheses(mine)) == name:
            return operator, value
    return None


def _commutative_operation(unit: CppUnit, node: Node) -> tuple[Operator | None, list[Node]]:
    """A commutative operator and its two operands; no operator for anything else."""
    operator: Operator | None = None
    operands: list[Node] = []
    if node.type == "call_expression":
        operator, operands = EXTREMUM_FUNCTIONS.get(library_function_name(unit, node)), unit.arguments(node)
    elif node.type == "binary_expression":
        sign, left, right = unit.split_binary(node)
        operator, operands = "+" if sign == "+" else "*" if sign == "*" else None, [left, right]
    elif node.type == "conditional_expression":
        condition, yes, no = (node.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
        if condition is not None and yes is not None and no is not None:
            operator, operands = _chosen_extremum(unit, strip_parentheses(condition), yes, no), [yes, no]
    return (operator, operands) if len(operands) == 2 else (None, [])


def _chosen_extremum(unit: CppUnit, test: Node, yes: Node, no: Node) -> Operator | None:
    """Which of the two compared values `test ? yes : no` takes."""
    if test.type != "binary_expression":
        return None
    sign, left, right = unit.split_binary(test)
    texts = [unit.text(strip_parentheses(n)) for n in (left, right, yes, no)]
    if sign not in ("<", "<=", ">", ">=") or sorted(texts[:2]) != sorted(texts[2:]):
        return None
    return "max" if (sign[0] == ">") == (texts[0] == texts[2]) else "min"


def _conditional_extremum(unit: CppUnit, node: Node) -> Reduction | None:
    """`if (value > name) name = value;`"""
    condition, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    inner = statements(then) if then is not None and node.child_by_field_name("alternative") is None else []
    made = inner[0].named_children[0] if len(inner) == 1 and inner[0].type == "expression_statement" else None
    if condition is None or made is None or made.type != "assignment_expression":
        return None
    sign, target, value = unit.split_binary(made)
    operator = _chosen_extremum(unit, strip_parentheses(condition), value, target)
    if sign != "=" or operator is None or target.type != "identifier" or _mentions(unit, value, unit.text(target)):
        return None
    return Reduction(unit.text(target), operator, node, value)


def _mentions(unit: CppUnit, node: Node, name: str) -> bool:
    return any(n.type == "identifier" and unit.text(n) == name for n in walk(node))


def find_reductions(unit: CppUnit, body: Node) -> list[Reduction]:
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
