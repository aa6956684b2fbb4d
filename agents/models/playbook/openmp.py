"""Threads over the outermost loop whose iterations are independent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.dependence import Independence, independence, outermost
from agents.models.playbook.syntax import Edit, Loop, Unit, pragma_before, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

MIN_WORK = 1 << 14
"""Loop iterations below which waking the threads costs more than it gives."""


class ParallelOuter(Recipe):
    """`#pragma omp parallel for` with private and reduction clauses, guarded by the amount of work."""

    name = "parallel_outer"
    knobs = {"SCHEDULE": ("static", "dynamic")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        schedule = self.value(knobs, "SCHEDULE")
        waiting = outermost(unit)
        while waiting:
            loop = waiting.pop(0)
            previous = pragma_before(unit, loop.node)
            existing = unit.text(previous) if previous is not None else ""
            if "parallel" in existing or (existing and "omp simd" not in existing):
                continue
            found = independence(unit, loop)
            if found and not any("omp parallel" in unit.text(n) for n in walk(loop.body) if n.type == "preproc_call"):
                yield self._edit(unit, loop, found, previous, schedule)
            elif not found:
                waiting.extend(
                    inner for inner in unit.loops(loop.body) if _depth(inner.node) == _depth(loop.node) + 1 and _long(unit, inner)
                )

    def _edit(self, unit: Unit, loop: Loop, found: Independence, previous: Node | None, schedule: str) -> list[Edit]:
        simd = previous is not None
        clauses = ["#pragma omp parallel for" + (" simd" if simd else "")]
        private = [p for p in found.private if p != loop.variable]
        if private:
            clauses.append(f"private({', '.join(private)})")
        clauses += [f"reduction({r.operator}:{r.name})" for r in found.reductions]
        clauses.append(f"schedule({schedule})")
        work = _work(unit, loop)
        if work:
            clauses.append(f"if({'parallel: ' if simd else ''}{work} >= {MIN_WORK})")
        return insert_pragma(unit, loop.node, " ".join(clauses), previous)

    def retune(self, source: str, knobs: Mapping[str, str]) -> str:
        if "SCHEDULE" not in knobs:
            return source
        return re.sub(r"(#pragma omp parallel for\b.*\bschedule\()\w+(\))", rf"\g<1>{knobs['SCHEDULE']}\g<2>", source)


def insert_pragma(unit: Unit, node: Node, pragma: str, replaced: Node | None = None) -> list[Edit]:
    """Put `pragma` on a line of its own before `node`, in place of the pragma `replaced`."""
    if replaced is not None:
        return [Edit(replaced.start_byte, replaced.end_byte, pragma + "\n")]
    parent = node.parent
    indent = unit.indent(node)
    if parent is not None and parent.type == "compound_statement":
        return [Edit(node.start_byte, node.start_byte, f"\n{indent}{pragma}\n{indent}")] if _shares_line(unit, node) else [
            Edit(node.start_byte, node.start_byte, f"{pragma}\n{indent}")
        ]  # fmt: skip
    return [Edit(node.start_byte, node.start_byte, f"{{\n{pragma}\n{indent}"), Edit(node.end_byte, node.end_byte, f"\n{indent}}}")]


def _shares_line(unit: Unit, node: Node) -> bool:
    line = unit.code[unit.code.rfind(b"\n", 0, node.start_byte) + 1 : node.start_byte]
    return bool(line.strip())


def _depth(node: Node) -> int:
    depth, current = 0, node.parent
    while current is not None:
        depth += current.type in ("for_statement", "while_statement", "do_statement")
        current = current.parent
    return depth


def _long(unit: Unit, loop: Loop) -> bool:
    """Worth threads inside another loop: it holds loops itself."""
    return any(n.type == "for_statement" for n in walk(loop.body))


def _work(unit: Unit, loop: Loop) -> str:
    """C expression for the iterations of the nest, from bounds whose names are visible at the loop; "" when there are none."""
    factors = _factors(unit, loop, loop.node)
    return " * ".join(["1LL", *factors]) if factors and _visible(unit, strip(loop.upper), loop.node) else ""


def _factors(unit: Unit, loop: Loop, at: Node) -> list[str]:
    """Bounds along the deepest path of loops, those left out that cannot be named at `at`."""
    bound = strip(loop.upper)
    own = []
    if _visible(unit, bound, at):
        own = [unit.text(bound) if bound.type != "binary_expression" else f"({unit.text(bound)})"]
    inner = [_factors(unit, one, at) for one in unit.loops(loop.body) if _depth(one.node) == _depth(loop.node) + 1]
    return own + max(inner, key=len, default=[])


def _visible(unit: Unit, bound: Node, at: Node) -> bool:
    for node in walk(bound):
        if node.type == "identifier":
            declaration = unit.declaration(node)
            if declaration is not None and declaration.node.end_byte > at.start_byte:
                return False
        elif node.type not in (
            "number_literal",
            "binary_expression",
            "parenthesized_expression",
            "cast_expression",
            "type_descriptor",
            "primitive_type",
        ):
            return False
    return True
