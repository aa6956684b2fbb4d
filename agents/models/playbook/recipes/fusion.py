"""Passes over the same elements made one, or made to share what they compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.affine import Poly
from agents.models.playbook.analysis.effects import Access, read
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from agents.models.playbook.recipes.contraction import contracted
from agents.models.playbook.recipes.edits import renamed
from tools.languages.cpp_source import Edit, pragma_before, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

BETWEEN = frozenset({"declaration", "expression_statement", "comment", "preproc_call"})


class FusePasses(Recipe):
    """Adjacent loops over the same range are merged; a work array that only carried values from one to the next becomes a scalar."""

    name = "fuse_passes"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            for block in walk(function.child_by_field_name("body")):
                if block.type != "compound_statement":
                    continue
                loops = [loop for n in block.named_children if n.type == "for_statement" and (loop := unit.loop(n)) is not None]
                for first, second in pairwise(loops):
                    between = [n for n in block.named_children if first.node.end_byte <= n.start_byte < second.node.start_byte]
                    if all(n.type in BETWEEN for n in between) and _same_range(unit, first, second):
                        yield _merged(unit, first, second, between)
                for loop in loops:
                    yield from contracted(unit, loop)


def _same_range(unit: Unit, first: Loop, second: Loop) -> bool:
    if first.step is not None or second.step is not None or first.inclusive != second.inclusive:
        return False
    changed = {*unit.assigned(first.body), first.variable}
    same = all(unit.text(strip(a)) == unit.text(strip(b)) for a, b in ((first.lower, second.lower), (first.upper, second.upper)))
    return same and not any(unit.text(n) in changed for n in walk(second.upper) if n.type == "identifier")


def _names(unit: Unit, node: Node) -> set[str]:
    return {unit.text(n) for n in walk(node) if n.type == "identifier"}


# ---------------------------------------------------------------- one loop out of two


def _merged(unit: Unit, first: Loop, second: Loop, between: list[Node]) -> list[Edit]:
    pragmas = [pragma_before(loop.node) for loop in (first, second)]
    texts = [unit.text(p).strip() if p is not None else "" for p in pragmas]
    moved = [n for n in between if n.type == "declaration"]
    others = [n for n in between if n.type in ("expression_statement", "preproc_call") and n != pragmas[1]]
    if texts[0] != texts[1] or others or not all(_movable(unit, first, n) for n in moved):
        return []
    if not _scalars_apart(unit, first, second) or not _elements_match(unit, first, second):
        return []
    indent = unit.indent(first.node)
    head = unit.code[first.node.start_byte : first.body.start_byte].decode().rstrip()
    bodies = [unit.text(first.body), renamed(unit, second.body, {second.variable: first.variable})]
    lines = [*(unit.text(n) for n in moved), *filter(None, texts[:1]), f"{head} {{", *(f"  {b}" for b in bodies), "}"]
    start = pragmas[0].start_byte if pragmas[0] is not None else first.node.start_byte
    return [Edit(start, second.node.end_byte, f"\n{indent}".join(lines))]


def _movable(unit: Unit, first: Loop, declaration: Node) -> bool:
    """May stand before the first loop: it depends on nothing that the loop makes."""
    if any(n.type in ("subscript_expression", "pointer_expression", "call_expression") for n in walk(declaration)):
        return False
    return not _names(unit, declaration) & ({*unit.assigned(first.body)} | _names(unit, first.node))


def _scalars_apart(unit: Unit, first: Loop, second: Loop) -> bool:
    """No scalar made by one loop is mentioned by the other."""
    for one, other in ((first, second), (second, first)):
        made = {*unit.assigned(one.body)} - {one.variable}
        if made & _names(unit, other.node):
            return False
    if first.variable != second.variable and first.variable in _names(unit, second.body):
        return False
    return first.declared_here == second.declared_here and (first.declared_here or first.variable == second.variable)


def _elements_match(unit: Unit, first: Loop, second: Loop) -> bool:
    """They share a buffer; and of a buffer that one of them writes, iteration v of both touches just the same element."""
    for loop in (first, second):
        if any(n.type in ("for_statement", "while_statement", "break_statement", "continue_statement") for n in walk(loop.body)):
            return False
    found = [read(unit, loop.body).effects for loop in (first, second)]
    if any(e.problem for e in found):
        return False
    roots = [{a.root for a in e.accesses} for e in found]
    written = {a.root for e in found for a in e.accesses if a.write}
    shared = roots[0] & roots[1]
    return bool(shared) and all(_one_element(first, second, found[0].accesses, found[1].accesses, root) for root in shared & written)


def _one_element(first: Loop, second: Loop, one: Sequence[Access], other: Sequence[Access], root: str) -> bool:
    same = {second.symbol: Poly.symbol(first.symbol)}
    indices = {a.index for a in one if a.root == root}
    indices |= {tuple(p.substitute(same) for p in a.index) if a.index is not None else None for a in other if a.root == root}
    if len(indices) != 1:
        return False
    index = indices.pop()
    factors = [p.coefficient(first.symbol) for p in index] if index else []
    return any(f is not None and bool(f.terms) for f in factors)
