"""A loop cut at the one turn that the others depend on, so that the turns before it and behind it are independent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.base import Recipe
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.dependence import independence
from agents.models.playbook.effects import read
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.syntax import Edit, Unit, parsed, pragma_before
from agents.models.playbook.tile import counter_type

MAX_DEPTH = 3


class SplitAt(Recipe):
    """Row k and column k of a step k are read by all others: `j < k`, `j = k` and `j > k` become loops of their own."""

    name = "split_at"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                if loop.step is not None or loop.inclusive or not loop.declared_here or pragma_before(unit, loop.node) is not None:
                    continue
                found = independence(unit, loop)
                if found or "same element" not in found.problem:
                    continue
                for outer in _around(unit, loop):
                    if _within(unit, loop, outer) and (edits := _cut(unit, loop, outer)):
                        yield edits


def _around(unit: Unit, loop: Loop) -> list[Loop]:
    found, current = [], loop.node.parent
    while current is not None and current.type != "function_definition":
        one = unit.loop(current) if current.type == "for_statement" else None
        if one is not None and one.step is None and one.variable != loop.variable:
            found.append(one)
        current = current.parent
    return found[:MAX_DEPTH]


def _within(unit: Unit, loop: Loop, outer: Loop) -> bool:
    """The outer loop's counter is always one of this loop's values, and is named in its body."""
    reader = read(unit, loop.body)
    own, other = reader.range(loop, {}), reader.range(outer, {})
    if own is None or other is None or outer.variable in unit.assigned(loop.body):
        return False
    above = any((upper - last).nonnegative for upper in own.uppers for last in other.uppers)
    return above and (other.lower - own.lower).nonnegative


def _cut(unit: Unit, loop: Loop, outer: Loop) -> list[Edit]:
    v, k, kind = loop.variable, outer.variable, counter_type(unit, loop)
    body, indent = unit.text(loop.body), unit.indent(loop.node)
    bounds = [(unit.text(loop.lower), k), (k, f"{k} + 1"), (f"{k} + 1", unit.text(loop.upper))]
    lines = [f"for ({kind} {v} = {low}; {v} < {high}; ++{v}) {body}" for low, high in bounds]
    if is_innermost(unit, loop):
        # The compiler cannot tell that what is read once is not what is stored.
        lines = ["#pragma omp simd", lines[0], lines[1], "#pragma omp simd", lines[2]]
    text = "{\n" + "\n".join(f"{indent}  {line}" for line in lines) + f"\n{indent}}}"
    edits = [Edit(loop.node.start_byte, loop.node.end_byte, text)]
    changed = parsed(unit.apply(edits))
    parts = [one for one in changed.loops(changed.root) if one.variable == v and loop.node.start_byte <= one.node.start_byte]
    heads = [
        one for low, high in (bounds[0], bounds[2]) for one in parts if (changed.text(one.lower), changed.text(one.upper)) == (low, high)
    ]
    return edits if len(heads) >= 2 and all(independence(changed, one) for one in heads[:2]) else []
