"""Threads over the outermost loop whose iterations are independent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.amount import MIN_WORK, MIN_WORK_HEAVY, heavy, work
from agents.models.playbook.base import FULL, Recipe
from agents.models.playbook.carried import read_later
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.dependence import Independence, independence
from agents.models.playbook.guarded import serial_form
from agents.models.playbook.nests import outermost
from agents.models.playbook.polynomial import loaded
from agents.models.playbook.private import own_scratch
from agents.models.playbook.syntax import Edit, Unit, parsed, pragma_before
from agents.models.playbook.tile import nested, stores_along
from agents.models.playbook.tree import strip, walk
from agents.models.playbook.values import Values

if TYPE_CHECKING:
    from tree_sitter import Node

LOOPS = frozenset({"for_statement", "for_range_loop", "while_statement", "do_statement"})


class ParallelOuter(Recipe):
    """`#pragma omp parallel for` with private and reduction clauses, guarded by the amount of work."""

    name = "parallel_outer"
    apart = True
    knobs = {"SCHEDULE": ("static", "dynamic")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        schedule = self.value(knobs, "SCHEDULE")
        waiting = outermost(unit)
        while waiting:
            loop = waiting.pop(0)
            previous = pragma_before(unit, loop.node)
            existing = unit.text(previous) if previous is not None else ""
            if "parallel" in existing or (existing and "omp simd" not in existing) or serial_form(unit, loop.node):
                continue
            if not loop.declared_here and (loop.declaration is None or read_later(unit, loop, loop.declaration)):
                # Each thread counts for itself; where the counter ended nobody would know.
                continue
            scratch: list[Edit] = []
            found = independence(unit, loop, copies=True)
            if "same element" in found.problem:
                found, scratch = _with_scratch(unit, loop, found)
            if found and not _threaded_inside(unit, loop) and not _always_short(unit, loop):
                yield [*self._edit(unit, loop, found, previous, schedule), *scratch]
            elif not found:
                waiting.extend(
                    inner for inner in unit.loops(loop.body) if _depth(inner.node) == _depth(loop.node) + 1 and _long(unit, inner)
                )

    def _edit(self, unit: Unit, loop: Loop, found: Independence, previous: Node | None, schedule: str) -> list[Edit]:
        simd = previous is not None
        clauses = ["#pragma omp parallel for" + (" simd" if simd else "")]
        if not simd and not _uneven(unit, loop) and _pairs(unit, loop, found):
            clauses.append("collapse(2)")
        private = [p for p in found.private if p != loop.variable]
        if private:
            clauses.append(f"private({', '.join(private)})")
        if found.scratch:
            clauses.append(f"firstprivate({', '.join(found.scratch)})")
        clauses += [f"reduction({r.operator}:{r.name})" for r in found.reductions]
        # A modifier keeps this one out of the search: equal shares of unequal rows would only be tried in vain.
        clauses.append("schedule(nonmonotonic: dynamic, 4)" if _uneven(unit, loop) else f"schedule({schedule})")
        amount = work(unit, loop)
        if amount:
            least = MIN_WORK_HEAVY if _depth(loop.node) == 0 and heavy(unit, loop.body) else MIN_WORK
            clauses.append(f"if({'parallel: ' if simd else ''}{amount} >= {least})")
        return [*insert_pragma(unit, loop.node, " ".join(clauses), previous), *_counts_up_from_zero(unit, loop)]

    def present(self, source: str) -> dict[str, str]:
        found = re.search(r"#pragma omp parallel for\b.*\bschedule\((\w+)\)", source)
        return {"SCHEDULE": found[1]} if found else {}

    def retune(self, source: str, knobs: Mapping[str, str]) -> str:
        if "SCHEDULE" not in knobs:
            return source
        return re.sub(r"(#pragma omp parallel for\b.*\bschedule\()\w+(\))", rf"\g<1>{knobs['SCHEDULE']}\g<2>", source)


def _threaded_inside(unit: Unit, loop: Loop) -> bool:
    return any("omp parallel" in unit.text(n) for n in walk(loop.body) if n.type == "preproc_call")


def _always_short(unit: Unit, loop: Loop) -> bool:
    """Whether the nest has a fixed number of turns, and too few for threads, or is what another recipe's blocks left over."""
    inner = [n for n in walk(loop.body) if n.type in LOOPS]
    if unit.text(loop.lower).startswith(FULL) and not inner:
        return True
    if len(inner) != len(unit.loops(loop.body)):
        return False
    turns = 1
    for one in (loop, *unit.loops(loop.body)):
        length = _fixed(unit, one.upper)
        if length is None:
            return False
        turns *= length
    return turns < MIN_WORK_HEAVY and not any(unit.callee(n) in unit.functions for n in walk(loop.body) if n.type == "call_expression")


def _fixed(unit: Unit, bound: Node) -> int | None:
    """A length that is known when the kernel is compiled, and the same in every call."""
    declaration = unit.declaration(bound) if bound.type == "identifier" else None
    if declaration is not None and declaration.initial is not None and unit.text(declaration.node).startswith("constexpr"):
        bound = declaration.initial
    return int(unit.text(bound)) if bound.type == "number_literal" and unit.text(bound).isdigit() else None


def _with_scratch(unit: Unit, loop: Loop, found: Independence) -> tuple[Independence, list[Edit]]:
    """The loop's independence once each iteration has scratch arrays of its own, and the edits that give it those."""
    edits = own_scratch(unit, loop)
    if not edits:
        return found, []
    # Nothing moves but a declaration from in front of the loop into it: it stays the same loop in document order.
    changed = parsed(unit.apply(edits))
    place = unit.loops(unit.root).index(loop)
    loops = changed.loops(changed.root)
    own = independence(changed, loops[place]) if place < len(loops) and not changed.broken else found
    return (own, edits) if own else (found, [])


def _pairs(unit: Unit, loop: Loop, found: Independence) -> bool:
    """Whether the loop and the one inside can be dealt out together: a first loop over a batch may be short, down to one turn."""
    inner = nested(unit, loop)
    if inner is None or not _long(unit, inner) or not (loop.declared_here and inner.declared_here):
        return False
    own = independence(unit, inner)
    # A loop along memory is left to the vectoriser.
    if stores_along(inner, own.accesses):
        return False
    private = found.private or found.reductions or own.private or own.reductions
    return bool(own) and not private and pragma_before(unit, inner.node) is None


def _uneven(unit: Unit, loop: Loop) -> bool:
    """Whether the length of a loop inside depends on where the outer one stands."""
    values = Values(unit, loop.body)
    for inner in unit.loops(loop.body):
        if not any(n.type == "identifier" and unit.text(n) == loop.variable for b in (inner.lower, inner.upper) for n in walk(b)):
            continue
        lower, upper = values.poly(inner.lower, {}), values.poly(inner.upper, {})
        if lower is None or upper is None or any(s == loop.symbol or loaded(s, loop.symbol) for s in (upper - lower).symbols):
            return True
    return False


def _counts_up_from_zero(unit: Unit, loop: Loop) -> list[Edit]:
    """GCC splits an uneven loop where the counter, of which a thread knows no bound, changes sign; the halves are not vectorised."""
    signed = loop.declaration is not None and loop.declaration.type in ("int", "long", "int32_t", "int64_t", "ptrdiff_t")
    if not signed or not _uneven(unit, loop) or not unit.text(strip(loop.lower)).isdigit() or loop.body.type != "compound_statement":
        return []
    at = loop.body.start_byte + 1
    return [Edit(at, at, f"\n{unit.indent(loop.node)}  if ({loop.variable} < 0) __builtin_unreachable();")]


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
