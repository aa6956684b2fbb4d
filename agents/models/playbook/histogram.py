"""Counts and sums that are scattered by an index from memory: each thread fills a copy of its own, then the copies are added."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.amount import MIN_WORK, work
from agents.models.playbook.base import Recipe
from agents.models.playbook.callables import substituted
from agents.models.playbook.carried import touches_scalars
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.dependence import shared_roots
from agents.models.playbook.effects import Access, read
from agents.models.playbook.guarded import either, marked_inline, repeatable
from agents.models.playbook.nests import outermost
from agents.models.playbook.scopes import Declaration
from agents.models.playbook.syntax import Edit, Unit, pragma_before, single_store
from agents.models.playbook.tree import contains, strip, walk
from agents.models.playbook.vector_math import insertion_point

WORTH = 4
"""Additions for each element of a copy, below which adding the copies up costs what the threads gain."""


class PrivateHistogram(Recipe):
    """A loop that only adds to elements of one buffer, of which the places are not known before, run by threads with private copies."""

    name = "private_histogram"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for loop in outermost(unit):
            shared = shared_roots(unit, loop) if not read(unit, loop.body).effects.problem else {}
            if len(shared) != 1 or pragma_before(unit, loop.node) is not None or touches_scalars(unit, loop) or not loop.declared_here:
                continue
            root, group = next(iter(shared.items()))
            buffer = _buffer(unit, loop, root)
            if buffer is None or not all(_adds(unit, a) for a in group) or _other_names(unit, loop, buffer):
                continue
            size = _cleared(unit, loop, buffer)
            if size is not None:
                yield _edits(unit, loop, buffer, size)


def _buffer(unit: Unit, loop: Loop, root: str) -> Declaration | None:
    """A pointer parameter of the loop's function with a type of one word."""
    own = unit.parameters(unit.function_of(loop.node))
    found = next((p for p in own if p.symbol == root and p.form == "pointer"), None)
    return found if found is not None and re.fullmatch(r"(?:std::)?\w+", found.type) else None


def _other_names(unit: Unit, loop: Loop, buffer: Declaration) -> bool:
    """Whether the loop reaches the buffer through another pointer, which would go on pointing at the one that all threads share."""
    reader = read(unit, loop.body)
    others = []
    for name in walk(loop.node):
        declaration = unit.declaration(name) if name.type == "identifier" and unit.text(name) != buffer.name else None
        if declaration is not None and not contains(loop.node, declaration.node):
            others.append(name)
    return any((found := reader.pointer(n, {})) is not None and found.root == buffer.symbol for n in others)


def _adds(unit: Unit, access: Access) -> bool:
    """`h[k]++`, `h[k] += v`."""
    parent = access.node.parent
    if not access.write or parent is None:
        return False
    if parent.type == "update_expression":
        return "++" in unit.text(parent)
    return parent.type == "assignment_expression" and unit.binary(parent)[0] == "+=" and unit.binary(parent)[1] == access.node


def _cleared(unit: Unit, loop: Loop, buffer: Declaration) -> str | None:
    """The number of elements that the function sets to zero in front of the loop, which tells how long the buffer is."""
    before = loop.node.prev_named_sibling
    while before is not None:
        text = unit.text(before)
        if before.type == "for_statement" and (clear := unit.loop(before)) is not None:
            store = single_store(unit, clear.body)
            if (
                store is not None
                and unit.text(store[0]).replace(" ", "") == f"{buffer.name}[{clear.variable}]"
                and unit.text(clear.lower) == "0"
            ):
                zero = re.fullmatch(r"0(?:\.0*)?f?", unit.text(strip(store[1]))) is not None
                return f"({unit.text(clear.upper)})" if zero and not clear.inclusive and clear.step is None else None
        found = re.fullmatch(rf"(?:std::)?memset\(\s*{buffer.name}\s*,\s*0\s*,\s*(.+?)\s*\*\s*sizeof\s*\([^()]*\)\s*\);", text, re.DOTALL)
        found = found or re.fullmatch(
            rf"(?:std::)?memset\(\s*{buffer.name}\s*,\s*0\s*,\s*sizeof\s*\([^()]*\)\s*\*\s*(.+?)\s*\);", text, re.DOTALL
        )
        if found is not None:
            return f"({found[1]})"
        if any(n.type == "identifier" and unit.text(n) == buffer.name for n in walk(before)):
            return None
        before = before.prev_named_sibling
    return None


def _edits(unit: Unit, loop: Loop, buffer: Declaration, size: str) -> list[Edit]:
    indent, amount = unit.indent(loop.node), work(unit, loop)
    own, alone = f"kw_own_{buffer.name}", unit.text(loop.node)
    enough = f"{amount or MIN_WORK} >= {MIN_WORK} && {amount or MIN_WORK} >= {WORTH}LL * {size}"
    twice = repeatable(unit, loop.node)
    lines = [
        "#pragma omp parallel" if twice else f"#pragma omp parallel if({enough})",
        "{",
        f"  std::vector<{buffer.type}> kw_copy_{buffer.name}({size});",
        f"  {buffer.type}* {own} = kw_copy_{buffer.name}.data();",
        "  #pragma omp for schedule(static) nowait",
        f"  {substituted(unit, loop.node, {buffer.name: own})}",
        "  #pragma omp critical",
        f"  for (long kw_bin = 0; kw_bin < {size}; ++kw_bin) {buffer.name}[kw_bin] += {own}[kw_bin];",
        "}",
    ]
    threaded = f"\n{indent}".join(lines)
    text = either(unit, loop.node, enough, threaded, alone) if twice else f"\n{indent}{threaded}"
    edits = [Edit(loop.node.start_byte, loop.node.end_byte, text), *(marked_inline(unit, [loop.node]) if twice else [])]
    if "#include <vector>" not in unit.source:
        place = insertion_point(unit)
        edits.append(Edit(place, place, "\n#include <vector>\n"))
    return edits
