"""Running sums: each lane adds up its own, then the lanes are shifted and added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.dependence import shared_roots
from agents.models.playbook.effects import read
from agents.models.playbook.element_types import floating
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.polynomial import Poly
from agents.models.playbook.reductions import as_reduction
from agents.models.playbook.syntax import Edit, Unit, fresh, pragma_before
from agents.models.playbook.tree import statements, walk

if TYPE_CHECKING:
    from tree_sitter import Node


class SimdScan(Recipe):
    """`#pragma omp simd reduction(inscan, ...)` on `s += x[i]; y[i] = s;` in either order, and on `y[i] = y[i - 1] + x[i]`."""

    name = "simd_scan"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                plain = is_innermost(unit, loop) and pragma_before(unit, loop.node) is None and loop.step is None
                if plain and not read(unit, loop.body).effects.problem:
                    yield _scalar(unit, loop)
                    yield _in_memory(unit, loop)


def _scalar(unit: Unit, loop: Loop) -> list[Edit]:
    """A scalar that is added to once in an iteration, and otherwise only read, all before or all after that."""
    inner = statements(loop.body)
    found = [(n, r) for n in inner if n.type == "expression_statement" and (r := as_reduction(unit, n)) is not None]
    found = [(n, r) for n, r in found if r.operator in ("+", "max", "min") and _reads(unit, loop, n, r.name)]
    if len(found) != 1 or loop.body.type != "compound_statement" or shared_roots(unit, loop):
        return []
    update, reduction = found[0]
    uses = [n for n in walk(loop.body) if n.type == "identifier" and unit.text(n) == reduction.name]
    outside = [n for n in uses if not update.start_byte <= n.start_byte < update.end_byte]
    others = set(unit.assigned(loop.body)) - {reduction.name}
    declaration = unit.declaration(uses[0])
    if (
        declaration is None
        or declaration.form != "value"
        or declaration.kind != "local"
        or unit.assigned(loop.body).count(reduction.name) != 1
    ):
        return []
    if any((d := unit.declaration(n)) is not None and d.start < loop.body.start_byte for n in walk(loop.body) if unit.text(n) in others):
        return []
    later = all(n.start_byte > update.start_byte for n in outside)
    earlier = all(n.start_byte < update.start_byte for n in outside)
    # Between the halves nothing but the scanned sum may pass.
    if not (later or earlier) or any(n.type in ("declaration", "if_statement") for n in inner):
        return []
    if (later and inner[0] != update) or (earlier and inner[-1] != update):
        return []
    indent = unit.indent(loop.node)
    kind = "inclusive" if later else "exclusive"
    mark = f"\n{indent}  #pragma omp scan {kind}({reduction.name})\n{indent}  "
    place = update.end_byte if later else update.start_byte
    return [_pragma(unit, loop, reduction.operator, reduction.name), Edit(place, place, mark)]


def _reads(unit: Unit, loop: Loop, update: Node, name: str) -> bool:
    """Whether something else in the loop reads the running value: without that it is a plain reduction."""
    return any(
        n.type == "identifier" and unit.text(n) == name and not update.start_byte <= n.start_byte < update.end_byte for n in walk(loop.body)
    )


def _pragma(unit: Unit, loop: Loop, operator: str, name: str) -> Edit:
    indent = unit.indent(loop.node)
    return Edit(loop.node.start_byte, loop.node.start_byte, f"\n{indent}#pragma omp simd reduction(inscan, {operator}: {name})\n{indent}")


def _in_memory(unit: Unit, loop: Loop) -> list[Edit]:
    """`y[i] = y[i - 1] + x[i]`, nothing else of y in x."""
    inner = statements(loop.body)
    store = inner[0].named_children[0] if len(inner) == 1 and inner[0].type == "expression_statement" else None
    if store is None or store.type != "assignment_expression" or unit.binary(store)[0] != "=":
        return []
    _, target, value = unit.binary(store)
    if value.type != "binary_expression" or unit.binary(value)[0] != "+" or not floating(unit, target):
        return []
    reader = read(unit, loop.body)
    place = reader.element(target, {})
    _, left, right = unit.binary(value)
    for before, added in ((left, right), (right, left)):
        last = reader.element(before, {}) if before.type == "subscript_expression" else None
        if place is None or last is None or place[0] != last[0] or len(place[1]) != 1 or place[1][0] - last[1][0] != Poly.constant(1):
            continue
        factor = place[1][0].coefficient(loop.symbol)
        if factor != Poly.constant(1) or sum(a.root == place[0] for a in reader.effects.accesses) != 2:
            continue
        # Sums of other integers would wrap in an int.
        base = unit.declaration(target.children[0]) if target.type == "subscript_expression" and target.children else None
        if floating(unit, target) == "int" and (base is None or base.type.removeprefix("const ") not in ("int", "int32_t", "std::int32_t")):
            continue
        name, indent = fresh(unit, "kw_running"), unit.indent(loop.node)
        first = "" if loop.declared_here else f"{loop.variable} = {unit.text(loop.lower)};"
        head = unit.code[loop.node.start_byte : loop.body.start_byte].decode().rstrip()
        start = unit.text(before)
        kind = (
            f"const {loop.declaration.type} {loop.variable} = {unit.text(loop.lower)};"
            if loop.declared_here and loop.declaration
            else first
        )
        lines = [
            "{",
            # The loop may be empty, and then there is nothing to load.
            f"  {floating(unit, target)} {name} = 0;",
            f"  {{ {kind} if ({loop.variable} {'<=' if loop.inclusive else '<'} {unit.text(loop.upper)}) {name} = {start}; }}",
            f"  #pragma omp simd reduction(inscan, +: {name})",
            f"  {head} {{",
            f"    {name} += {unit.text(added)};",
            f"    #pragma omp scan inclusive({name})",
            f"    {unit.text(target)} = {name};",
            "  }",
            "}",
        ]
        return [Edit(loop.node.start_byte, loop.node.end_byte, f"\n{indent}".join(lines))]
    return []
