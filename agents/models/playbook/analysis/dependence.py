"""Whether a loop's iterations are independent: polynomials for arrays (`strides`), patterns for scalars. What cannot
be shown independent counts as dependent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.affine import Polynomial
from agents.models.playbook.analysis.declarations import Declaration
from agents.models.playbook.analysis.effects import ElementAccess, read_effects
from agents.models.playbook.analysis.expressions import VariableRange
from agents.models.playbook.analysis.loops import LOOP_STATEMENTS, CountedLoop
from agents.models.playbook.analysis.reductions import Reduction, find_reductions
from agents.models.playbook.analysis.strides import touch_distinct_elements
from agents.models.playbook.analysis.unit import CppUnit
from tools.languages.cpp_source import node_contains, walk

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Independence:
    """What a loop needs to run its iterations in any order; `problem` says why it cannot."""

    problem: str = ""
    private: tuple[str, ...] = ()
    """Scalars declared outside that each iteration sets before it reads them, and that nothing reads afterwards."""
    reductions: tuple[Reduction, ...] = ()
    accesses: tuple[ElementAccess, ...] = ()

    def __bool__(self) -> bool:
        return not self.problem


@lru_cache(maxsize=256)
def analyse_independence(unit: CppUnit, loop: CountedLoop) -> Independence:
    """Whether `loop`'s iterations may run in any order, or together, up to its reductions."""
    effects, own, step = read_effects(unit, loop.body).effects, *_range_and_step(unit, loop)
    private, reductions, problem = _carried_scalars(unit, loop)
    problem = _reason_if_uncountable(unit, loop) or problem or effects.problem
    if not problem and (own is None or step is None):
        problem = "the loop's bounds or its step are not understood"
    if problem or own is None or step is None:
        return Independence(problem)
    groups: dict[str, list[ElementAccess]] = {}
    for access in effects.accesses:
        groups.setdefault(access.root, []).append(access)
    for root, group in groups.items():
        if (
            any(a.write for a in group)
            and not _is_new_in_each_iteration(unit, loop, root)
            and not touch_distinct_elements(group, own, step)
        ):
            return Independence(f"iterations may touch the same element of {root.split('@')[0]}")
    return Independence("", private, reductions, tuple(effects.accesses))


def _range_and_step(unit: CppUnit, loop: CountedLoop) -> tuple[VariableRange | None, Polynomial | None]:
    """The range of the loop's variable and its step; None for what is not understood."""
    reader = read_effects(unit, loop.body)
    return reader.loop_range(loop, {}), reader.integer_value(
        loop.step, {}
    ) if loop.step is not None else Polynomial.constant(1)


def _reason_if_uncountable(unit: CppUnit, loop: CountedLoop) -> str:
    """Why the iterations cannot be counted beforehand, or may do more than they say; empty where they can."""
    if any(node.type == "operator_name" for node in walk(unit.root)):
        return "the file defines operators"
    if any(node.type == "break_statement" for node in walk(loop.body, skip=LOOP_STATEMENTS | {"switch_statement"})):
        return "the loop breaks"
    assigned = unit.written_names(loop.body)
    bounds = [node for bound in (loop.upper, loop.step) for node in walk(bound)]
    changes = any(node.type == "identifier" and unit.text(node) in assigned for node in bounds)
    return "the loop changes its own bound" if changes else ""


def _carried_scalars(unit: CppUnit, loop: CountedLoop) -> tuple[tuple[str, ...], tuple[Reduction, ...], str]:
    """Names of private scalars, reductions, and the reason why a scalar is neither; empty where each is one."""
    written = set(unit.written_names(loop.body))
    outside: dict[str, Declaration] = {}
    for node in walk(loop.body):
        declaration = unit.declaration(node) if node.type == "identifier" and unit.text(node) in written else None
        if declaration is None or node_contains(loop.node, declaration.node):
            continue
        if declaration.form == "pointer":
            return (), (), f"{declaration.name} walks from one iteration to the next"
        if declaration.form == "value":
            outside[declaration.name] = declaration
    reductions = {r.name: r for r in find_reductions(unit, loop.body)}
    private = tuple(name for name in outside if name not in reductions)
    carried = next((name for name in private if not is_private(unit, loop, outside[name])), None)
    if carried is not None:
        return (), (), f"{carried} carries a value from one iteration to the next"
    return private, tuple(reductions[name] for name in outside if name in reductions), ""


def is_private(unit: CppUnit, loop: CountedLoop, scalar: Declaration) -> bool:
    """Whether each iteration sets the scalar before it reads it, and nothing outside reads what the loop left."""
    for node in walk(unit.enclosing_function(loop.node)):
        declaration = unit.declaration(node) if node.type == "identifier" else None
        if declaration is None or declaration.symbol != scalar.symbol or node_contains(scalar.node, node):
            continue
        if node_contains(loop.node, node):
            earliest = loop.node.start_byte
        elif node.start_byte > loop.node.end_byte:
            earliest = loop.node.end_byte
        else:
            around = _common_loop(loop.node, node)
            # An outer loop comes round to this use with what the loop left, unless the scalar is new in each turn.
            earliest = -1 if around is None or node_contains(around, scalar.node) else around.start_byte + 1
        if _last_assignment(unit, node) < earliest:
            return False
    return True


def _common_loop(node: Node, use: Node) -> Node | None:
    """The innermost loop statement around both."""
    current = node.parent
    while current is not None and not (current.type in LOOP_STATEMENTS and node_contains(current, use)):
        current = current.parent
    return current


def _last_assignment(unit: CppUnit, use: Node) -> int:
    """Start byte of the nearest statement that certainly sets the variable before this use in the same turn of every
    loop around both; -1 where there is none."""
    name, inner = unit.text(use), use
    if use.parent is not None and _assigns(unit, use.parent, name) and unit.split_binary(use.parent)[1] == use:
        return use.start_byte
    while inner.parent is not None and inner.parent.type != "function_definition":
        inner, before = inner.parent, inner
        start = inner.child_by_field_name("initializer") if inner.type == "for_statement" else None
        if start != before and _assigns(unit, start, name):
            return inner.start_byte
        for statement in reversed(inner.named_children if inner.type == "compound_statement" else []):
            is_before = statement.end_byte <= before.start_byte and statement.type == "expression_statement"
            if is_before and statement.named_children and _assigns(unit, statement.named_children[0], name):
                return statement.start_byte
    return -1


def _assigns(unit: CppUnit, node: Node | None, name: str) -> bool:
    """Whether an expression is a plain assignment to the variable."""
    if node is None or node.type != "assignment_expression":
        return False
    operator, left, _ = unit.split_binary(node)
    return operator == "=" and unit.text(left) == name


def _is_new_in_each_iteration(unit: CppUnit, loop: CountedLoop, root: str) -> bool:
    """Whether a buffer is new in each iteration."""
    start = int(root.split("@")[1]) if "@" in root else -1
    if loop.body.start_byte <= start < loop.body.end_byte:
        return True
    function = unit.enclosing_function(loop.node)
    # A local of an inlined helper is new in each call.
    return not function.start_byte <= start < function.end_byte
