"""Make the innermost loop run along memory: swap a nest's loops, or carry several neighbouring results at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.dependence import Independence, independence, is_innermost
from agents.models.playbook.effects import Access
from agents.models.playbook.lanes import Lanes
from agents.models.playbook.syntax import Edit, Loop, Unit, contains, pragma_before, walk
from agents.models.playbook.tile import counter_type, nested

if TYPE_CHECKING:
    pass


class Interchange(Recipe):
    """Two shapes. A perfect nest whose inner loop strides is swapped. A loop around reductions that stride (a matrix product's j loop,
    a column sum) is cut into strips of TILE results that share one pass over the reduction; ROWS rows of a product go together."""

    name = "interchange"
    knobs = {"TILE": ("64", "128", "32", "256"), "ROWS": ("4", "8", "1")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                if loop.step is not None or unit.text(loop.lower).endswith("_strip"):
                    continue
                found = independence(unit, loop)
                if not found or found.reductions:
                    continue
                swap = self._swap(unit, loop, found)
                if swap:
                    yield swap
                elif gains_from_lanes(unit, loop, found):
                    yield from self._strips(unit, loop, found, knobs)

    def _swap(self, unit: Unit, outer: Loop, found: Independence) -> list[Edit]:
        inner = nested(unit, outer)
        if inner is None or inner.step is not None or not is_innermost(unit, inner) or found.private:
            return []
        if pragma_before(unit, inner.node) is not None or not independence(unit, inner):
            return []
        if not all(a.index and _along(a, outer) in (0, 1) for a in found.accesses):
            return []
        if not any(_along(a, outer) == 1 and _along(a, inner) not in (0, 1) for a in found.accesses if a.index):
            return []
        headers = [(loop, Edit(loop.node.start_byte, loop.body.start_byte, "")) for loop in (outer, inner)]
        texts = [unit.code[e.start : e.end].decode() for _, e in headers]
        return [Edit(headers[0][1].start, headers[0][1].end, texts[1]), Edit(headers[1][1].start, headers[1][1].end, texts[0])]

    def _strips(self, unit: Unit, loop: Loop, found: Independence, knobs: Mapping[str, str]) -> Iterator[list[Edit]]:
        rows = int(self.value(knobs, "ROWS"))
        around = enclosing(unit, loop)
        if rows > 1 and around is not None and around.step is None and nested(unit, around) is not None:
            whole = independence(unit, around)
            if whole and not whole.reductions and pragma_before(unit, loop.node) is None:
                yield self._render(unit, around, loop, whole, knobs)
        yield self._render(unit, None, loop, found, knobs)

    def _render(self, unit: Unit, rows: Loop | None, loop: Loop, found: Independence, knobs: Mapping[str, str]) -> list[Edit]:
        """Replace the loop (and the one around it, when rows go together) by strips with a remainder."""
        outer = rows or loop
        indent = unit.indent(outer.node)
        tile, count = self.constant(unit, "TILE"), self.constant(unit, "ROWS")
        if any(f"{one.variable}_{word}" in unit.text(outer.node) for one in (outer, loop) for word in ("strip", "end", "lanes")):
            return []
        lanes = Lanes(unit, loop, tile, rows, count, found.private)
        body = lanes.body()
        if body is None:
            return []
        text = strip_nest(unit, rows, loop, tile, count, body)
        constants = [f"constexpr int {tile} = {self.value(knobs, 'TILE')};"]
        if rows is not None:
            constants.append(f"constexpr int {count} = {self.value(knobs, 'ROWS')};")
        first = pragma_before(unit, outer.node)
        if outer.node.parent is not None and outer.node.parent.type == "compound_statement":
            start = first or outer.node
            edits = [Edit(start.start_byte, start.start_byte, f"\n{indent}".join([*constants, ""]))]
            if first is not None and "simd" in unit.text(first):
                return []
            return [*edits, Edit(outer.node.start_byte, outer.node.end_byte, _indented(text, indent))]
        whole = "\n".join(["{", *(f"  {c}" for c in constants), _indented(text, "  "), "}"])
        return [Edit(outer.node.start_byte, outer.node.end_byte, _indented(whole, indent))]


def enclosing(unit: Unit, loop: Loop) -> Loop | None:
    """The counted loop directly around a loop."""
    current = loop.node.parent
    while current is not None and current.type == "compound_statement":
        current = current.parent
    return unit.loop(current) if current is not None and current.type == "for_statement" else None


def strip_nest(unit: Unit, rows: Loop | None, loop: Loop, tile: str, count: str, body: str) -> str:
    """Strips of the loop (inside strips of rows), full ones by `body`, ragged ones by the loop as it was."""
    original = unit.text(loop.body)
    j, tj = loop.variable, counter_type(unit, loop)
    end_j = bound(unit, loop)
    lines = [
        f"for ({tj} {j}_strip = {unit.text(loop.lower)}; {j}_strip < {end_j}; {j}_strip += {tile}) {{",
        f"  const {tj} {j}_end = {j}_strip + {tile} < {end_j} ? {j}_strip + {tile} : {end_j};",
    ]
    if rows is None:
        lines += [f"  if ({j}_end - {j}_strip == {tile}) {{", _indented(body, "    ", True), "  } else {"]
        lines += [f"    for ({tj} {j} = {j}_strip; {j} < {j}_end; ++{j}) {_indented(original, '    ')}", "  }", "}"]
        return "\n".join(lines)
    i, ti = rows.variable, counter_type(unit, rows)
    end_i = bound(unit, rows)
    head = [
        f"for ({ti} {i}_strip = {unit.text(rows.lower)}; {i}_strip < {end_i}; {i}_strip += {count}) {{",
        f"  const {ti} {i}_end = {i}_strip + {count} < {end_i} ? {i}_strip + {count} : {end_i};",
    ]
    lines += [f"  if ({i}_end - {i}_strip == {count} && {j}_end - {j}_strip == {tile}) {{", _indented(body, "    ", True), "  } else {"]
    lines += [f"    for ({ti} {i} = {i}_strip; {i} < {i}_end; ++{i})"]
    lines += [f"      for ({tj} {j} = {j}_strip; {j} < {j}_end; ++{j}) {_indented(original, '      ')}", "  }", "}"]
    return "\n".join([*head, *(_indented(line, "  ", True) for line in lines), "}"])


def bound(unit: Unit, loop: Loop) -> str:
    text = unit.text(loop.upper)
    return f"({text}) + 1" if loop.inclusive else text if re.fullmatch(r"\w+", text) else f"({text})"


def _along(access: Access, loop: Loop) -> int | None:
    """Elements that the access moves by in one iteration; None when not a number."""
    factor = access.index[-1].coefficient(loop.symbol) if access.index else None
    return factor.value if factor is not None else None


def gains_from_lanes(unit: Unit, loop: Loop, found: Independence) -> bool:
    """Inside, some loop strides through memory in which `loop` runs along; and every access is along `loop` or does not move with it."""
    inner = [one for one in unit.loops(loop.body) if one.step is None]
    if not inner or any(a.index is None or not a.index or _along(a, loop) not in (0, 1) for a in found.accesses if not _local(loop, a)):
        return False
    if any(n.type in ("break_statement", "continue_statement", "while_statement") for n in walk(loop.body)):
        return False
    return any(
        _along(access, loop) == 1 and _along(access, one) not in (0, 1) and contains(one.node, access.node)
        for one in inner
        for access in found.accesses
    )


def _local(loop: Loop, access: Access) -> bool:
    start = int(access.root.split("@")[1]) if "@" in access.root else -1
    return loop.body.start_byte <= start < loop.body.end_byte


def _indented(text: str, indent: str, first: bool = False) -> str:
    """`text` with its lines moved right, the first one only on request."""
    moved = text.replace("\n", f"\n{indent}")
    return indent + moved if first else moved
