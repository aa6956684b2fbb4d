"""Integer polynomials over named symbols: array indices and loop bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]
"""Sorted symbols, repeated for powers; () is the constant."""


@dataclass(frozen=True)
class Polynomial:
    """Sum of coefficient times monomial; zero coefficients are never stored."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Polynomial:
        return Polynomial(tuple(sorted((m, c) for m, c in terms.items() if c)))

    @staticmethod
    def constant(value: int) -> Polynomial:
        return Polynomial.of({(): value})

    @staticmethod
    def symbol(name: str) -> Polynomial:
        return Polynomial.of({(name,): 1})

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.terms)
        for monomial, factor in other.terms:
            total[monomial] = total.get(monomial, 0) + factor
        return Polynomial.of(total)

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        total: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in other.terms:
                monomial = tuple(sorted(a + b))
                total[monomial] = total.get(monomial, 0) + x * y
        return Polynomial.of(total)

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(s for monomial, _ in self.terms for s in monomial)

    def depends_on(self, symbol: str) -> bool:
        """Whether it depends on `symbol`, itself or through an element that was loaded."""
        return any(s == symbol or is_element_symbol(s, symbol) for s in self.symbols)

    @property
    def is_nonnegative(self) -> bool:
        """Certainly >= 0 when every symbol is >= 0 (sizes and counters are)."""
        return all(c >= 0 for _, c in self.terms)

    @property
    def value(self) -> int | None:
        """The number, when there are no symbols."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == () else None

    def substitute(self, replacements: Mapping[str, Polynomial]) -> Polynomial:
        """All symbols replaced at the same time."""
        total = Polynomial()
        for monomial, factor in self.terms:
            product = Polynomial.constant(factor)
            for symbol in monomial:
                product = product * replacements.get(symbol, Polynomial.symbol(symbol))
            total = total + product
        return total

    def coefficient(self, symbol: str) -> Polynomial | None:
        """What multiplies `symbol`; None when it occurs in a power, or in an element that was loaded."""
        found: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            if monomial.count(symbol) > 1 or any(is_element_symbol(s, symbol) for s in monomial):
                return None
            if symbol in monomial:
                rest = list(monomial)
                rest.remove(symbol)
                found[tuple(rest)] = factor
        return Polynomial.of(found)

    def without(self, symbol: str) -> Polynomial:
        """The terms in which `symbol` does not occur."""
        return Polynomial(tuple((m, c) for m, c in self.terms if symbol not in m))

    def divisible_by(self, monomial: Monomial, factor: int) -> bool:
        """Every term is an integer multiple of factor * monomial."""
        return all(c % factor == 0 and _contains_monomial(m, monomial) for m, c in self.terms)


def is_element_symbol(symbol: str, on: str = "") -> bool:
    """Whether a symbol is an element of a buffer (whose index depends on the symbol `on`)."""
    return symbol.startswith("[") and f"<{on}" in symbol and (not on or f"<{on}>" in symbol)


def element_symbol(root: str, index: tuple[Polynomial, ...]) -> str:
    """Stands for an element of a buffer that is only read: `[root<i@7><n@3>...]`, with all that its index depends
    on."""
    inner = sorted({s for p in index for s in p.symbols})
    return f"[{root}{''.join(f'<{s}>' for s in inner)}:{index}]"


def _contains_monomial(monomial: Monomial, part: Monomial) -> bool:
    rest = list(monomial)
    for symbol in part:
        if symbol not in rest:
            return False
        rest.remove(symbol)
    return True
