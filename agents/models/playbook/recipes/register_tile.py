"""A block of scalar products computed together: each element that is loaded serves a row or a column of the block, and every product has
vectors of partial sums of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.dependence import Independence, independence
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.nests import is_innermost
from agents.models.playbook.analysis.reductions import Reduction
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import FULL, Recipe
from agents.models.playbook.recipes.edits import counter_type, enclosing, indented, nested, placed, renamed, strip_head
from agents.models.playbook.recipes.lanes import Lanes, NotSimple, element_type, shifted
from agents.models.playbook.recipes.simd import is_short, near
from agents.models.playbook.recipes.unroll import COMBINE, START
from tools.languages.cpp_source import Edit, pragma_before, walk

if TYPE_CHECKING:
    from tree_sitter import Node


SUMMED = re.compile(r"#pragma omp simd(?: reduction\([^()]*\))*\s*")
"""What may stand before a reduction: the block sums in vectors of its own."""


class RegisterTile(Recipe):
    """Loops around a contiguous reduction (`a * b^T`, distances, scores of attention) in blocks of ROWS x COLS results, the sums of
    each in vectors of BYTES."""

    name = "register_tile"
    knobs = {"ROWS": ("4", "2", "3"), "COLS": ("4", "2", "3"), "BYTES": ("64", "32")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in reversed(unit.loops(body)) if body is not None else []:
                if loop.step is not None or unit.text(loop.lower).endswith("_strip"):
                    continue
                found = independence(unit, loop)
                if found and any(_gains(unit, loop, one) for one in unit.loops(loop.body)):
                    around = enclosing(unit, loop)
                    whole = independence(unit, around) if around is not None else None
                    if around is not None and whole and not found.reductions and _block(unit, around, loop, whole):
                        yield self._tiled(unit, around, loop, whole, knobs)
                    yield self._tiled(unit, None, loop, found, knobs)

    def _tiled(self, unit: Unit, rows: Loop | None, loop: Loop, found: Independence, knobs: Mapping[str, str]) -> list[Edit]:
        outer = rows or loop
        names = {knob: self.constant(unit, knob) for knob in self.knobs if knob != "ROWS" or rows is not None}
        taken = [f"{one.variable}_{word}" for one in (outer, loop) for word in ("strip", "end")]
        pragma = pragma_before(outer.node)
        if any(word in unit.text(outer.node) for word in taken) or (pragma is not None and "simd" in unit.text(pragma)):
            return []
        block = Dots(unit, loop, rows, names.get("ROWS", ""), names["BYTES"], found.private)
        try:
            body = block.body(names["COLS"])
        except NotSimple:
            return []
        if not block.made:
            return []
        j = loop.variable
        guard = f"{rows.variable}_end - {rows.variable}_strip == {names['ROWS']} && " if rows is not None else ""
        rest = f"for ({counter_type(loop)} {j} = {j}_strip; {j} < {j}_end; ++{j}) {unit.text(loop.body)}"
        if rows is not None:
            i = rows.variable
            rest = f"for ({counter_type(rows)} {i} = {i}_strip; {i} < {i}_end; ++{i})\n  {indented(rest, '  ')}"
        lines = [*strip_head(unit, loop, names["COLS"]), f"  if ({guard}{j}_end - {j}_strip == {names['COLS']}) {{"]
        lines += [indented(body, "    ", True), "  } else {", indented(rest, "    ", True), "  }", "}"]
        if rows is not None:
            lines = [*strip_head(unit, rows, names["ROWS"]), *(indented(line, "  ", True) for line in lines), "}"]
        return placed(unit, outer, [f"constexpr int {name} = {self.value(knobs, knob)};" for knob, name in names.items()], "\n".join(lines))


def _gains(unit: Unit, loop: Loop, inner: Loop) -> bool:
    """`inner` reduces along memory what moves with `loop` and what does not: the latter need be loaded once only."""
    pragma = pragma_before(inner.node)
    if not is_innermost(unit, inner) or inner.step is not None or (pragma is not None and not SUMMED.fullmatch(unit.text(pragma))):
        return False
    found = independence(unit, inner)
    if not found or not found.reductions or not near(inner, found.accesses) or is_short(unit, inner):
        return False
    reads = [a.index for a in independence(unit, loop).accesses if a.index and inner.symbol in a.index[-1].symbols]
    moving = [any(loop.symbol in p.symbols for p in index) for index in reads]
    return any(moving) and not all(moving)


def _block(unit: Unit, rows: Loop, loop: Loop, whole: Independence) -> bool:
    return rows.step is None and nested(unit, rows) is loop and not whole.reductions and pragma_before(loop.node) is None


class Dots(Lanes):
    """The body of `loop` for a block of its results, entering each reduction once."""

    def __init__(self, unit: Unit, loop: Loop, rows: Loop | None, count: str, size: str, private: Sequence[str]) -> None:
        super().__init__(unit, loop, rows, count, private)
        self.size = size
        self.made = 0
        """Reductions rewritten."""

    def _inner(self, node: Node) -> str:
        loop = self.unit.loop(node)
        found = independence(self.unit, loop) if loop is not None and is_innermost(self.unit, loop) and loop.step is None else None
        if loop is not None and found and found.reductions and all(r.name in self.scalars for r in found.reductions):
            return self._products(loop, found.reductions)
        return super()._inner(node)

    def _products(self, loop: Loop, reductions: Sequence[Reduction]) -> str:
        unit, k, lower = self.unit, loop.variable, self.unit.text(loop.lower)
        bounds = (loop.lower, loop.upper)
        if not lower.isdigit() or any(self._moves(b) for b in bounds) or any(n.type == "call_expression" for n in walk(loop.upper)):
            raise NotSimple
        self.made += 1
        width, full, kind = f"kw_width_{self.made}", f"{FULL}_{self.made}", counter_type(loop)
        upper = f"(({unit.text(loop.upper)}) + 1)" if loop.inclusive else f"({unit.text(loop.upper)})"
        tail = renamed(unit, loop.body, self.scalars)
        lanes = f"for (int kw_lane = 0; kw_lane < {width}; ++kw_lane)"
        kept = dict(self.scalars)
        starts: list[str] = []
        sums: list[str] = []
        for reduction in reductions:
            part, whole = f"{reduction.name}_part_{self.made}", kept[reduction.name]
            element = f"{part}{whole.removeprefix(f'{reduction.name}_lanes')}[kw_lane]"
            use = next(n for n in walk(loop.body) if n.type == "identifier" and unit.text(n) == reduction.name)
            type_text = element_type(unit, use)
            if not sums:
                self.arrays.append(f"constexpr int {width} = {self.size} / sizeof({type_text});")
            self.arrays.append(f"{type_text} {part}{'[' + self.count + ']' if self.rows else ''}[{self.tile}][{width}];")
            starts.append(f"{element} = {START.get(reduction.operator, whole)};")
            add = COMBINE[reduction.operator].format(s="kw_whole", p=element)
            folded = f"#pragma omp simd reduction({reduction.operator}:kw_whole)\n{lanes} {add}"
            sums.append(f"{{\n  {type_text} kw_whole = {whole};\n{shifted(folded)}\n  {whole} = kw_whole;\n}}")
            self.scalars[reduction.name] = element
        self.scalars[k] = f"({k} + kw_lane)"
        body = renamed(unit, loop.body, self.scalars)
        self.scalars = kept
        declared = f"{kind} {k}" if loop.declared_here else k
        parts = [
            f"const {kind} {full} = {lower} + ({upper} - {lower}) / {width} * {width};",
            self._each(f"{lanes} {{ {' '.join(starts)} }}"),
            f"for ({declared} = {lower}; {k} < {full}; {k} += {width}) {{",
            shifted(self._each(f"#pragma omp simd\n{lanes} {body}")),
            "}",
            f"for ({declared} = {full}; {k} < {upper}; ++{k}) {{",
            shifted(self._each(tail)),
            "}",
            self._each("\n".join(sums)),
        ]
        return "\n".join(parts)

    def _each(self, text: str) -> str:
        """`text` for every result of the block."""
        unroll = "#pragma GCC unroll 16\n"
        return self._rows(f"{unroll}{self._header(self.loop, self.tile)} {{\n{shifted(text)}\n}}", unroll)
