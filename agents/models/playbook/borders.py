"""A loop cut where its border ends: between the edges no condition on the counter is left, so that the vectoriser can have it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agents.models.playbook.base import Recipe
from agents.models.playbook.conditions import COMPARISONS, Edges, clamped_variables, conditions, resolved
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.dependence import independence
from agents.models.playbook.effects import Reader, read
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.polynomial import Poly
from agents.models.playbook.syntax import Edit, Unit, fresh, pragma_before
from agents.models.playbook.tile import counter_type, uncollapsed
from agents.models.playbook.tree import statements, walk
from agents.models.playbook.values import Range
from agents.models.playbook.windows import expression

if TYPE_CHECKING:
    from tree_sitter import Node

WORDS = ("kw_edge", "kw_from", "kw_upto", "kw_rest")
MAX_EDGES = 3
MAX_DEPTH = 4
"""Of variables that are computed from variables."""
SIGNED = ("int", "long", "long int", "long long", "ptrdiff_t", "int32_t", "int64_t", "std::ptrdiff_t", "std::int64_t", "ssize_t")
LEAVES = frozenset({"goto_statement", "return_statement", "labeled_statement", "while_statement", "do_statement", "lambda_expression"})


@dataclass
class Interior:
    """Where every condition has one outcome: from each of `first` on, before each of `behind` (edge and what the counter is times)."""

    first: dict[tuple[Poly, int], None] = field(default_factory=dict)
    behind: dict[tuple[Poly, int], None] = field(default_factory=dict)
    outcomes: dict[tuple[int, int], bool] = field(default_factory=dict)
    empty: bool = False
    """No value of the counter lies there: the condition compares it with that of a loop inside."""

    def settle(self, key: tuple[int, int], edges: Edges, own: Range, made_of: frozenset[str]) -> None:
        """Choose the side of the edge on which most of the loop lies: an edge made of what ends the loop (for one that takes every other
        element, of what that is `made_of`) is near its end."""
        ends = ({s for upper in own.uppers for s in upper.symbols} | (made_of if edges.count > 1 else frozenset())) - own.lower.symbols
        if ends & (edges.behind.symbols if edges.count == 1 else edges.first.symbols | edges.behind.symbols):
            self.outcomes[key] = edges.early
            self.empty |= edges.count == 1 and (own.lower - edges.behind).nonnegative
            if not any((edges.behind - upper - Poly.constant(1)).nonnegative for upper in own.uppers) or edges.count > 1:
                self.behind[edges.behind, edges.count] = None
        else:
            self.outcomes[key] = edges.late
            self.empty |= edges.count == 1 and any((edges.first - upper - Poly.constant(1)).nonnegative for upper in own.uppers)
            if not (own.lower - edges.first).nonnegative:
                self.first[edges.first, edges.count] = None


class SplitBorders(Recipe):
    """`if (x > 0 && x < w - 1)`, clamped indices, windows that end at the edge: three loops, the middle one without the conditions."""

    name = "split_borders"
    apart = True

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                if loop.step is None and counter_type(unit, loop) in SIGNED and not _is_part(unit, loop):
                    yield _split(unit, loop)


def _made_of(unit: Unit, end: Node, depth: int = 0) -> frozenset[str]:
    """The variables from which the end of a loop is computed, `const int half = n / 2` looked into."""
    found: set[str] = set()
    for node in walk(end):
        declaration = unit.declaration(node) if node.type == "identifier" else None
        if declaration is not None and declaration.name not in unit.assigned(declaration.scope):
            found.add(declaration.symbol)
            if declaration.initial is not None and depth < MAX_DEPTH:
                found |= _made_of(unit, declaration.initial, depth + 1)
    return frozenset(found)


def _is_part(unit: Unit, loop: Loop) -> bool:
    return any(word in unit.text(bound) for bound in (loop.lower, loop.upper) for word in WORDS)


def is_border(unit: Unit, loop: Loop) -> bool:
    """One of the short loops that a split leaves at the edges."""
    return unit.text(loop.lower).startswith(WORDS[3]) or unit.text(loop.upper).startswith(WORDS[1])


def _split(unit: Unit, loop: Loop) -> list[Edit]:
    found = list(conditions(unit, loop.body))
    reader = read(unit, loop.body, True)
    own = reader.range(loop, {}) if found else None
    if own is None or any(n.type in LEAVES for n in walk(loop.body)) or not _stores_along(reader, own.symbol):
        return []
    values, clamps = clamped_variables(unit, reader, own)
    inside, made_of = Interior(), _made_of(unit, loop.upper)
    for condition in found:
        edges = condition.edges(reader, own, values)
        if edges is not None:
            inside.settle(condition.key, edges, own, made_of)
    known = inside.outcomes
    if any(known.get((n.start_byte, 0)) is not False for n in _tests(unit, clamps)):
        return []
    if inside.empty or not 1 <= len(inside.first) + len(inside.behind) <= 2 * MAX_EDGES:
        return []
    nest = _nest(unit, loop)
    first = [_text(unit, nest, edge, count, True) for edge, count in inside.first]
    behind = [_text(unit, nest, edge, count, False) for edge, count in inside.behind]
    if "" in first + behind:
        return []
    start = pragma_before(unit, nest.node) or nest.node
    text = _three_loops(unit, nest, loop, first, behind, resolved(unit, loop.body, known))
    around = [edit for edit in uncollapsed(unit, nest) if edit.end <= start.start_byte]
    return [*around, Edit(start.start_byte, nest.node.end_byte, text)]


def _nest(unit: Unit, loop: Loop) -> Loop:
    """The outermost loop that may be repeated for each part: a nest of independent loops around one that holds loops stays a nest."""
    outer = loop
    while not is_innermost(unit, loop):
        around = unit.loop(outer.node.parent) if outer.node.parent is not None and outer.node.parent.type == "for_statement" else None
        around = around or _only(unit, outer)
        if (
            around is None
            or not _free(unit, around)
            or any(unit.text(n) == around.variable for b in (loop.lower, loop.upper) for n in walk(b))
        ):
            break
        outer = around
    return outer


def _only(unit: Unit, loop: Loop) -> Loop | None:
    """The loop whose body is just a block with `loop` in it."""
    block = loop.node.parent
    if block is None or block.type != "compound_statement" or len(statements(block)) != 1 or block.parent is None:
        return None
    return unit.loop(block.parent) if block.parent.type == "for_statement" else None


def _free(unit: Unit, loop: Loop) -> bool:
    found = independence(unit, loop)
    return bool(found) and not found.reductions and not found.private and pragma_before(unit, loop.node) is None


def _tests(unit: Unit, clamps: Sequence[Node]) -> Iterator[Node]:
    """The comparisons of clamping statements."""
    for clamp in clamps:
        condition = clamp.child_by_field_name("condition")
        yield from (n for n in walk(condition) if n.type == "binary_expression" and unit.binary(n)[0] in COMPARISONS)


def _stores_along(reader: Reader, symbol: str) -> bool:
    """Some store runs along memory with the loop: a loop over a window or over rows is left whole."""
    factors = [a.index[-1].coefficient(symbol) for a in reader.effects.accesses if a.write and a.index]
    return any(f is not None and f.value == 1 for f in factors)


def _text(unit: Unit, nest: Loop, edge: Poly, count: int, up: bool) -> str:
    """C expression of an edge; "" where a name in it is not known in front of the nest, or is a counter: a diagonal is no border."""
    whole = expression(unit, nest.node, edge)
    if count == 1 or not whole:
        return whole
    return f"({whole} + {count - 1}) / {count}" if up else f"({whole}) / {count}"


def _three_loops(unit: Unit, nest: Loop, loop: Loop, first: Sequence[str], behind: Sequence[str], middle: str) -> str:
    v, kind, indent = loop.variable, counter_type(unit, loop), unit.indent(nest.node)
    lower = unit.text(loop.lower)
    upper = f"{unit.text(loop.upper)} + 1" if loop.inclusive else unit.text(loop.upper)
    edge, start, end, rest = (fresh(unit, f"{word}") for word in WORDS)
    lines = [f"const {kind} {end}_0 = {upper};"]
    low, high = lower, f"{end}_0"
    for number, text in enumerate(first):
        lines += [f"const {kind} {edge}_{number}a = {text};"]
        lines += [f"const {kind} {edge}_{number}b = {edge}_{number}a < {end}_0 ? {edge}_{number}a : {end}_0;"]
        lines += [f"const {kind} {start}_{number} = {edge}_{number}b > {low} ? {edge}_{number}b : {low};"]
        low = f"{start}_{number}"
    for number, text in enumerate(behind):
        lines += [f"const {kind} {edge}_{number}c = {text};"]
        lines += [f"const {kind} {end}_{number + 1} = {edge}_{number}c < {high} ? {edge}_{number}c : {high};"]
        high = f"{end}_{number + 1}"
    lines += [f"const {kind} {rest} = {high} > {low} ? {high} : {low};"] if behind else []
    declared = f"{kind} " if loop.declared_here else ""
    body, middle = unit.text(loop.body), re.sub(r"\n\s*\n", "\n", middle)
    parts = [(lower, low, body)] if first else []
    parts += [(low, high, middle)]
    parts += [(rest, f"{end}_0", body)] if behind else []
    head = unit.code[nest.node.start_byte : loop.node.start_byte].decode()
    tail = unit.code[loop.node.end_byte : nest.node.end_byte].decode()
    lines += [f"{head}for ({declared}{v} = {a}; {v} < {b}; ++{v}) {text}{tail}" for a, b, text in parts]
    return "{\n" + "\n".join(f"{indent}  {line}" for line in lines) + f"\n{indent}}}"
