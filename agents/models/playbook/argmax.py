"""The place of a maximum or minimum: first its value, which vectorises, then the first place that has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.callables import substituted
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.effects import read
from agents.models.playbook.element_types import floating
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.syntax import Edit, Unit, fresh, pragma_before
from agents.models.playbook.tile import counter_type
from agents.models.playbook.tree import single, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Search:
    """`if (candidate sign best_value) best = counter`; value: the variable that keeps the best value, "" where it is read anew."""

    candidate: Node
    sign: str
    place: str
    value: str
    present: str
    """C expression of the best value before the loop."""


class SplitArgmax(Recipe):
    """`if (x[i] > x[best]) best = i` and `if (x[i] > m) { m = x[i]; best = i; }` as two reductions."""

    name = "split_argmax"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                if is_innermost(unit, loop) and pragma_before(unit, loop.node) is None and loop.step is None and loop.declared_here:
                    found = _search(unit, loop)
                    if found is not None:
                        yield [Edit(loop.node.start_byte, loop.node.end_byte, _split(unit, loop, found))]


def _search(unit: Unit, loop: Loop) -> Search | None:
    branch = single(loop.body)
    if branch is None or branch.type != "if_statement" or branch.child_by_field_name("alternative") is not None:
        return None
    condition, then = branch.child_by_field_name("condition"), branch.child_by_field_name("consequence")
    value = condition.child_by_field_name("value") if condition is not None else None
    test = strip(value) if value is not None else None
    if test is None or then is None or test.type != "binary_expression":
        return None
    sign, left, right = unit.binary(test)
    effects = read(unit, loop.body).effects
    if sign not in ("<", ">") or effects.problem or any(a.write for a in effects.accesses):
        return None
    set_to: dict[str, Node] = {}
    for statement in statements(then):
        store = statement.named_children[0] if statement.type == "expression_statement" and statement.named_children else None
        if (
            store is None
            or store.type != "assignment_expression"
            or unit.binary(store)[0] != "="
            or unit.binary(store)[1].type != "identifier"
        ):
            return None
        set_to[unit.text(unit.binary(store)[1])] = strip(unit.binary(store)[2])
    places = [name for name, to in set_to.items() if unit.text(to) == loop.variable]
    if len(places) != 1 or not 1 <= len(set_to) <= 2 or any(n.type == "call_expression" for n in walk(test)):
        return None
    for candidate, best, turned in ((left, right, sign), (right, left, "<" if sign == ">" else ">")):
        if loop.variable not in _names(unit, candidate) or places[0] in _names(unit, candidate):
            continue
        if len(set_to) == 1 and unit.text(strip(best)) == substituted(unit, strip(candidate), {loop.variable: places[0]}):
            return Search(strip(candidate), turned, places[0], "", unit.text(best))
        held = set_to.get(unit.text(strip(best)))
        # A value that is rounded when it is kept equals no candidate afterwards.
        exact = floating(unit, strip(best)) == floating(unit, candidate) != ""
        if len(set_to) == 2 and exact and held is not None and unit.text(held) == unit.text(strip(candidate)):
            return Search(strip(candidate), turned, places[0], unit.text(strip(best)), unit.text(strip(best)))
    return None


def _names(unit: Unit, node: Node) -> set[str]:
    return {unit.text(n) for n in walk(node) if n.type == "identifier"}


def _split(unit: Unit, loop: Loop, found: Search) -> str:
    indent = unit.indent(loop.node)
    head = unit.code[loop.node.start_byte : loop.body.start_byte].decode().rstrip()
    value, start, first = found.value or fresh(unit, "kw_value"), fresh(unit, "kw_start"), fresh(unit, "kw_first")
    x, i, kind = unit.text(found.candidate), loop.variable, counter_type(unit, loop)
    end = f"({unit.text(loop.upper)}){' + 1' if loop.inclusive else ''}"
    own = floating(unit, found.candidate) or "auto"
    declared = [] if found.value else [f"  {own if own != 'int' else 'auto'} {value} = {start};"]
    lines = [
        "{",
        f"  const auto {start} = {found.present};",
        *declared,
        f"  {head} {value} = {x} {found.sign} {value} ? {x} : {value};",
        # Where nothing is better than what was there, its place stays.
        f"  if ({value} {found.sign} {start}) {{",
        f"    {kind} {first} = {end};",
        f"    {head} {{",
        f"      const {kind} kw_here = {x} == {value} ? {i} : {end};",
        f"      {first} = kw_here < {first} ? kw_here : {first};",
        "    }",
        f"    {found.place} = {first};",
        "  }",
        "}",
    ]
    return f"\n{indent}".join(lines)
