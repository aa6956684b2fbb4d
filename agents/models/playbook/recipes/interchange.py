"""Make the innermost loop run along memory: swap a nest's loops, or carry several neighbouring results at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.dependence import Independence, analyse_independence
from agents.models.playbook.analysis.effects import ElementAccess, read_effects
from agents.models.playbook.analysis.loops import CountedLoop, is_innermost
from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.recipe import Recipe
from agents.models.playbook.recipes.edits import (
    counter_type,
    enclosing_loop,
    indent_lines,
    perfectly_nested_loop,
    replace_loop,
    strip_header,
)
from agents.models.playbook.recipes.lanes import LaneRewriter, UnsupportedBodyError
from tools.languages.cpp_source import CppEdit, node_contains, pragma_before, walk

PART_LANES = 16
"""Lanes of a piece of a strip that is not full: a whole vector of floats on the widest machines."""


class Interchange(Recipe):
    """Two shapes. A perfect nest whose inner loop strides is swapped. A loop around reductions that stride (a matrix
    product's j loop, a column sum) is cut into strips of TILE results that share one pass over the reduction; ROWS
    rows of a product go together."""

    name = "interchange"
    knobs = {"TILE": ("64", "128", "32", "256"), "ROWS": ("4", "8", "1")}

    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        for loop in unit.reached:
            if loop.step is not None or unit.text(loop.lower).endswith(("_strip", "_part")):
                continue
            swap = _swap_edits(unit, loop)
            found = analyse_independence(unit, loop)
            if swap:
                yield swap
            elif found and not found.reductions and _vectorises_a_strided_loop(unit, loop):
                for rows, whole in _row_loops(unit, loop) if int(self.value(knobs, "ROWS")) > 1 else ():
                    yield self._strip_edits(unit, rows, loop, whole, knobs)
                yield self._strip_edits(unit, None, loop, found, knobs)

    def _strip_edits(
        self, unit: CppUnit, rows: CountedLoop | None, loop: CountedLoop, found: Independence, knobs: Mapping[str, str]
    ) -> list[CppEdit]:
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
        lanes = LaneRewriter(unit, loop, rows, count, found.private)
        try:
            bodies = (
                lanes.body(tile),
                lanes.body(str(PART_LANES), "part"),
                lanes.body(str(PART_LANES), "part", ragged=True),
            )
        except UnsupportedBodyError:
            return []
        constants = [f"constexpr int {tile} = {self.value(knobs, 'TILE')};"]
        if rows is not None:
            constants.append(f"constexpr int {count} = {self.value(knobs, 'ROWS')};")
        return replace_loop(unit, outer, constants, _strip_nest(unit, rows, loop, tile, count, bodies))


def _swap_edits(unit: CppUnit, outer: CountedLoop) -> list[CppEdit]:
    """The two headers exchanged, where the inner loop strides, the outer one would run along memory, and any order
    is right: of independent iterations, or of such that add to elements which the other loop does not move with."""
    inner = perfectly_nested_loop(unit, outer)
    if inner is None or inner.step is not None or not is_innermost(inner) or pragma_before(inner.node) is not None:
        return []
    accesses = read_effects(unit, inner.body).effects.accesses
    if not _is_right_in_any_order(unit, outer, inner) or not all(
        a.index and _elements_per_iteration(a, outer) in (0, 1) for a in accesses
    ):
        return []
    if not any(
        _elements_per_iteration(a, outer) == 1 and _elements_per_iteration(a, inner) not in (0, 1) for a in accesses
    ):
        return []
    heads = [CppEdit(loop.node.start_byte, loop.body.start_byte, "") for loop in (outer, inner)]
    texts = [unit.code[e.start : e.end].decode() for e in heads]
    return [CppEdit(heads[0].start, heads[0].end, texts[1]), CppEdit(heads[1].start, heads[1].end, texts[0])]


def _is_right_in_any_order(unit: CppUnit, outer: CountedLoop, inner: CountedLoop) -> bool:
    """The inner loop's iterations are independent, so that threads may have them once it is the outer one; and so
    are those of the outer loop, or all that they share are elements which they add to and do not move with: each
    meets what is added in the same order."""
    found, own = analyse_independence(unit, outer), analyse_independence(unit, inner)
    if not own or any((one.private or one.reductions) for one in (found, own)):
        return False
    accesses = own.accesses
    written = {a.root for a in accesses if a.write}
    indices = {root: {a.index for a in accesses if a.root == root} for root in written}
    still = all(
        len(group) == 1 and not any(p.depends_on(outer.symbol) for i in group for p in i or ())
        for group in indices.values()
    )
    return bool(found) or ("same element" in found.problem and still)


def _row_loops(unit: CppUnit, loop: CountedLoop) -> list[tuple[CountedLoop, Independence]]:
    """Loops around a loop, in a perfect nest of independent ones, whose iterations can go together; first those that
    share what the lanes load."""
    found: list[tuple[CountedLoop, Independence]] = []
    accesses = [
        a
        for a in read_effects(unit, loop.body).effects.accesses
        if not a.write and _elements_per_iteration(a, loop) == 1
    ]
    around = enclosing_loop(unit, loop) if pragma_before(loop.node) is None else None
    while around is not None and around.step is None and perfectly_nested_loop(unit, around) is not None:
        whole = analyse_independence(unit, around)
        pragma = pragma_before(around.node)
        if not whole or whole.reductions or (pragma is not None and "simd" in unit.text(pragma)):
            break
        found.append((around, whole))
        around = enclosing_loop(unit, around) if pragma is None else None
    still = [one for one in found if any(not any(p.depends_on(one[0].symbol) for p in a.index or ()) for a in accesses)]
    return [*still, *(one for one in found[:1] if one not in still)]


def _strip_nest(
    unit: CppUnit, rows: CountedLoop | None, loop: CountedLoop, tile: str, count: str, bodies: tuple[str, str, str]
) -> str:
    """Strips of the loop (inside strips of rows): a full one by the first of `bodies`, others in parts of PART lanes
    and what is left."""
    whole, part, ragged = bodies
    lines = strip_header(unit, loop, tile)
    j, tj = loop.variable, counter_type(loop)
    guard = f"{rows.variable}_end - {rows.variable}_strip == {count} && " if rows is not None else ""
    lines += [f"  if ({guard}{j}_end - {j}_strip == {tile}) {{", indent_lines(whole, "    ", True), "  } else {"]
    lines += [f"    for ({tj} {j}_part = {j}_strip; {j}_part < {j}_end; {j}_part += {PART_LANES}) {{"]
    lines += [f"      const {tj} {j}_last = {j}_part + {PART_LANES} < {j}_end ? {j}_part + {PART_LANES} : {j}_end;"]
    lines += [
        f"      if ({guard}{j}_last - {j}_part == {PART_LANES}) {{",
        indent_lines(part, "        ", True),
        "      } else {",
    ]
    lines += [indent_lines(ragged, "        ", True), "      }", "    }", "  }", "}"]
    if rows is None:
        return "\n".join(lines)
    between = enclosing_loop(unit, loop)
    while between is not None and between is not rows:
        head = unit.code[between.node.start_byte : between.body.start_byte].decode().rstrip()
        lines = [f"{head} {{", *(indent_lines(line, "  ", True) for line in lines), "}"]
        between = enclosing_loop(unit, between)
    return "\n".join([*strip_header(unit, rows, count), *(indent_lines(line, "  ", True) for line in lines), "}"])


def _elements_per_iteration(access: ElementAccess, loop: CountedLoop) -> int | None:
    """Elements that the access moves by in one iteration; None when not a number."""
    factor = access.index[-1].coefficient(loop.symbol) if access.index else None
    return factor.value if factor is not None else None


def _vectorises_a_strided_loop(unit: CppUnit, loop: CountedLoop) -> bool:
    """Inside, some loop strides through memory in which `loop` runs along; and every other access is along `loop` or
    does not move with it."""
    inner = unit.loops(loop.body)
    accesses = read_effects(unit, loop.body).effects.accesses
    if any(not a.index or _elements_per_iteration(a, loop) not in (0, 1) for a in accesses if not _is_local(loop, a)):
        return False
    if any(n.type in ("while_statement", "do_statement", "lambda_expression") for n in walk(loop.body)):
        return False
    # A recurrence (Horner's rule) has no lanes of its own, so that the loop around it must give them.
    chained = {one.node.id for one in inner if is_innermost(one) and not analyse_independence(unit, one)}
    return any(
        _elements_per_iteration(access, loop) == 1
        and (_elements_per_iteration(access, one) != 0 or one.node.id in chained)
        and node_contains(one.node, access.node)
        for one in inner
        for access in accesses
    )


def _is_local(loop: CountedLoop, access: ElementAccess) -> bool:
    start = int(access.root.split("@")[1]) if "@" in access.root else -1
    return loop.body.start_byte <= start < loop.body.end_byte
