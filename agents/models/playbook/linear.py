"""Systems of linear inequalities over integers: can all of them hold? (Fourier and Motzkin's elimination, given up when it grows.)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Literal

from agents.models.playbook.polynomial import Monomial, Poly

MAX_ROWS = 300

Row = tuple[tuple[tuple[Monomial, int], ...], int]
"""Sum of coefficient times symbol plus constant >= 0; a product of symbols counts as a symbol of its own."""


def infeasible(rows: Sequence[Poly]) -> bool:
    """Certainly no integers make every one of `rows` >= 0; False also where that was not found out."""
    system: set[Row] = set()
    for row in rows:
        made = _row(row)
        if made is False:
            return True
        if made is not None:
            system.add(made)
    while system:
        symbol = _cheapest(system)
        positive = [(r, c) for r in system if (c := dict(r[0]).get(symbol, 0)) > 0]
        negative = [(r, c) for r in system if (c := dict(r[0]).get(symbol, 0)) < 0]
        kept = {r for r in system if symbol not in dict(r[0])}
        for up, a in positive:
            for down, b in negative:
                made = _row(_combined(up, -b, down, a))
                if made is False:
                    return True
                if made is not None:
                    kept.add(made)
        if len(kept) > MAX_ROWS:
            return False
        system = kept
    return False


def _row(poly: Poly) -> Row | Literal[False] | None:
    """None: always holds; False: never."""
    terms = dict(poly.terms)
    constant = terms.pop((), 0)
    if not terms:
        return None if constant >= 0 else False
    divisor = gcd(*terms.values())
    return tuple(sorted((m, c // divisor) for m, c in terms.items())), constant // divisor


def _cheapest(system: set[Row]) -> Monomial:
    counts: dict[Monomial, list[int]] = {}
    for terms, _ in system:
        for symbol, factor in terms:
            counts.setdefault(symbol, [0, 0])[factor > 0] += 1
    return min(counts, key=lambda s: (counts[s][0] * counts[s][1], s))


def _combined(one: Row, a: int, other: Row, b: int) -> Poly:
    total: dict[Monomial, int] = {(): one[1] * a + other[1] * b}
    for row, factor in ((one, a), (other, b)):
        for symbol, count in row[0]:
            total[symbol] = total.get(symbol, 0) + count * factor
    return Poly.of(total)


def renamed(poly: Poly, names: Mapping[str, str]) -> Poly:
    return poly.substitute({old: Poly.symbol(new) for old, new in names.items()})
