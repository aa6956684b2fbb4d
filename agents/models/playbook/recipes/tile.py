"""A perfect nest of two loops walked in square blocks, so that both arrays stay in cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.dependence import independence
from agents.models.playbook.analysis.effects import Access
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.nests import is_innermost
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from agents.models.playbook.recipes.edits import counter_type, nested, placed
from tools.languages.cpp_source import CppEdit


class Tile(Recipe):
    """Blocks of TILE x TILE iterations where one array runs along the outer loop and another along the inner (a
    transpose)."""

    name = "tile"
    knobs = {"TILE": ("32", "16", "64")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        for outer in unit.reached:
            inner = nested(unit, outer)
            if any(f"_{word}" in unit.text(outer.node) for word in ("block", "end")):
                continue
            if inner is None or outer.step is not None or inner.step is not None or not is_innermost(inner):
                continue
            both = independence(unit, outer), independence(unit, inner)
            if all(found and not found.reductions and not found.private for found in both) and crossed(
                outer, inner, both[1].accesses
            ):
                yield self._edits(unit, outer, inner, self.value(knobs, "TILE"), stores_along(outer, both[1].accesses))

    def _edits(self, unit: Unit, outer: Loop, inner: Loop, size: str, swap: bool) -> list[CppEdit]:
        constant = self.constant(unit, "TILE")
        i, j = outer.variable, inner.variable
        ti, tj = counter_type(outer), counter_type(inner)
        end_i, end_j = (unit.text(loop.upper) + (" + 1" if loop.inclusive else "") for loop in (outer, inner))
        body = unit.text(inner.body)
        walk_i = f"for ({ti} {i} = {i}_block; {i} < {i}_end; ++{i})"
        walk_j = f"for ({tj} {j} = {j}_block; {j} < {j}_end; ++{j})"
        slow, fast = (walk_j, walk_i) if swap else (walk_i, walk_j)
        lines = [
            f"for ({ti} {i}_block = {unit.text(outer.lower)}; {i}_block < {end_i}; {i}_block += {constant})",
            f"  for ({tj} {j}_block = {unit.text(inner.lower)}; {j}_block < {end_j}; {j}_block += {constant}) {{",
            f"    const {ti} {i}_end = {i}_block + {constant} < {end_i} ? {i}_block + {constant} : {end_i};",
            f"    const {tj} {j}_end = {j}_block + {constant} < {end_j} ? {j}_block + {constant} : {end_j};",
            f"    {slow}",
            f"      {fast} {body}",
            "  }",
        ]
        return placed(unit, outer, [f"constexpr int {constant} = {size};"], "\n".join(lines))


def crossed(outer: Loop, inner: Loop, accesses: Sequence[Access]) -> bool:
    """Some access runs along the inner loop and some along the outer one; none understood less than that."""
    along = {"inner": False, "outer": False}
    for access in accesses:
        if not access.index:
            return False
        first, last = (access.index[-1].coefficient(loop.symbol) for loop in (outer, inner))
        if first is None or last is None:
            return False
        along["inner"] |= last.value == 1 and first.value != 0
        along["outer"] |= first.value == 1 and last.value not in (0, 1)
    return along["inner"] and along["outer"]


def stores_along(loop: Loop, accesses: Sequence[Access]) -> bool:
    """Whether the stores run along `loop`: within a block it then goes innermost, since strided loads cost less than
    strided stores."""
    factors = [a.index[-1].coefficient(loop.symbol) for a in accesses if a.write and a.index]
    return bool(factors) and all(f is not None and f.value == 1 for f in factors)
