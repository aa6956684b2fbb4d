"""Branches and calls that pick one of two values, written as selects that a vector unit has an instruction for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.reductions import as_reduction, assignment, extremum
from agents.models.playbook.analysis.types import floating
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from tools.languages.cpp_source import CppEdit, library_function_name, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_OPERAND = 80
"""Characters of an operand that may be written twice."""
IMPURE = frozenset({"call_expression", "assignment_expression", "update_expression"})


class BranchToSelect(Recipe):
    """fmax, std::max, `if (a > m) m = a` and `if (c) a = x; else a = y;` as conditional expressions."""

    name = "branch_to_select"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        for function in unit.reachable_functions:
            body = function.child_by_field_name("body")
            for node in walk(body):
                text = None
                if node.type == "if_statement":
                    text = _from_if(unit, node)
                elif node.type == "call_expression":
                    text = _from_call(unit, node)
                if text is not None:
                    yield [CppEdit(node.start_byte, node.end_byte, text)]


def _repeatable(unit: Unit, node: Node) -> bool:
    return len(unit.text(node)) <= MAX_OPERAND and not any(n.type in IMPURE for n in walk(node))


def _from_call(unit: Unit, node: Node) -> str | None:
    pair = extremum(unit, node)
    if pair is None or not (_repeatable(unit, pair.first) and _repeatable(unit, pair.second)):
        return None
    sign = ">" if pair.operator == "max" else "<"
    first, second = pair.first, pair.second
    if library_function_name(unit, node) in ("max", "min"):
        # std::max(a, b) is (a < b) ? b : a, and min likewise.
        first, second = second, first
    elif not _settled(unit, node, second):
        # fmax ignores a NaN: the operand that is none (an accumulator, a literal) must be the one that a failed
        # comparison picks.
        first, second = second, first
    a, b = _operand(unit, first), _operand(unit, second)
    return f"({a} {sign} {b} ? {a} : {b})"


def _settled(unit: Unit, call: Node, operand: Node) -> bool:
    """The accumulator that the call is assigned to, or a literal."""
    operand = strip_parentheses(operand)
    if operand.type == "number_literal":
        return True
    target = (
        call.parent.child_by_field_name("left")
        if call.parent is not None and call.parent.type == "assignment_expression"
        else None
    )
    return target is not None and unit.text(target) == unit.text(operand)


def _operand(unit: Unit, node: Node) -> str:
    node = strip_parentheses(node)
    text = unit.text(node)
    return text if node.type in ("identifier", "number_literal", "subscript_expression") else f"({text})"


def _from_if(unit: Unit, node: Node) -> str | None:
    condition = node.child_by_field_name("condition")
    reduction = as_reduction(unit, node)
    if reduction is not None and condition is not None:
        if not _repeatable(unit, reduction.value):
            return None
        sign = ">" if reduction.operator == "max" else "<"
        value = _operand(unit, reduction.value)
        return f"{reduction.name} = {value} {sign} {reduction.name} ? {value} : {reduction.name};"
    return _from_else(unit, node, condition) if condition is not None else None


def _from_else(unit: Unit, node: Node, condition: Node) -> str | None:
    then, otherwise = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
    if then is not None and otherwise is None:
        return _stored_back(unit, then, condition)
    if then is None or otherwise is None or otherwise.named_child_count != 1:
        return None
    yes, no = assignment(unit, then), assignment(unit, otherwise.named_children[0])
    if yes is None or no is None or unit.text(yes[0]) != unit.text(no[0]):
        return None
    # A select converts both to a common type: -1 and an unsigned number, or a long and a float, would not come out as
    # they were.
    kinds = {floating(unit, yes[1]), floating(unit, no[1])}
    if len(kinds) != 1 or not kinds <= {"float", "double"}:
        return None
    for value in (yes[1], no[1], condition):
        if any(n.type in IMPURE for n in walk(value)):
            return None
    return f"{unit.text(yes[0])} = ({unit.text(strip_parentheses(condition))}) ? ({unit.text(yes[1])}) : ({unit.text(no[1])});"


def _stored_back(unit: Unit, then: Node, condition: Node) -> str | None:
    """`if (x < a[j]) a[j] = x;`: the element was read, so that it may be stored back unchanged."""
    made = assignment(unit, then)
    if made is None or any(n.type in IMPURE for part in (made[1], condition) for n in walk(part)):
        return None
    element = unit.text(made[0])
    read = any(n.type == "subscript_expression" and unit.text(n) == element for n in walk(condition))
    return (
        f"{element} = ({unit.text(strip_parentheses(condition))}) ? ({unit.text(made[1])}) : {element};"
        if read
        else None
    )
