"""Threads over the outermost loop whose iterations are independent."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.affine import is_element_symbol
from agents.models.playbook.analysis.dependence import Independence, analyse_independence, is_private
from agents.models.playbook.analysis.effects import ElementAccess
from agents.models.playbook.analysis.expressions import ExpressionEvaluator
from agents.models.playbook.analysis.loops import LOOP_STATEMENTS, CountedLoop
from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.recipe import NAME_PREFIX, Recipe
from agents.models.playbook.recipes.edits import insert_pragma, perfectly_nested_loop
from agents.models.playbook.recipes.work import calls_transcendentals, work_expression
from tools.languages.cpp_source import CppEdit, pragma_before, walk

if TYPE_CHECKING:
    from tree_sitter import Node

MIN_ITERATIONS = 1 << 18
"""Loop iterations below which waking the threads costs more than it gives: some 50 us on a virtual machine, in which
one core makes as many of a vector loop. Threads that lose on a small workload lose the whole candidate at the gate;
on a middling one they can wait."""
MIN_HEAVY_ITERATIONS = 1 << 16
"""The same where an iteration calls a transcendental function."""
MAX_DUPLICATED_LINES = 13
"""A longer loop does not stand twice in a kernel: prompts hold it, and readers read it, twice."""


class ParallelOuter(Recipe):
    """`#pragma omp parallel for` with private and reduction clauses, guarded by the amount of work."""

    name = "parallel_outer"
    knobs = {"SCHEDULE": ("static", "dynamic")}
    written = r"\w+"

    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        schedule = self.value(knobs, "SCHEDULE")
        waiting = list(unit.outermost_loops)
        while waiting:
            loop = waiting.pop(0)
            previous = pragma_before(loop.node)
            existing = unit.text(previous) if previous is not None else ""
            if (
                "parallel" in existing
                or (existing and "omp simd" not in existing)
                or _is_serial_branch(unit, loop.node)
            ):
                continue
            if not loop.declares_variable and (
                loop.declaration is None or not is_private(unit, loop, loop.declaration)
            ):
                # Each thread counts for itself; where the counter ended nobody would know.
                continue
            found = analyse_independence(unit, loop)
            if found and not _has_threads_inside(unit, loop) and not _always_short(unit, loop):
                yield self._thread_edits(unit, loop, found, previous, schedule)
            elif not found:
                waiting.extend(
                    one
                    for one in unit.loops(loop.body)
                    if _loop_depth(one.node) == _loop_depth(loop.node) + 1 and _holds_loops(one)
                )

    def _thread_edits(
        self, unit: CppUnit, loop: CountedLoop, found: Independence, previous: Node | None, schedule: str
    ) -> list[CppEdit]:
        simd, uneven = previous is not None, _has_uneven_iterations(unit, loop)
        clauses = ["#pragma omp parallel for" + (" simd" if simd else "")]
        if not simd and not uneven and _can_collapse(unit, loop, found):
            clauses.append("collapse(2)")
        private = [p for p in found.private if p != loop.variable]
        if private:
            clauses.append(f"private({', '.join(private)})")
        clauses += [f"reduction({r.operator}:{r.name})" for r in found.reductions]
        # A modifier keeps this one out of the search: equal shares of unequal rows would only be tried in vain.
        clauses.append("schedule(nonmonotonic: dynamic, 4)" if uneven else f"schedule({schedule})")
        amount = work_expression(unit, loop)
        if amount:
            least = (
                MIN_HEAVY_ITERATIONS
                if _loop_depth(loop.node) == 0 and calls_transcendentals(unit, loop.body)
                else MIN_ITERATIONS
            )
            amount = f"{amount} >= {least}"
            if not private and _may_stand_twice(unit, loop):
                return _two_versions(unit, loop, amount, clauses, previous)
            clauses.append(f"if({'parallel: ' if simd else ''}{amount})")
        return insert_pragma(unit, loop.node, " ".join(clauses), previous)

    def knob_value_pattern(self, knob: str) -> str:
        """See `Recipe.knob_value_pattern`."""
        return rf"(#pragma omp parallel for\b.*\bschedule\()({self.written})(\))"


def _may_stand_twice(unit: CppUnit, loop: CountedLoop) -> bool:
    """Whether a loop is short, stands in a block, and calls no function of the file, which the compiler would no longer
    inline by itself."""
    called = {unit.called_function(n) for n in walk(loop.body) if n.type == "call_expression"}
    own = [name for name in called & set(unit.functions) if name is not None and not name.startswith(NAME_PREFIX)]
    in_block = loop.node.parent is not None and loop.node.parent.type == "compound_statement"
    text = unit.text(loop.node)
    return (
        in_block and not own and text.count("\n") < MAX_DUPLICATED_LINES and "\\\n" not in text and "static" not in text
    )


def _two_versions(
    unit: CppUnit, loop: CountedLoop, condition: str, clauses: list[str], pragma: Node | None
) -> list[CppEdit]:
    """The loop with threads where `condition` holds, and without them elsewhere.

    An `if` clause calls the OpenMP runtime in any case, which takes 8 to 25 us when its code is out of the cache
    (measured on two virtual cores, GCC 12): a tenth of a small workload.
    """
    indent, text = unit.indent(loop.node), unit.text(loop.node)
    kept = [clause for clause in clauses[1:] if not clause.startswith("schedule(")]
    alone = f"{' '.join(['#pragma omp simd', *kept])}\n{indent}{text}" if pragma is not None else text
    threaded, alone = (
        textwrap.indent(f"{indent}{version}", "  ") for version in (f"{' '.join(clauses)}\n{indent}{text}", alone)
    )
    versions = f"if ({condition}) {{\n{threaded}\n{indent}}} else {{\n{alone}\n{indent}}}"
    return [CppEdit((pragma or loop.node).start_byte, loop.node.end_byte, versions)]


def _has_threads_inside(unit: CppUnit, loop: CountedLoop) -> bool:
    return any("omp parallel" in unit.text(n) for n in walk(loop.body) if n.type == "preproc_call")


def _is_serial_branch(unit: CppUnit, node: Node) -> bool:
    """Whether the loop lies where somebody decided against threads: in the `else` of a branch that has them."""
    current: Node | None = node
    while current is not None:
        branch = current.parent if current.type == "else_clause" else None
        threaded = branch.child_by_field_name("consequence") if branch is not None else None
        if any(n.type == "preproc_call" and "omp parallel" in unit.text(n) for n in walk(threaded)):
            return True
        current = current.parent
    return False


def _always_short(unit: CppUnit, loop: CountedLoop) -> bool:
    """Whether the nest has a fixed number of turns, and too few for threads."""
    inner = [n for n in walk(loop.body) if n.type in LOOP_STATEMENTS]
    lengths = [unit.text(one.upper) for one in (loop, *unit.loops(loop.body))]
    calls = any(unit.called_function(n) in unit.functions for n in walk(loop.body) if n.type == "call_expression")
    known = all(length.isdigit() for length in lengths) and len(lengths) == len(inner) + 1 and not calls
    return known and prod(map(int, lengths)) < MIN_HEAVY_ITERATIONS


def _can_collapse(unit: CppUnit, loop: CountedLoop, found: Independence) -> bool:
    """Whether the loop and the one inside can be dealt out together: a first loop over a batch may be short, down to
    one turn."""
    inner = perfectly_nested_loop(unit, loop)
    if inner is None or not _holds_loops(inner) or not (loop.declares_variable and inner.declares_variable):
        return False
    own = analyse_independence(unit, inner)
    # A loop along memory is left to the vectoriser.
    if _stores_along(inner, own.accesses):
        return False
    private = found.private or found.reductions or own.private or own.reductions
    return bool(own) and not private and pragma_before(inner.node) is None


def _stores_along(loop: CountedLoop, accesses: Sequence[ElementAccess]) -> bool:
    """Whether every store moves by one element from one iteration of `loop` to the next."""
    factors = [a.index[-1].coefficient(loop.symbol) for a in accesses if a.write and a.index]
    return bool(factors) and all(f is not None and f.value == 1 for f in factors)


def _has_uneven_iterations(unit: CppUnit, loop: CountedLoop) -> bool:
    """Whether the length of a loop inside depends on where the outer one stands."""
    values = ExpressionEvaluator(unit, loop.body)
    for inner in unit.loops(loop.body):
        if not any(
            n.type == "identifier" and unit.text(n) == loop.variable
            for b in (inner.lower, inner.upper)
            for n in walk(b)
        ):
            continue
        lower, upper = values.integer_value(inner.lower, {}), values.integer_value(inner.upper, {})
        if (
            lower is None
            or upper is None
            or any(s == loop.symbol or is_element_symbol(s, loop.symbol) for s in (upper - lower).symbols)
        ):
            return True
    return False


def _loop_depth(node: Node) -> int:
    depth, current = 0, node.parent
    while current is not None:
        depth += current.type in LOOP_STATEMENTS
        current = current.parent
    return depth


def _holds_loops(loop: CountedLoop) -> bool:
    return any(n.type == "for_statement" for n in walk(loop.body))
