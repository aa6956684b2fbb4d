"""The one turn that a loop leaves out (`if (i == j) continue;`) taken with the others, its sums left as they are by a select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.effects import PURE, read
from agents.models.playbook.element_types import floating
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.polynomial import loaded
from agents.models.playbook.syntax import Edit, Unit, pragma_before
from agents.models.playbook.tree import contains, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

JUMPS = frozenset({"break_statement", "continue_statement", "goto_statement", "return_statement", "throw_statement", "co_return_statement"})
CONDITIONAL = frozenset({"conditional_expression", "assignment_expression", "update_expression", "lambda_expression", "comma_expression"})
NEUTRAL = {
    ("+=", "float"): "-0.0f",
    ("-=", "float"): "0.0f",
    ("+=", "double"): "-0.0",
    ("-=", "double"): "0.0",
    ("+=", "int"): "0",
    ("-=", "int"): "0",
}
"""What may be added to any number, a zero with its sign too, and leaves it as it is."""


def with_every_turn(unit: Unit, loop: Loop) -> list[Edit]:
    """The edits for one loop; none unless all that the left-out turn would read is read by other turns of the loop around."""
    outer = _around(unit, loop)
    if outer is None or pragma_before(unit, loop.node) is not None or not is_innermost(unit, loop) or not _alike(unit, outer, loop):
        return []
    found = _left_out(unit, outer, loop)
    if found is None:
        return []
    test, rest, head = found
    jumps = [n for n in walk(outer.body) if n.type in JUMPS and not contains(test, n)]
    sums = [_sum(unit, statement) for statement in rest]
    if jumps or None in sums or not any(sums) or not _read_anyway(unit, outer, loop):
        return []
    i, j, upper, lower = outer.variable, loop.variable, unit.text(loop.upper), unit.text(loop.lower)
    several = f"if ({upper} > {'1' if lower == '0' else f'{lower} + 1'})\n{unit.indent(loop.node)}  "
    edits = [head, Edit(loop.node.start_byte, loop.node.start_byte, several)]
    for one in sums:
        if one:
            value, neutral = one[0]
            edits.append(Edit(value.start_byte, value.end_byte, f"{i} == {j} ? {neutral} : ({unit.text(value)})"))
    return edits


def _around(unit: Unit, loop: Loop) -> Loop | None:
    """The loop that carries this one out in every turn."""
    above = loop.node.parent
    if above is not None and above.type == "compound_statement":
        above = above.parent
    return unit.loop(above) if above is not None and above.type == "for_statement" else None


def _alike(unit: Unit, outer: Loop, loop: Loop) -> bool:
    """Both counters take the same values."""
    kinds = {one.declaration.type if one.declaration is not None else "" for one in (outer, loop)}
    if len(kinds) != 1 or any(one.step is not None or one.inclusive or not one.declared_here for one in (outer, loop)):
        return False
    for mine, other in ((loop.lower, outer.lower), (loop.upper, outer.upper)):
        if mine.type not in ("identifier", "number_literal") or unit.text(mine) != unit.text(other):
            return False
        if mine.type == "identifier":
            declarations = unit.declaration(mine), unit.declaration(other)
            if declarations[0] is None or declarations[1] is None or declarations[0].symbol != declarations[1].symbol:
                return False
            if declarations[0].form != "value" or declarations[0].kind == "global" or unit.text(mine) in unit.assigned(outer.node):
                return False
    return outer.variable != loop.variable


def _left_out(unit: Unit, outer: Loop, loop: Loop) -> tuple[Node, list[Node], Edit] | None:
    """The `if`, what is done in the other turns, and the edit that takes the `if` away."""
    inner = statements(loop.body)
    test = inner[0] if inner and inner[0].type == "if_statement" else None
    condition = test.child_by_field_name("condition") if test is not None else None
    then = test.child_by_field_name("consequence") if test is not None else None
    if test is None or condition is None or then is None or test.child_by_field_name("alternative") is not None:
        return None
    compared = strip(condition)
    if compared.type != "binary_expression":
        return None
    operator, left, right = unit.binary(compared)
    if {_counter(unit, n, (outer, loop)) for n in (left, right)} != {outer.symbol, loop.symbol}:
        return None
    done = statements(then)
    if operator == "==" and len(inner) > 1 and [n.type for n in done] == ["continue_statement"]:
        return test, inner[1:], Edit(test.start_byte, test.end_byte, "")
    return (test, done, Edit(test.start_byte, then.start_byte, "")) if operator == "!=" and len(inner) == 1 else None


def _counter(unit: Unit, node: Node, loops: tuple[Loop, ...]) -> str:
    declaration = unit.declaration(node) if node.type == "identifier" else None
    for one in loops:
        if declaration is not None and one.declaration is not None and one.declaration.symbol == declaration.symbol:
            return one.symbol
    return ""


def _sum(unit: Unit, statement: Node) -> list[tuple[Node, str]] | None:
    """What a statement adds to a number, with what leaves that as it is; empty for a declaration, None where it may do anything else."""
    if statement.type == "declaration":
        declarators = statement.children_by_field_name("declarator")
        values = [d.child_by_field_name("value") for d in declarators if d.type == "init_declarator"]
        plain = all((n := d.child_by_field_name("declarator")) is not None and n.type == "identifier" for d in declarators)
        fixed = any(c.type == "storage_class_specifier" for c in statement.named_children)
        known = [v for v in values if v is not None and _evaluable(unit, v)]
        kind = statement.child_by_field_name("type")
        whole = kind is not None and unit.text(kind) not in ("float", "double", "auto")
        fixed = fixed or (whole and any(floating(unit, v) != "int" for v in known))
        return [] if plain and not fixed and len(known) == len(declarators) else None
    node = statement.named_children[0] if statement.type == "expression_statement" and statement.named_child_count == 1 else None
    if node is None or node.type != "assignment_expression":
        return None
    operator, left, right = unit.binary(node)
    kinds = floating(unit, left), floating(unit, right)
    neutral = NEUTRAL.get((operator, kinds[0]))
    if neutral is None or left.type not in ("identifier", "subscript_expression") or not _evaluable(unit, right):
        return None
    return [(right, neutral)] if kinds[0] != "int" or kinds[1] == "int" else None


def _evaluable(unit: Unit, value: Node) -> bool:
    """An expression that may be evaluated for nothing: no effects, no trap, every part evaluated always."""
    for node in walk(value):
        if node.type in CONDITIONAL or (node.type == "call_expression" and not _pure(unit, node)):
            return False
        # A number that is none has no whole part.
        inner = node.child_by_field_name("value") if node.type == "cast_expression" else None
        if inner is not None and floating(unit, node) not in ("float", "double", floating(unit, inner)):
            return False
        if node.type == "binary_expression":
            operator = unit.binary(node)[0]
            if operator in ("&&", "||", "%", "<<", ">>") or (operator == "/" and floating(unit, node) not in ("float", "double")):
                return False
    return True


def _pure(unit: Unit, call: Node) -> bool:
    return (unit.callee(call) or "") in PURE and unit.library(call)


def _read_anyway(unit: Unit, outer: Loop, loop: Loop) -> bool:
    """Whether every element that the left-out turn touches is touched by another turn, of this loop or of the loop around."""
    reader = read(unit, loop.body)
    if reader.effects.problem:
        return False
    for access in reader.effects.accesses:
        if access.index is None:
            return False
        symbols = {s for part in access.index for s in part.symbols}
        if loop.symbol not in symbols and not any(loaded(s) for s in symbols):
            continue
        inside = any("@" in s and outer.node.start_byte <= int(s.rpartition("@")[2]) < outer.node.end_byte for s in symbols - {loop.symbol})
        if access.write or inside or any(loaded(s) or s.startswith("?") for s in symbols):
            return False
    return True
