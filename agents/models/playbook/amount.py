"""How much there is to do in a nest of loops, as a C expression that may be asked in front of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agents.models.playbook.base import PREFIX
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.reductions import call_name
from agents.models.playbook.scopes import is_declared
from agents.models.playbook.syntax import Unit
from agents.models.playbook.tree import contains, strip, walk
from agents.models.playbook.values import INTEGERS

if TYPE_CHECKING:
    from tree_sitter import Node

MIN_WORK = 1 << 18
"""Loop iterations below which waking the threads costs more than it gives: some 50 us on a virtual machine, in which one core makes as
many of a vector loop. Threads that lose on a small workload lose the whole candidate at the gate; on a middling one they can wait."""
MIN_WORK_HEAVY = 1 << 16
"""The same where an iteration calls a transcendental function."""
TYPICAL_LENGTH = "8"
"""Stands for the length of a loop whose bound cannot be named outside."""
HEAVY = re.compile(
    r"(?:exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|cbrt|hypot|tgamma|lgamma)f?$"
)
MAX_HELPERS = 4
PLAIN = frozenset(
    {
        "identifier",
        "number_literal",
        "binary_expression",
        "parenthesized_expression",
        "cast_expression",
        "type_descriptor",
        "primitive_type",
        "sized_type_specifier",
        "type_identifier",
        "template_argument_list",
        "argument_list",
    }
)
"""What a bound may be made of that is evaluated once more."""
NAMED = frozenset(
    {
        "alias_declaration",
        "type_definition",
        "enum_specifier",
        "enumerator",
        "struct_specifier",
        "class_specifier",
        "union_specifier",
        "preproc_def",
        "preproc_function_def",
    }
)
"""What gives a name to something that is no variable."""


def work(unit: Unit, loop: Loop) -> str:
    """C expression for the iterations of the nest, from bounds whose names are visible at the loop; "" when its own is not."""
    return " * ".join(["1LL", *_factors(unit, loop, loop.node, {})]) if _visible(unit, strip(loop.upper), loop.node) else ""


def heavy(unit: Unit, region: Node, depth: int = 0) -> bool:
    """Whether iterations call transcendental functions, in helpers too."""
    for call in walk(region):
        if call.type != "call_expression":
            continue
        if HEAVY.match(call_name(unit, call).removeprefix(PREFIX)):
            return True
        function = unit.functions.get(unit.callee(call) or "") if depth < MAX_HELPERS else None
        body = function.child_by_field_name("body") if function is not None else None
        if body is not None and (HEAVY.match((unit.callee(call) or "").removeprefix(PREFIX)) or heavy(unit, body, depth + 1)):
            return True
    return False


def _factors(unit: Unit, loop: Loop, at: Node, values: Mapping[str, Node], depth: int = 0) -> list[str]:
    """Bounds along the deepest path of loops, through calls; `values` are a helper's arguments by parameter."""
    bound = strip(loop.upper)
    given = values.get(unit.text(bound)) if bound.type == "identifier" else None
    bound = strip(given) if given is not None else bound
    named = _visible(unit, bound, at) and (given is not None or depth == 0 or bound.type == "number_literal")
    text = unit.text(bound) if bound.type in ("identifier", "number_literal") else f"({unit.text(bound)})"
    # A loop that starts at another's variable walks a part of what that one has counted.
    part = not named and strip(loop.lower).type == "identifier"
    return [*([] if part else [text if named else TYPICAL_LENGTH]), *_inside(unit, loop.body, at, values, depth)]


def _inside(unit: Unit, region: Node, at: Node, values: Mapping[str, Node], depth: int) -> list[str]:
    paths: list[list[str]] = []
    outer: list[Loop] = []
    for loop in unit.loops(region):
        if not any(contains(one.node, loop.node) for one in outer):
            outer.append(loop)
            paths.append(_factors(unit, loop, at, values, depth))
    for call in walk(region):
        function = unit.functions.get(unit.callee(call) or "") if call.type == "call_expression" and depth < MAX_HELPERS else None
        body = function.child_by_field_name("body") if function is not None else None
        if function is None or body is None or any(contains(one.node, call) for one in outer):
            continue
        own = {p.name: a for p, a in zip(unit.parameters(function), unit.arguments(call), strict=False)}
        passed = own if depth == 0 else {name: values[unit.text(a)] for name, a in own.items() if unit.text(a) in values}
        paths.append(_inside(unit, body, at, passed, depth + 1))
    return max(paths, key=len, default=[])


def _visible(unit: Unit, bound: Node, at: Node) -> bool:
    """Whether the bound of `at`, or of a loop in it, means the same in front of it, and can be evaluated there."""
    casts = [n.child_by_field_name("function") for n in walk(bound) if n.type == "call_expression"]
    casts = [f for f in casts if f is not None and unit.text(f).removeprefix("std::") in INTEGERS]
    inside = _declared_in(unit, at)
    own = contains(at.child_by_field_name("condition") or at, bound)
    for node in walk(bound):
        if any(contains(f, node) for f in casts if f is not None) or (node.type == "call_expression" and node.named_children[0] in casts):
            continue
        if node.type in ("identifier", "type_identifier") and unit.text(node) in inside:
            return False
        if node.type == "binary_expression" and not own and _may_trap(unit, node):
            return False
        if node.type not in PLAIN and not unit.text(node).startswith("static_cast<"):
            return False
    return True


def _declared_in(unit: Unit, at: Node) -> set[str]:
    """Names that mean something else inside `at`, or nothing outside: of variables, types, enumerators and macros."""
    found: set[str] = set()
    for node in walk(at):
        if node.type == "identifier" and is_declared(node):
            found.add(unit.text(node))
        elif node.type in NAMED:
            found |= {unit.text(n) for field in ("name", "declarator") if (n := node.child_by_field_name(field)) is not None}
        elif node.type == "using_declaration":
            found |= {unit.text(n) for n in walk(node) if n.type.endswith("identifier")}
    return found


def _may_trap(unit: Unit, node: Node) -> bool:
    """A division that the kernel may never come to, by a number that may be zero."""
    operator, divisor = node.child_by_field_name("operator"), node.child_by_field_name("right")
    if operator is None or divisor is None or unit.text(operator) not in ("/", "%"):
        return False
    return divisor.type != "number_literal" or not unit.text(divisor).isdigit() or int(unit.text(divisor)) == 0
