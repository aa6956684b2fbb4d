"""Counted loops: a `for` whose variable starts somewhere, goes up by a step (or down by one) and ends at a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agents.models.playbook.analysis.declarations import Declaration, find_declaration
from tools.languages.cpp_source import CppSource, walk

if TYPE_CHECKING:
    from tree_sitter import Node


LOOP_STATEMENTS = frozenset({"for_statement", "for_range_loop", "while_statement", "do_statement"})


@dataclass(frozen=True, eq=False)
class CountedLoop:
    """`for (v = lower; v < upper; v += step) body`. Equal is the same object: a unit reads a loop once."""

    node: Node
    variable: str
    declaration: Declaration | None
    """Of the variable, where it can be found."""
    declares_variable: bool
    lower: Node
    upper: Node
    is_inclusive: bool
    """`<=` instead of `<` or `!=`."""
    step: Node | None
    """None: one."""
    body: Node
    counts_down: bool
    """`for (v = upper; v >= lower; --v)`."""

    @property
    def symbol(self) -> str:
        """Names this loop's variable in index polynomials; the same C variable counts anew in each loop."""
        return f"{self.variable}@{self.node.start_byte}"


def is_innermost(loop: CountedLoop) -> bool:
    """Whether no other loop stands in the body."""
    return not any(n.type in LOOP_STATEMENTS for n in walk(loop.body))


def read_loop(unit: CppSource, node: Node) -> CountedLoop | None:
    """`node` as a counted loop, or None when it is not one. `Unit.counted` asks once and remembers."""
    start, condition, update, body = (
        node.child_by_field_name(f) for f in ("initializer", "condition", "update", "body")
    )
    if start is None or condition is None or update is None or body is None:
        return None
    first = _read_initializer(unit, start)
    if first is None or condition.type != "binary_expression":
        return None
    variable, lower, declared = first
    operator, left, right = unit.split_binary(condition)
    down = operator == ">=" and unit.text(update).replace(" ", "") in (f"{variable}--", f"--{variable}")
    if not (down or operator in ("<", "<=", "!=")) or unit.text(left) != variable:
        return None
    step = None if down else _read_step(unit, update, variable)
    if step is False or variable in unit.written_names(body):
        return None
    name = next((n for n in walk(start) if n.type == "identifier" and unit.text(n) == variable), left)
    lower, upper = (right, lower) if down else (lower, right)
    return CountedLoop(
        node, variable, find_declaration(unit, name), declared, lower, upper, down or operator == "<=", step, body, down
    )


def _read_initializer(unit: CppSource, start: Node) -> tuple[str, Node, bool] | None:
    """Variable, first value, and whether it is declared here."""
    if start.type == "declaration":
        declarators = start.children_by_field_name("declarator")
        if len(declarators) != 1 or declarators[0].type != "init_declarator":
            return None
        name, value = declarators[0].child_by_field_name("declarator"), declarators[0].child_by_field_name("value")
        if name is None or value is None or name.type != "identifier":
            return None
        return unit.text(name), value, True
    if start.type == "assignment_expression":
        operator, left, right = unit.split_binary(start)
        if operator == "=" and left.type == "identifier":
            return unit.text(left), right, False
    return None


def _read_step(unit: CppSource, update: Node, variable: str) -> Node | Literal[False] | None:
    if update.type == "update_expression":
        return None if unit.text(update).replace(" ", "") in (f"{variable}++", f"++{variable}") else False
    if update.type != "assignment_expression":
        return False
    operator, left, right = unit.split_binary(update)
    if unit.text(left) != variable:
        return False
    if operator == "=" and right.type == "binary_expression":
        inner, a, b = unit.split_binary(right)
        if inner != "+" or unit.text(a) != variable:
            return False
        right = b
    elif operator != "+=":
        return False
    return None if unit.text(right) == "1" else right
