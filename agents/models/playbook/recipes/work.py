"""How much there is to do in a nest of loops, as a C expression that may be asked in front of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import CountedLoop
from agents.models.playbook.analysis.unit import CppUnit
from tools.languages.cpp_source import library_function_name, node_contains, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

TYPICAL_ITERATIONS = "8"
"""Stands for the length of a loop whose bound cannot be named outside."""
TRANSCENDENTAL_CALL = re.compile(
    r"(?:kw_)?(?:exp|exp2|expm1|log|log2|log10|log1p|pow\d*|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|cbrt|hypot)f?$"
)
MAX_CALL_DEPTH = 4
BOUND_NODES = frozenset(
    [
        "identifier",
        "number_literal",
        "binary_expression",
        "parenthesized_expression",
        "cast_expression",
        "type_descriptor",
        "primitive_type",
        "sized_type_specifier",
    ]
)
"""What a bound may be made of that is evaluated once more."""


def work_expression(unit: CppUnit, loop: CountedLoop) -> str:
    """C expression for the iterations of the nest, from bounds whose names are visible at the loop; "" when its own
    is not."""
    return (
        " * ".join(["1LL", *_bound_factors(unit, loop, loop, {})])
        if _is_visible_outside(unit, strip_parentheses(loop.upper), loop)
        else ""
    )


def calls_transcendentals(unit: CppUnit, region: Node, depth: int = 0) -> bool:
    """Whether iterations call transcendental functions, in helpers too."""
    for call in walk(region):
        if call.type != "call_expression":
            continue
        function = unit.functions.get(unit.called_function(call) or "") if depth < MAX_CALL_DEPTH else None
        if TRANSCENDENTAL_CALL.match(library_function_name(unit, call)) or (
            function is not None and calls_transcendentals(unit, function, depth + 1)
        ):
            return True
    return False


def _bound_factors(
    unit: CppUnit, loop: CountedLoop, outer: CountedLoop, values: Mapping[str, Node], depth: int = 0
) -> list[str]:
    """Bounds along the deepest path of loops, through calls; `values` are a helper's arguments by parameter."""
    bound = strip_parentheses(loop.upper)
    given = values.get(unit.text(bound)) if bound.type == "identifier" else None
    bound = strip_parentheses(given) if given is not None else bound
    named = _is_visible_outside(unit, bound, outer) and (
        given is not None or depth == 0 or bound.type == "number_literal"
    )
    text = unit.text(bound) if bound.type in ("identifier", "number_literal") else f"({unit.text(bound)})"
    # A loop that starts at another's variable walks a part of what that one has counted.
    part = not named and strip_parentheses(loop.lower).type == "identifier"
    return [
        *([] if part else [text if named else TYPICAL_ITERATIONS]),
        *_inner_factors(unit, loop.body, outer, values, depth),
    ]


def _inner_factors(
    unit: CppUnit, region: Node, outer: CountedLoop, values: Mapping[str, Node], depth: int
) -> list[str]:
    inner = unit.loops(region)
    nearest = [one for one in inner if not any(node_contains(other.body, one.node) for other in inner)]
    paths = [_bound_factors(unit, one, outer, values, depth) for one in nearest]
    for call in walk(region):
        function = (
            unit.functions.get(unit.called_function(call) or "")
            if call.type == "call_expression" and depth < MAX_CALL_DEPTH
            else None
        )
        body = function.child_by_field_name("body") if function is not None else None
        if function is None or body is None or any(node_contains(one.node, call) for one in nearest):
            continue
        own = {p.name: a for p, a in zip(unit.parameters(function), unit.arguments(call), strict=False)}
        passed = (
            own if depth == 0 else {name: values[unit.text(a)] for name, a in own.items() if unit.text(a) in values}
        )
        paths.append(_inner_factors(unit, body, outer, passed, depth + 1))
    return max(paths, key=len, default=[])


def _is_visible_outside(unit: CppUnit, bound: Node, outer: CountedLoop) -> bool:
    """Whether a bound of `outer`, or of a loop in it, means the same in front of it, and can be evaluated there."""
    for node in walk(bound):
        declaration = unit.declaration(node) if node.type == "identifier" else None
        inside = declaration is not None and node_contains(outer.node, declaration.node)
        unknown = node.type == "identifier" and declaration is None and unit.text(node) not in unit.aliases
        # A division that the kernel may never come to, by a number that may be zero.
        divided = (
            node.type == "binary_expression"
            and unit.split_binary(node)[0] in "/%"
            and unit.split_binary(node)[2].type != "number_literal"
        )
        if node.type not in BOUND_NODES or inside or unknown or divided:
            return False
    return True
