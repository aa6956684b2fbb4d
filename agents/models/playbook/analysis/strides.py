"""Are the elements of an array that a loop's iterations touch apart? Each keeps to a window, narrower than one step
of the index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.affine import Monomial, Poly, loaded
from agents.models.playbook.analysis.expressions import Range

if TYPE_CHECKING:
    from agents.models.playbook.analysis.effects import Access

MAX_LOOPS = 6
"""Variables of inner loops in an index, above which no order of them is tried."""


def distinct(group: Sequence[Access], own: Range, step: Poly) -> bool:
    """Certainly no element is touched by two iterations when one of them writes it."""
    if any(a.index is None for a in group) or len({len(a.index or ()) for a in group}) != 1:
        return False
    dimensions = len(group[0].index or ())
    moving = [own.symbol, *(r.symbol for a in group for r in a.ranges)]
    if any(loaded(s, m) for a in group for p in a.index or () for s in p.symbols for m in moving):
        return False
    return any(
        _distinct_in(group, [a.index[d] for a in group if a.index is not None], own, step) for d in range(dimensions)
    )


def _distinct_in(group: Sequence[Access], indices: Sequence[Poly], own: Range, step: Poly) -> bool:
    symbols = {r.symbol for a in group for r in a.ranges} & {s for p in indices for s in p.symbols}
    # Loops over the same variable go together: copies of a nest (a full strip, a ragged one) walk alike.
    inner = sorted({s.split("@")[0] for s in symbols})
    if len(inner) > MAX_LOOPS:
        return False
    choices = (high for size in range(len(inner) + 1) for high in combinations(inner, size))
    return any(
        _split_works(group, indices, own, step, {s for s in symbols if s.split("@")[0] in high}) for high in choices
    )


def _split_works(group: Sequence[Access], indices: Sequence[Poly], own: Range, step: Poly, high: set[str]) -> bool:
    """Index = (multiples of a large stride, the `high` loops) + (own variable and small offsets)."""
    if any(own.symbol in p.symbols for a in group for r in a.ranges if r.symbol in high for p in (r.lower, *r.uppers)):
        return False
    stride: tuple[Monomial, int] | None = None
    if high:
        stride = _high_stride(indices, high)
        if stride is None:
            return False
    low = [_low_part(p, high, own.symbol, stride) for p in indices]
    if not any(_separate(group, low, own, step, offsets) for offsets in (True, False)):
        return False
    if stride is None:
        return True
    whole = [_bounds(part, (own, *access.ranges), "") for access, part in zip(group, low, strict=True)]
    return all(whole) and _fit(whole, Poly.of({stride[0]: stride[1]}), group, plausible=False)


def _separate(group: Sequence[Access], low: Sequence[Poly], own: Range, step: Poly, offsets: bool) -> bool:
    """Whether each iteration keeps to a window of its own, narrower than the distance from one to the next; inner
    variables are taken as they are, or as `offsets` from their lower bounds."""
    strides, windows = [], []
    for access, part in zip(group, low, strict=True):
        normal, ranges = _normalise(part, access.ranges) if offsets else (part, access.ranges)
        factor = normal.coefficient(own.symbol)
        fixed = normal.without(own.symbol)
        # Where an inner bound moves with the loop (a triangle), the window that holds all of them.
        rest = _bounds(fixed, ranges, own.symbol) or _bounds(fixed, (own, *ranges), own.symbol)
        if factor is None or not factor.terms or not factor.nonnegative or not rest:
            return False
        strides.append(factor)
        windows.append(rest)
    return len(set(strides)) == 1 and _fit(windows, strides[0] * step, group)


def _high_stride(indices: Sequence[Poly], high: set[str]) -> tuple[Monomial, int] | None:
    """The largest monomial that divides all terms of the high loops."""
    parts = [Poly(tuple((m, c) for m, c in p.terms if high & set(m))) for p in indices]
    for monomial, factor in parts[0].terms:
        rest = list(monomial)
        rest.remove(next(s for s in monomial if s in high))
        if factor > 0 and not high & set(rest) and all(p.divisible_by(tuple(rest), factor) for p in parts):
            return tuple(rest), factor
    return None


def _low_part(index: Poly, high: set[str], own: str, stride: tuple[Monomial, int] | None) -> Poly:
    def is_high(monomial: Monomial, factor: int) -> bool:
        if high & set(monomial):
            return own not in monomial
        return (
            stride is not None
            and own not in monomial
            and stride[0] != ()
            and Poly.of({monomial: factor}).divisible_by(*stride)
        )

    return Poly(tuple((m, c) for m, c in index.terms if not is_high(m, c)))


def _normalise(part: Poly, ranges: Sequence[Range]) -> tuple[Poly, tuple[Range, ...]]:
    """Each inner variable written as its lower bound plus an offset from 0."""
    replaced: dict[str, Poly] = {}
    offsets = []
    for found in ranges:
        lower = found.lower.substitute(replaced)
        offset = f"{found.symbol}+"
        offsets.append(Range(offset, Poly(), tuple(u.substitute(replaced) - lower for u in found.uppers)))
        replaced[found.symbol] = lower + Poly.symbol(offset)
    return part.substitute(replaced), tuple(offsets)


def _bounds(part: Poly, ranges: Sequence[Range], forbidden: str) -> list[tuple[Poly, Poly]]:
    """Alternative (minimum, maximum) pairs of `part` over the inner loops; empty when not known."""
    states = [(part, part)]
    for found in reversed(ranges):
        following = []
        for low, high in states:
            down, up = low.coefficient(found.symbol), high.coefficient(found.symbol)
            if down is None or up is None:
                return []
            for upper in found.uppers:
                lows = found.lower if down.nonnegative else upper if (-down).nonnegative else None
                highs = upper if up.nonnegative else found.lower if (-up).nonnegative else None
                if lows is not None and highs is not None:
                    following.append((low.without(found.symbol) + down * lows, high.without(found.symbol) + up * highs))
        states = list(dict.fromkeys(following))[:64]
    return [
        (low, high)
        for low, high in states
        if not any(s == forbidden or loaded(s, forbidden) for s in low.symbols | high.symbols)
    ]


def _fit(
    windows: Sequence[list[tuple[Poly, Poly]]], stride: Poly, group: Sequence[Access], plausible: bool = True
) -> bool:
    """Every window spans less than one stride, whichever two accesses are compared."""
    less = stride - Poly.constant(1)
    # A leading dimension of another name than the loop's bound cannot be proved larger; a buffer that is only stored to
    # is proposed nevertheless, and the judge decides.
    plausible = plausible and stride.value is None and all(a.write and a.plain for a in group)
    for one in windows:
        for other in windows:
            widths = [high - low for _, high in one for low, _ in other]
            if any((less - width).nonnegative for width in widths):
                continue
            if not (plausible and any(not _reaches(width, stride) for width in widths)):
                return False
    return True


def _reaches(width: Poly, stride: Poly) -> bool:
    return any(Poly.of({m: 1}).divisible_by(s, 1) for m, c in width.terms if c > 0 for s, _ in stride.terms)
