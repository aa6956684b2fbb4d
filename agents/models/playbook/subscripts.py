"""Do two elements of a matrix coincide? Indices read as (row, column) and compared with what the loops allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from agents.models.playbook.effects import Access
from agents.models.playbook.linear import infeasible, renamed
from agents.models.playbook.polynomial import Monomial, Poly
from agents.models.playbook.values import Range

ONE = Poly.constant(1)
MAX_ACCESSES = 8
MAX_DIMENSIONS = 4


def apart(group: Sequence[Access], own: Range, around: Sequence[Range], counters: frozenset[str]) -> bool:
    """Certainly no two iterations of the loop with range `own`, inside loops with ranges `around`, touch one element of which one of them
    is a write. What the loops bound is compared row by row and column by column, so triangles and single rows are told apart."""
    different = list({(a.index, a.ranges, a.write): a for a in group}.values())
    if len(different) > MAX_ACCESSES or any(a.index is None for a in different):
        return False
    facts = [row for found in (own, *around) for row in _rows(found)]
    # Sizes are not negative; a counter may be.
    moving = counters | {r.symbol for a in different for r in a.ranges}
    sizes = {s for a in different for p in a.index or () for s in p.symbols} | {s for row in facts for s in row.symbols}
    sizes |= {s for a in different for r in a.ranges for row in _rows(r) for s in row.symbols}
    facts += [Poly.symbol(s) for s in sorted(sizes - moving)]
    for parts in _readings(different, facts):
        pairs = list(combinations_with_replacement(range(len(different)), 2))
        if all(
            _never(different[a], parts[a], different[b], parts[b], own, facts) for a, b in pairs if different[a].write or different[b].write
        ):
            return True
    return False


def _rows(found: Range) -> Iterator[Poly]:
    value = Poly.symbol(found.symbol)
    yield value - found.lower
    for upper in found.uppers:
        yield upper - value


def _readings(group: Sequence[Access], facts: Sequence[Poly]) -> Iterator[list[tuple[Poly, ...]]]:
    """Each way to read all indices with one row length, nested as far as it goes."""
    whole = [a.index or () for a in group]
    if len({len(index) for index in whole}) != 1:
        return
    for stride in [None, *_strides(whole)]:
        if stride is None:
            yield list(whole)
            continue
        parts = whole
        used = stride
        for _ in range(MAX_DIMENSIONS):
            split = [(*_divided(index[0], used), *index[1:]) for index in parts]
            if not all(
                _fits(column[1], used, [*facts, *(r for f in access.ranges for r in _rows(f))])
                for column, access in zip(split, group, strict=True)
            ):
                break
            parts = split
            yield list(parts)
            following = _strides(parts)
            if not following:
                break
            used = following[0]


def _strides(indices: Sequence[Sequence[Poly]]) -> list[Monomial]:
    """What counters (their names tell where they start) are multiplied by in the first subscript, shortest first."""
    found: set[Monomial] = set()
    for index in indices:
        for monomial, factor in index[0].terms:
            if len(monomial) > 1 and factor == 1:
                found |= {tuple(s for s in monomial if s != one) for one in monomial}
    return sorted((m for m in found if m), key=lambda m: (len(m), m))


def _divided(poly: Poly, stride: Monomial) -> tuple[Poly, Poly]:
    """Quotient and rest, term by term."""
    high: dict[Monomial, int] = {}
    low: dict[Monomial, int] = {}
    for monomial, factor in poly.terms:
        rest = list(monomial)
        try:
            for symbol in stride:
                rest.remove(symbol)
        except ValueError:
            low[monomial] = factor
        else:
            high[tuple(rest)] = factor
    return Poly.of(high), Poly.of(low)


def _fits(column: Poly, stride: Monomial, facts: Sequence[Poly]) -> bool:
    """0 <= column < stride."""
    length = Poly.of({stride: 1})
    return infeasible([*facts, -column - ONE]) and infeasible([*facts, column - length])


def _never(a: Access, one: Sequence[Poly], b: Access, other: Sequence[Poly], own: Range, facts: Sequence[Poly]) -> bool:
    names = {s: f"{s}'" for s in (own.symbol, *(r.symbol for r in b.ranges))}
    rows = [*facts, *(row for r in a.ranges for row in _rows(r))]
    rows += [renamed(row, names) for row in [*_rows(own), *(row for r in b.ranges for row in _rows(r))]]
    for first, second in zip(one, other, strict=True):
        difference = first - renamed(second, names)
        rows += [difference, -difference]
    step = Poly.symbol(names[own.symbol]) - Poly.symbol(own.symbol)
    return infeasible([*rows, step - ONE]) and infeasible([*rows, -step - ONE])
