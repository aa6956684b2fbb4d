"""Vector execution of innermost loops, asked for by pragma."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.dependence import Independence, analyse_independence
from agents.models.playbook.analysis.effects import ElementAccess, read_effects
from agents.models.playbook.analysis.loops import CountedLoop, is_innermost
from agents.models.playbook.analysis.reductions import Reduction
from agents.models.playbook.analysis.types import arithmetic_type
from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.recipe import Recipe
from agents.models.playbook.recipes.edits import insert_pragma
from tools.languages.cpp_source import (
    CppEdit,
    library_function_name,
    pragma_before,
    statements,
    strip_parentheses,
    unused_name,
    walk,
)

MAX_STRIDE_ELEMENTS = 4
"""Elements from one iteration to the next (channels of a pixel, pairs) that vector loads still take apart with
shuffles."""

MAX_REPEATED_CHARACTERS = 80
"""Length of an operand that an edit may write twice."""
IMPURE_NODE_TYPES = frozenset({"call_expression", "assignment_expression", "update_expression"})
SHORT_LOOP_ITERATIONS = 8
"""Iterations."""


class SimdReduction(Recipe):
    """`#pragma omp simd reduction(...)`, which permits another order of the sum; -O3 alone does not.

    A maximum or minimum by a library function becomes a comparison: GCC has no vector instruction for fmaxf, which
    must ignore NaN.
    """

    name = "simd_reduction"

    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        for loop in _plain_innermost_loops(unit):
            found = _vectorisable_independence(unit, loop)
            if found is not None and found.reductions and not is_short(unit, loop):
                comparisons = [edit for one in found.reductions for edit in _comparison_edits(unit, one)]
                yield [*insert_pragma(unit, loop.node, _reduction_pragma(found)), *comparisons]
            elif not found and not is_short(unit, loop):
                yield _scalar_replacement_edits(unit, loop)


class SimdLoop(Recipe):
    """`#pragma omp simd` on independent innermost loops, which spares the run-time alias checks."""

    name = "simd_loop"

    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        for loop in _plain_innermost_loops(unit):
            found = _vectorisable_independence(unit, loop)
            if found is not None and not found.reductions:
                yield insert_pragma(unit, loop.node, f"#pragma omp simd{_private_clause(found)}")


def is_short(unit: CppUnit, loop: CountedLoop) -> bool:
    """A window of a few elements, which the compiler unrolls; most of its lanes would be empty."""
    own = read_effects(unit, loop.body).loop_range(loop, {})
    lengths = [(upper - own.lower).value for upper in own.uppers] if own is not None else []
    return any(length is not None and length < SHORT_LOOP_ITERATIONS for length in lengths)


def _private_clause(found: Independence) -> str:
    return f" private({', '.join(found.private)})" if found.private else ""


def _reduction_pragma(found: Independence) -> str:
    clauses = " ".join(f"reduction({r.operator}:{r.name})" for r in found.reductions)
    return f"#pragma omp simd{_private_clause(found)} {clauses}"


def _comparison_edits(unit: CppUnit, reduction: Reduction) -> list[CppEdit]:
    """Write `m = fmaxf(m, v)` as `m = v > m ? v : m`, which also keeps `m` where `v` is NaN."""
    call = reduction.statement.named_children[0].child_by_field_name("right")
    if reduction.operator not in ("max", "min") or call is None or call.type != "call_expression":
        return []
    name, value = reduction.name, f"({unit.text(reduction.value)})"
    ignores_nan = library_function_name(unit, call) not in ("max", "min")
    # std::max(v, m) returns a NaN v, so only std::max(m, v) is this comparison.
    if not ignores_nan and unit.text(unit.arguments(call)[0]) != name:
        return []
    if len(value) > MAX_REPEATED_CHARACTERS or any(n.type in IMPURE_NODE_TYPES for n in walk(reduction.value)):
        return []
    sign = ">" if reduction.operator == "max" else "<"
    return [CppEdit(call.start_byte, call.end_byte, f"{value} {sign} {name} ? {value} : {name}")]


def _scalar_replacement_edits(unit: CppUnit, loop: CountedLoop) -> list[CppEdit]:
    """Scalar replacement: `y[i] += ...` in a loop that does not move with y[i] adds up in a scalar, which may be
    reordered."""
    body = statements(loop.body)
    store = body[0].named_children[0] if len(body) == 1 and body[0].type == "expression_statement" else loop.node
    if (
        store.type != "assignment_expression"
        or unit.split_binary(store)[0] != "+="
        or any(n.type == "call_expression" for n in walk(store))
    ):
        return []
    target, kind = unit.split_binary(store)[1], arithmetic_type(unit, unit.split_binary(store)[1])
    effects = read_effects(unit, loop.body).effects
    mine = [a for a in effects.accesses if a.node == target and a.write]
    others = [a for a in effects.accesses if a.node != target]
    if effects.problem or not kind or kind == "int" or not mine or any(a.root == mine[0].root for a in others):
        return []
    if (
        any(p.depends_on(loop.symbol) for p in mine[0].index or ())
        or not others
        or not touches_neighbours(loop, others)
        or mine[0].index is None
    ):
        return []
    name, indent = unused_name(unit, "kw_sum"), unit.indent(loop.node)
    head = f"{{\n{indent}{kind} {name} = {unit.text(target)};\n#pragma omp simd reduction(+:{name})\n{indent}"
    return [
        CppEdit(loop.node.start_byte, loop.node.start_byte, head),
        CppEdit(target.start_byte, target.end_byte, name),
        CppEdit(loop.node.end_byte, loop.node.end_byte, f"\n{indent}{unit.text(target)} = {name};\n{indent}}}"),
    ]


def _plain_innermost_loops(unit: CppUnit) -> Iterator[CountedLoop]:
    for loop in unit.reached:
        if is_innermost(loop) and pragma_before(loop.node) is None and not _is_unrolled_by_compiler(unit, loop):
            yield loop


def _vectorisable_independence(unit: CppUnit, loop: CountedLoop) -> Independence | None:
    """The loop's independence, where its lanes would touch elements close by."""
    found = analyse_independence(unit, loop)
    return found if found and found.accesses and touches_neighbours(loop, found.accesses) else None


def _is_unrolled_by_compiler(unit: CppUnit, loop: CountedLoop) -> bool:
    """So few iterations that the compiler writes them all out, which a pragma would keep it from."""
    lower, upper = unit.text(strip_parentheses(loop.lower)), unit.text(strip_parentheses(loop.upper))
    return lower.isdigit() and upper.isdigit() and int(upper) - int(lower) <= SHORT_LOOP_ITERATIONS


def touches_neighbours(loop: CountedLoop, accesses: Sequence[ElementAccess]) -> bool:
    """Neighbouring iterations touch elements close by, or the same one; anything else would gather."""
    for access in accesses:
        if access.index is None or not access.index:
            return False
        factors = [p.coefficient(loop.symbol) for p in access.index]
        if any(f is None or f.terms for f in factors[:-1]):
            return False
        last = factors[-1]
        if last is None or last.value is None or abs(last.value) > MAX_STRIDE_ELEMENTS:
            return False
    return True
