"""Are the elements of an array that a loop's iterations touch apart? Each keeps to a window, narrower than one step
of the index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.affine import Monomial, Polynomial, is_element_symbol
from agents.models.playbook.analysis.expressions import VariableRange

if TYPE_CHECKING:
    from agents.models.playbook.analysis.effects import ElementAccess

MAX_INNER_LOOPS = 6
"""Variables of inner loops in an index, above which no order of them is tried."""


def touch_distinct_elements(group: Sequence[ElementAccess], own: VariableRange, step: Polynomial) -> bool:
    """Certainly no element is touched by two iterations when one of them writes it."""
    if any(a.index is None for a in group) or len({len(a.index or ()) for a in group}) != 1:
        return False
    dimensions = len(group[0].index or ())
    moving = [own.symbol, *(r.symbol for a in group for r in a.ranges)]
    if any(is_element_symbol(s, m) for a in group for p in a.index or () for s in p.symbols for m in moving):
        return False
    return any(
        _are_distinct_in_dimension(group, [a.index[d] for a in group if a.index is not None], own, step)
        for d in range(dimensions)
    )


def _are_distinct_in_dimension(
    group: Sequence[ElementAccess], indices: Sequence[Polynomial], own: VariableRange, step: Polynomial
) -> bool:
    symbols = {r.symbol for a in group for r in a.ranges} & {s for p in indices for s in p.symbols}
    # Loops over the same variable go together: copies of a nest (a full strip, a ragged one) walk alike.
    inner = sorted({s.split("@")[0] for s in symbols})
    if len(inner) > MAX_INNER_LOOPS:
        return False
    choices = (high for size in range(len(inner) + 1) for high in combinations(inner, size))
    return any(
        _split_proves_distinct(group, indices, own, step, {s for s in symbols if s.split("@")[0] in high})
        for high in choices
    )


def _split_proves_distinct(
    group: Sequence[ElementAccess], indices: Sequence[Polynomial], own: VariableRange, step: Polynomial, high: set[str]
) -> bool:
    """Index = (multiples of a large stride, the `high` loops) + (own variable and small offsets)."""
    if any(own.symbol in p.symbols for a in group for r in a.ranges if r.symbol in high for p in (r.lower, *r.uppers)):
        return False
    stride: tuple[Monomial, int] | None = None
    if high:
        stride = _high_stride(indices, high)
        if stride is None:
            return False
    low = [_low_part(p, high, own.symbol, stride) for p in indices]
    if not any(_have_separate_windows(group, low, own, step, offsets) for offsets in (True, False)):
        return False
    if stride is None:
        return True
    whole = [_minima_and_maxima(part, (own, *access.ranges), "") for access, part in zip(group, low, strict=True)]
    return all(whole) and _windows_fit_stride(whole, Polynomial.of({stride[0]: stride[1]}), group, plausible=False)


def _have_separate_windows(
    group: Sequence[ElementAccess], low: Sequence[Polynomial], own: VariableRange, step: Polynomial, offsets: bool
) -> bool:
    """Whether each iteration keeps to a window of its own, narrower than the distance from one to the next; inner
    variables are taken as they are, or as `offsets` from their lower bounds."""
    strides, windows = [], []
    for access, part in zip(group, low, strict=True):
        normal, ranges = _as_offsets(part, access.ranges) if offsets else (part, access.ranges)
        factor = normal.coefficient(own.symbol)
        fixed = normal.without(own.symbol)
        # Where an inner bound moves with the loop (a triangle), the window that holds all of them.
        rest = _minima_and_maxima(fixed, ranges, own.symbol) or _minima_and_maxima(fixed, (own, *ranges), own.symbol)
        if factor is None or not factor.terms or not factor.is_nonnegative or not rest:
            return False
        strides.append(factor)
        windows.append(rest)
    return len(set(strides)) == 1 and _windows_fit_stride(windows, strides[0] * step, group)


def _high_stride(indices: Sequence[Polynomial], high: set[str]) -> tuple[Monomial, int] | None:
    """The largest monomial that divides all terms of the high loops."""
    parts = [Polynomial(tuple((m, c) for m, c in p.terms if high & set(m))) for p in indices]
    for monomial, factor in parts[0].terms:
        rest = list(monomial)
        rest.remove(next(s for s in monomial if s in high))
        if factor > 0 and not high & set(rest) and all(p.divisible_by(tuple(rest), factor) for p in parts):
            return tuple(rest), factor
    return None


def _low_part(index: Polynomial, high: set[str], own: str, stride: tuple[Monomial, int] | None) -> Polynomial:
    def is_high(monomial: Monomial, factor: int) -> bool:
        if high & set(monomial):
            return own not in monomial
        return (
            stride is not None
            and own not in monomial
            and stride[0] != ()
            and Polynomial.of({monomial: factor}).divisible_by(*stride)
        )

    return Polynomial(tuple((m, c) for m, c in index.terms if not is_high(m, c)))


def _as_offsets(part: Polynomial, ranges: Sequence[VariableRange]) -> tuple[Polynomial, tuple[VariableRange, ...]]:
    """Each inner variable written as its lower bound plus an offset from 0."""
    replaced: dict[str, Polynomial] = {}
    offsets = []
    for found in ranges:
        lower = found.lower.substitute(replaced)
        offset = f"{found.symbol}+"
        offsets.append(VariableRange(offset, Polynomial(), tuple(u.substitute(replaced) - lower for u in found.uppers)))
        replaced[found.symbol] = lower + Polynomial.symbol(offset)
    return part.substitute(replaced), tuple(offsets)


def _minima_and_maxima(
    part: Polynomial, ranges: Sequence[VariableRange], forbidden: str
) -> list[tuple[Polynomial, Polynomial]]:
    """Alternative (minimum, maximum) pairs of `part` over the inner loops; empty when not known."""
    states = [(part, part)]
    for found in reversed(ranges):
        following = []
        for low, high in states:
            down, up = low.coefficient(found.symbol), high.coefficient(found.symbol)
            if down is None or up is None:
                return []
            for upper in found.uppers:
                lows = found.lower if down.is_nonnegative else upper if (-down).is_nonnegative else None
                highs = upper if up.is_nonnegative else found.lower if (-up).is_nonnegative else None
                if lows is not None and highs is not None:
                    following.append((low.without(found.symbol) + down * lows, high.without(found.symbol) + up * highs))
        states = list(dict.fromkeys(following))[:64]
    return [
        (low, high)
        for low, high in states
        if not any(s == forbidden or is_element_symbol(s, forbidden) for s in low.symbols | high.symbols)
    ]


def _windows_fit_stride(
    windows: Sequence[list[tuple[Polynomial, Polynomial]]],
    stride: Polynomial,
    group: Sequence[ElementAccess],
    plausible: bool = True,
) -> bool:
    """Every window spans less than one stride, whichever two accesses are compared."""
    less = stride - Polynomial.constant(1)
    # A leading dimension of another name than the loop's bound cannot be proved larger; a buffer that is only stored to
    # is proposed nevertheless, and the judge decides.
    plausible = plausible and stride.value is None and all(a.write and a.plain for a in group)
    for one in windows:
        for other in windows:
            widths = [high - low for _, high in one for low, _ in other]
            if any((less - width).is_nonnegative for width in widths):
                continue
            if not (plausible and any(not _may_reach(width, stride) for width in widths)):
                return False
    return True


def _may_reach(width: Polynomial, stride: Polynomial) -> bool:
    return any(Polynomial.of({m: 1}).divisible_by(s, 1) for m, c in width.terms if c > 0 for s, _ in stride.terms)
