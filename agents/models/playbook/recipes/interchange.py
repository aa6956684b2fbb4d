"""Make the innermost loop run along memory: swap a nest's loops, or carry several neighbouring results at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.dependence import Independence, independence
from agents.models.playbook.analysis.effects import Access, read
from agents.models.playbook.analysis.loops import Loop, is_innermost
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from agents.models.playbook.recipes.edits import counter_type, enclosing, indented, nested, placed, strip_head
from agents.models.playbook.recipes.lanes import Lanes, NotSimple
from tools.languages.cpp_source import Edit, contains, pragma_before, walk

PART = 16
"""Lanes of a piece of a strip that is not full: a whole vector of floats on the widest machines."""


class Interchange(Recipe):
    """Two shapes. A perfect nest whose inner loop strides is swapped. A loop around reductions that stride (a matrix
    product's j loop, a column sum) is cut into strips of TILE results that share one pass over the reduction; ROWS
    rows of a product go together."""

    name = "interchange"
    knobs = {"TILE": ("64", "128", "32", "256"), "ROWS": ("4", "8", "1")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for loop in unit.reached:
            if loop.step is not None or unit.text(loop.lower).endswith(("_strip", "_part")):
                continue
            swap = _swapped(unit, loop)
            found = independence(unit, loop)
            if swap:
                yield swap
            elif found and not found.reductions and _gains(unit, loop):
                for rows, whole in _row_loops(unit, loop) if int(self.value(knobs, "ROWS")) > 1 else ():
                    yield self._strips(unit, rows, loop, whole, knobs)
                yield self._strips(unit, None, loop, found, knobs)

    def _strips(
        self, unit: Unit, rows: Loop | None, loop: Loop, found: Independence, knobs: Mapping[str, str]
    ) -> list[Edit]:
        """Replace the loop (and the nest around it from `rows` on, when rows go together) by strips with a
        remainder."""
        outer = rows or loop
        tile, count = self.constant(unit, "TILE"), self.constant(unit, "ROWS")
        taken = [
            f"{one.variable}_{word}" for one in (outer, loop) for word in ("strip", "end", "part", "last", "lanes")
        ]
        first = pragma_before(outer.node)
        if any(word in unit.text(outer.node) for word in taken) or (first is not None and "simd" in unit.text(first)):
            return []
        lanes = Lanes(unit, loop, rows, count, found.private)
        try:
            bodies = lanes.body(tile), lanes.body(str(PART), "part"), lanes.body(str(PART), "part", ragged=True)
        except NotSimple:
            return []
        constants = [f"constexpr int {tile} = {self.value(knobs, 'TILE')};"]
        if rows is not None:
            constants.append(f"constexpr int {count} = {self.value(knobs, 'ROWS')};")
        return placed(unit, outer, constants, _strip_nest(unit, rows, loop, tile, count, bodies))


def _swapped(unit: Unit, outer: Loop) -> list[Edit]:
    """The two headers exchanged, where the inner loop strides, the outer one would run along memory, and any order
    is right: of independent iterations, or of such that add to elements which the other loop does not move with."""
    inner = nested(unit, outer)
    if inner is None or inner.step is not None or not is_innermost(inner) or pragma_before(inner.node) is not None:
        return []
    accesses = read(unit, inner.body).effects.accesses
    if not _any_order(unit, outer, inner) or not all(a.index and _along(a, outer) in (0, 1) for a in accesses):
        return []
    if not any(_along(a, outer) == 1 and _along(a, inner) not in (0, 1) for a in accesses):
        return []
    heads = [Edit(loop.node.start_byte, loop.body.start_byte, "") for loop in (outer, inner)]
    texts = [unit.code[e.start : e.end].decode() for e in heads]
    return [Edit(heads[0].start, heads[0].end, texts[1]), Edit(heads[1].start, heads[1].end, texts[0])]


def _any_order(unit: Unit, outer: Loop, inner: Loop) -> bool:
    """The inner loop's iterations are independent, so that threads may have them once it is the outer one; and so
    are those of the outer loop, or all that they share are elements which they add to and do not move with: each
    meets what is added in the same order."""
    found, own = independence(unit, outer), independence(unit, inner)
    if not own or any((one.private or one.reductions) for one in (found, own)):
        return False
    accesses = own.accesses
    written = {a.root for a in accesses if a.write}
    indices = {root: {a.index for a in accesses if a.root == root} for root in written}
    still = all(
        len(group) == 1 and not any(p.mentions(outer.symbol) for i in group for p in i or ())
        for group in indices.values()
    )
    return bool(found) or ("same element" in found.problem and still)


def _row_loops(unit: Unit, loop: Loop) -> list[tuple[Loop, Independence]]:
    """Loops around a loop, in a perfect nest of independent ones, whose iterations can go together; first those that
    share what the lanes load."""
    found: list[tuple[Loop, Independence]] = []
    accesses = [a for a in read(unit, loop.body).effects.accesses if not a.write and _along(a, loop) == 1]
    around = enclosing(unit, loop) if pragma_before(loop.node) is None else None
    while around is not None and around.step is None and nested(unit, around) is not None:
        whole = independence(unit, around)
        pragma = pragma_before(around.node)
        if not whole or whole.reductions or (pragma is not None and "simd" in unit.text(pragma)):
            break
        found.append((around, whole))
        around = enclosing(unit, around) if pragma is None else None
    still = [one for one in found if any(not any(p.mentions(one[0].symbol) for p in a.index or ()) for a in accesses)]
    return [*still, *(one for one in found[:1] if one not in still)]


def _strip_nest(unit: Unit, rows: Loop | None, loop: Loop, tile: str, count: str, bodies: tuple[str, str, str]) -> str:
    """Strips of the loop (inside strips of rows): a full one by the first of `bodies`, others in parts of PART lanes
    and what is left."""
    whole, part, ragged = bodies
    lines = strip_head(unit, loop, tile)
    j, tj = loop.variable, counter_type(loop)
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


def _along(access: Access, loop: Loop) -> int | None:
    """Elements that the access moves by in one iteration; None when not a number."""
    factor = access.index[-1].coefficient(loop.symbol) if access.index else None
    return factor.value if factor is not None else None


def _gains(unit: Unit, loop: Loop) -> bool:
    """Inside, some loop strides through memory in which `loop` runs along; and every other access is along `loop` or
    does not move with it."""
    inner = unit.loops(loop.body)
    accesses = read(unit, loop.body).effects.accesses
    if any(not a.index or _along(a, loop) not in (0, 1) for a in accesses if not _local(loop, a)):
        return False
    if any(n.type in ("while_statement", "do_statement", "lambda_expression") for n in walk(loop.body)):
        return False
    # A recurrence (Horner's rule) has no lanes of its own, so that the loop around it must give them.
    chained = {one.node.id for one in inner if is_innermost(one) and not independence(unit, one)}
    return any(
        _along(access, loop) == 1
        and (_along(access, one) != 0 or one.node.id in chained)
        and contains(one.node, access.node)
        for one in inner
        for access in accesses
    )


def _local(loop: Loop, access: Access) -> bool:
    start = int(access.root.split("@")[1]) if "@" in access.root else -1
    return loop.body.start_byte <= start < loop.body.end_byte
