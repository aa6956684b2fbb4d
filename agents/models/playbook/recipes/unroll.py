"""Several independent accumulators, so that one addition need not wait for the last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.dependence import independence
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.nests import is_innermost
from agents.models.playbook.analysis.reductions import Reduction, as_reduction
from agents.models.playbook.analysis.types import floating
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import FULL, Recipe
from agents.models.playbook.recipes.edits import counter_type, renamed
from agents.models.playbook.recipes.simd import near
from tools.languages.cpp_source import CppEdit, pragma_before, statements, unused_name, walk

COMBINE = {
    "+": "{s} += {p};",
    "*": "{s} *= {p};",
    "max": "{s} = {p} > {s} ? {p} : {s};",
    "min": "{s} = {p} < {s} ? {p} : {s};",
}

START = {"+": "0", "*": "1"}
"""What a partial result starts from; a maximum or minimum from the whole one."""


class UnrollAccumulators(Recipe):
    """A reduction loop over LANES partial results in an array, combined at the end."""

    name = "unroll_accumulators"
    knobs = {"LANES": ("32", "64", "16", "8")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        for loop in unit.reached:
            if (
                not is_innermost(loop)
                or loop.step is not None
                or loop.inclusive
                or unit.text(loop.lower) not in ("0", "1")
                or "kw_" in unit.text(loop.upper)
            ):
                continue
            inner = statements(loop.body)
            reduction = as_reduction(unit, inner[0]) if len(inner) == 1 else None
            pragma = pragma_before(loop.node)
            if reduction is None or (pragma is not None and not unit.text(pragma).startswith("#pragma omp simd")):
                continue
            found = independence(unit, loop)
            if (
                found
                and [r.name for r in found.reductions] == [reduction.name]
                and found.accesses
                and near(loop, found.accesses)
            ):
                yield self._edits(unit, loop, reduction, self.value(knobs, "LANES"))

    def _edits(self, unit: Unit, loop: Loop, reduction: Reduction, lanes: str) -> list[CppEdit]:
        name = next(n for n in walk(loop.body) if n.type == "identifier" and unit.text(n) == reduction.name)
        kind = floating(unit, name)
        if kind not in ("float", "double"):
            return []
        indent = unit.indent(loop.node)
        size, part, full = self.constant(unit, "LANES"), unused_name(unit, "kw_partial"), unused_name(unit, FULL)
        j, counter = loop.variable, counter_type(loop)
        statement = renamed(unit, reduction.statement, {j: f"({j} + kw_lane)", reduction.name: f"{part}[kw_lane]"})
        start = START.get(reduction.operator, reduction.name)
        lower, upper = unit.text(loop.lower), unit.text(loop.upper)
        lanes_loop = f"for (int kw_lane = 0; kw_lane < {size}; ++kw_lane)"
        declared = f"{counter} {j}" if loop.declared_here else j
        lines = [
            "{",
            f"  constexpr int {size} = {lanes};",
            f"  {kind} {part}[{size}];",
            f"  {lanes_loop} {part}[kw_lane] = {start};",
            f"  const {counter} {full} = {lower} + ({upper} - {lower}) / {size} * {size};",
            f"  for ({declared} = {lower}; {j} < {full}; {j} += {size}) {{",
            "    #pragma omp simd",
            f"    {lanes_loop} {{",
            f"      {statement}",
            "    }",
            "  }",
            f"  for ({declared} = {full}; {j} < {upper}; ++{j}) {unit.text(reduction.statement)}",
            f"  {lanes_loop} {COMBINE[reduction.operator].format(s=reduction.name, p=f'{part}[kw_lane]')}",
            "}",
        ]
        pragma = pragma_before(loop.node)
        first = pragma.start_byte if pragma is not None else loop.node.start_byte
        return [CppEdit(first, loop.node.end_byte, f"\n{indent}".join(lines))]
