"""Make the innermost loop run along memory: swap a nest's loops, or carry several neighbouring results at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.dependence import Independence, independence
from agents.models.playbook.analysis.effects import Access, read
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.nests import is_innermost
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from agents.models.playbook.recipes.lanes import Lanes
from agents.models.playbook.recipes.tile import counter_type, nested, uncollapsed
from tools.languages.cpp_source import Edit, contains, pragma_before, walk

PART = 16
"""Lanes of a piece of a strip that is not full: a whole vector of floats on the widest machines."""


class Interchange(Recipe):
    """Two shapes. A perfect nest whose inner loop strides is swapped. A loop around reductions that stride (a matrix product's j loop,
    a column sum) is cut into strips of TILE results that share one pass over the reduction; ROWS rows of a product go together."""

    name = "interchange"
    knobs = {"TILE": ("64", "128", "32", "256"), "ROWS": ("4", "8", "1")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                if loop.step is not None or unit.text(loop.lower).endswith(("_strip", "_part")):
                    continue
                found = independence(unit, loop)
                if not found or found.reductions:
                    continue
                swap = self._swap(unit, loop, found)
                if swap:
                    yield swap
                elif gains_from_lanes(unit, loop):
                    yield from self._strips(unit, loop, found, knobs)

    def _swap(self, unit: Unit, outer: Loop, found: Independence) -> list[Edit]:
        inner = nested(unit, outer)
        if inner is None or inner.step is not None or not is_innermost(unit, inner) or found.private:
            return []
        if pragma_before(inner.node) is not None or not independence(unit, inner):
            return []
        if not all(a.index and _along(a, outer) in (0, 1) for a in found.accesses):
            return []
        if not any(_along(a, outer) == 1 and _along(a, inner) not in (0, 1) for a in found.accesses if a.index):
            return []
        headers = [(loop, Edit(loop.node.start_byte, loop.body.start_byte, "")) for loop in (outer, inner)]
        texts = [unit.code[e.start : e.end].decode() for _, e in headers]
        return [Edit(headers[0][1].start, headers[0][1].end, texts[1]), Edit(headers[1][1].start, headers[1][1].end, texts[0])]

    def _strips(self, unit: Unit, loop: Loop, found: Independence, knobs: Mapping[str, str]) -> Iterator[list[Edit]]:
        if int(self.value(knobs, "ROWS")) > 1 and pragma_before(loop.node) is None:
            for around, whole in _row_loops(unit, loop):
                yield self._render(unit, around, loop, whole, knobs)
        yield self._render(unit, None, loop, found, knobs)

    def _render(self, unit: Unit, rows: Loop | None, loop: Loop, found: Independence, knobs: Mapping[str, str]) -> list[Edit]:
        """Replace the loop (and the nest around it from `rows` on, when rows go together) by strips with a remainder."""
        outer = rows or loop
        indent = unit.indent(outer.node)
        tile, count = self.constant(unit, "TILE"), self.constant(unit, "ROWS")
        taken = [f"{one.variable}_{word}" for one in (outer, loop) for word in ("strip", "end", "part", "last", "lanes")]
        if any(word in unit.text(outer.node) for word in taken):
            return []
        lanes = Lanes(unit, loop, rows, count, found.private)
        whole, part, ragged = lanes.body(tile), lanes.body(str(PART), "part"), lanes.body(str(PART), "part", ragged=True)
        if whole is None or part is None or ragged is None:
            return []
        text = strip_nest(unit, rows, loop, tile, count, (whole, part, ragged))
        constants = [f"constexpr int {tile} = {self.value(knobs, 'TILE')};"]
        if rows is not None:
            constants.append(f"constexpr int {count} = {self.value(knobs, 'ROWS')};")
        first = pragma_before(outer.node)
        if first is not None and "simd" in unit.text(first):
            return []
        top = outer
        while (around := enclosing(unit, top)) is not None and nested(unit, around) is top:
            top = around
        if top.node.parent is not None and top.node.parent.type == "compound_statement":
            # In front of the whole nest, which stays perfect.
            start = pragma_before(top.node) or top.node
            edits = [Edit(start.start_byte, start.start_byte, f"\n{indent}".join([*constants, ""]))]
            return [*edits, *uncollapsed(unit, outer), Edit(outer.node.start_byte, outer.node.end_byte, indented(text, indent))]
        block = "\n".join(["{", *(f"  {c}" for c in constants), indented(text, "  "), "}"])
        return [*uncollapsed(unit, outer), Edit(outer.node.start_byte, outer.node.end_byte, indented(block, indent))]


def _row_loops(unit: Unit, loop: Loop) -> list[tuple[Loop, Independence]]:
    """Loops around a loop, in a perfect nest of independent ones, whose iterations can go together; first those that share what the
    lanes load."""
    found: list[tuple[Loop, Independence]] = []
    accesses = [a for a in read(unit, loop.body).effects.accesses if not a.write and _along(a, loop) == 1]
    around = enclosing(unit, loop)
    while around is not None and around.step is None and nested(unit, around) is not None:
        whole = independence(unit, around)
        pragma = pragma_before(around.node)
        if not whole or whole.reductions or (pragma is not None and "simd" in unit.text(pragma)):
            break
        found.append((around, whole))
        if pragma is not None:
            break
        around = enclosing(unit, around)
    shared = [one for one in found if any(_still(a, one[0]) for a in accesses)]
    return [*shared, *(one for one in found[:1] if one not in shared)]


def _still(access: Access, loop: Loop) -> bool:
    """The access is to the same element whatever the loop's turn."""
    return all(loop.symbol not in p.symbols for p in access.index or ())


def enclosing(unit: Unit, loop: Loop) -> Loop | None:
    """The counted loop directly around a loop."""
    current = loop.node.parent
    while current is not None and current.type == "compound_statement":
        current = current.parent
    return unit.loop(current) if current is not None and current.type == "for_statement" else None


def strip_nest(unit: Unit, rows: Loop | None, loop: Loop, tile: str, count: str, bodies: tuple[str, str, str]) -> str:
    """Strips of the loop (inside strips of rows): a full one by the first of `bodies`, others in parts of PART lanes and what is left."""
    whole, part, ragged = bodies
    lines = strip_head(unit, loop, tile)
    j, tj = loop.variable, counter_type(unit, loop)
    guard = f"{rows.variable}_end - {rows.variable}_strip == {count} && " if rows is not None else ""
    lines += [f"  if ({guard}{j}_end - {j}_strip == {tile}) {{", indented(whole, "    ", True), "  } else {"]
    lines += [f"    for ({tj} {j}_part = {j}_strip; {j}_part < {j}_end; {j}_part += {PART}) {{"]
    lines += [f"      const {tj} {j}_last = {j}_part + {PART} < {j}_end ? {j}_part + {PART} : {j}_end;"]
    lines += [f"      if ({guard}{j}_last - {j}_part == {PART}) {{", indented(part, "        ", True), "      } else {"]
    lines += [indented(ragged, "        ", True), "      }", "    }", "  }", "}"]
    if rows is None:
        return "\n".join(lines)
    between = enclosing(unit, loop)
    while between is not None and between is not rows:
        head = unit.code[between.node.start_byte : between.body.start_byte].decode().rstrip()
        lines = [f"{head} {{", *(indented(line, "  ", True) for line in lines), "}"]
        between = enclosing(unit, between)
    return "\n".join([*strip_head(unit, rows, count), *(indented(line, "  ", True) for line in lines), "}"])


def strip_head(unit: Unit, loop: Loop, length: str) -> list[str]:
    v, kind, end = loop.variable, counter_type(unit, loop), bound(unit, loop)
    return [
        f"for ({kind} {v}_strip = {unit.text(loop.lower)}; {v}_strip < {end}; {v}_strip += {length}) {{",
        f"  const {kind} {v}_end = {v}_strip + {length} < {end} ? {v}_strip + {length} : {end};",
    ]


def bound(unit: Unit, loop: Loop) -> str:
    text = unit.text(loop.upper)
    return f"({text}) + 1" if loop.inclusive else text if re.fullmatch(r"\w+", text) else f"({text})"


def _along(access: Access, loop: Loop) -> int | None:
    """Elements that the access moves by in one iteration; None when not a number."""
    factor = access.index[-1].coefficient(loop.symbol) if access.index else None
    return factor.value if factor is not None else None


def gains_from_lanes(unit: Unit, loop: Loop) -> bool:
    """Inside, some loop strides through memory in which `loop` runs along; and every other access is along `loop` or does not move
    with it."""
    inner = [one for one in unit.loops(loop.body) if one.step is None]
    accesses = read(unit, loop.body).effects.accesses
    if not inner or any(not a.index or _along(a, loop) not in (0, 1) for a in accesses if not _local(loop, a)):
        return False
    if any(n.type in ("while_statement", "do_statement", "lambda_expression") for n in walk(loop.body)):
        return False
    # A recurrence (Horner's rule) has no lanes of its own, so that the loop around it must give them.
    chained = {one.node.id for one in inner if is_innermost(unit, one) and not independence(unit, one)}
    return any(
        _along(access, loop) == 1 and (_along(access, one) != 0 or one.node.id in chained) and contains(one.node, access.node)
        for one in inner
        for access in accesses
    )


def _local(loop: Loop, access: Access) -> bool:
    start = int(access.root.split("@")[1]) if "@" in access.root else -1
    return loop.body.start_byte <= start < loop.body.end_byte


def indented(text: str, indent: str, first: bool = False) -> str:
    """`text` with its lines moved right, the first one only on request."""
    moved = text.replace("\n", f"\n{indent}")
    return indent + moved if first else moved
