"""Numbers of several traces, told apart into constants and formulas of the kernel's scalars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, permutations

from tools.errors import SettingsError

Values = tuple[float, ...]
"""One number in each trace."""


@dataclass(frozen=True)
class Size:
    """An extent, a stride's factor or an index: its value in each trace, and its C++ text."""

    values: tuple[int, ...]
    text: str

    @property
    def one(self) -> bool:
        """Whether it is the constant 1, an axis that needs no loop."""
        return self.text == "1"


class Scalars:
    """The scalars of a kernel, by name, with their value in each trace."""

    def __init__(self, integers: Mapping[str, tuple[int, ...]], floats: Mapping[str, Values]) -> None:
        self.integers = integers
        self.floats = floats

    def size(self, values: Sequence[int], what: str) -> Size:
        """The size that has these values; SettingsError, naming `what`, where no formula of the scalars gives them."""
        wanted = tuple(values)
        if len(set(wanted)) == 1:
            return Size(wanted, str(wanted[0]))
        text = self._sizes.get(wanted)
        if text is None:
            seen = ", ".join(map(str, wanted))
            known = ", ".join(self.integers) or "none"
            raise SettingsError(
                f"the size of {what} follows none of the kernel's integer scalars ({known}): it is {seen} at three sizes; "
                "give make_inputs that size as a scalar, or add a kernel"
            )
        return Size(wanted, text)

    def number(self, values: Values, what: str) -> str:
        """The same for a number within a formula; in C++ a double, or a whole number."""
        if len(set(values)) == 1 or all(math.isnan(v) for v in values):
            return literal(values[0])
        whole = tuple(int(v) for v in values) if all(float(v).is_integer() for v in values) else ()
        if whole in self._sizes:
            return self._sizes[whole]
        for text, given in self._numbers:
            if all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(values, given, strict=True)):
                return text
        raise SettingsError(
            f"a number of {what} ({', '.join(f'{v:.6g}' for v in values)} at three sizes) follows no scalar of the kernel; add a kernel"
        )

    @cached_property
    def _sizes(self) -> dict[tuple[int, ...], str]:
        """Values -> text, the simplest formula first."""
        found: dict[tuple[int, ...], str] = {}
        for values, text in self._formulas():
            if len(set(values)) > 1:
                found.setdefault(values, text)
        return found

    def _formulas(self) -> Iterator[tuple[tuple[int, ...], str]]:
        given = self.integers.items()
        yield from ((values, name) for name, values in given)
        for (a, x), (b, y) in permutations(given, 2):
            if all(q and not p % q for p, q in zip(x, y, strict=True)):
                yield tuple(p // q for p, q in zip(x, y, strict=True)), f"{a} / {b}"
        for count in (2, 3):
            for chosen in combinations_with_replacement(given, count):
                factors = " * ".join([f"int64_t({chosen[0][0]})", *(name for name, _ in chosen[1:])])
                yield tuple(math.prod(each) for each in zip(*(v for _, v in chosen), strict=True)), factors
        for name, values in given:
            for number in range(1, 9):
                yield tuple(v + number for v in values), f"{name} + {number}"
                yield tuple(v - number for v in values), f"{name} - {number}"
                yield tuple(v * number for v in values), f"{number} * {name}"
                yield tuple(-(v // number) for v in values), f"-({name} / {number})" if number > 1 else f"-{name}"
                if all(v % number == 0 for v in values):
                    yield tuple(v // number for v in values), f"{name} / {number}"
        for (a, x), (b, y) in combinations_with_replacement(given, 2):
            yield tuple(p + q for p, q in zip(x, y, strict=True)), f"{a} + {b}"
        for (a, x), (b, y) in permutations(given, 2):
            yield tuple(p - q for p, q in zip(x, y, strict=True)), f"{a} - {b}"

    @cached_property
    def _numbers(self) -> list[tuple[str, Values]]:
        """(text, values) of formulas in doubles."""
        plain = [(f"double({name})", values) for name, values in self.floats.items()]
        plain += [(f"double({text})", values) for values, text in self._sizes.items() if all(v > 0 for v in values)]
        for (a, x), (b, y) in permutations(self.integers.items(), 2):
            if all(y):
                plain.append((f"(double({a}) / {b})", tuple(p / q for p, q in zip(x, y, strict=True))))
        found: list[tuple[str, Values]] = list(plain)
        for text, values in plain:
            found.append((f"-{text}", tuple(-v for v in values)))
            found += [(f"({text} {sign} 1.0)", tuple(v + add for v in values)) for sign, add in (("+", 1), ("-", -1))]
            found.append((f"(1.0 - {text})", tuple(1 - v for v in values)))
            if all(v > 0 for v in values):
                found += [
                    (f"(1.0 / {text})", tuple(1 / v for v in values)),
                    (f"std::log({text})", tuple(math.log(v) for v in values)),
                    (f"std::sqrt({text})", tuple(math.sqrt(v) for v in values)),
                    (f"(1.0 / std::sqrt({text}))", tuple(1 / math.sqrt(v) for v in values)),
                    # What scaled dot products multiply both factors with.
                    (f"std::pow({text}, -0.25)", tuple(v**-0.25 for v in values)),
                ]
        return found


def literal(value: float) -> str:
    """A constant in C++."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)
