"""Are a loop's iterations independent? Index polynomials for arrays, patterns for scalars; no answer is "dependent"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from agents.models.playbook.effects import Access, Reader, read
from agents.models.playbook.polynomial import Monomial, Poly, loaded
from agents.models.playbook.reductions import Reduction, find_reductions
from agents.models.playbook.scratch import filled_first
from agents.models.playbook.subscripts import apart
from agents.models.playbook.syntax import Declaration, Loop, Unit, contains, statements, strip, walk
from agents.models.playbook.values import Range

if TYPE_CHECKING:
    from tree_sitter import Node


MAX_LOOPS = 6
"""Variables of inner loops in an index, above which no order of them is tried."""
_Written = tuple[Poly, tuple[Range, ...]]
"""An index and the ranges of the inner loops that it is written in."""


@dataclass(frozen=True)
class Independence:
    """What a loop needs to run its iterations in any order; `problem` says why it cannot."""

    problem: str = ""
    private: tuple[str, ...] = ()
    """Scalars declared outside that each iteration sets before it reads them, and that nobody reads afterwards."""
    reductions: tuple[Reduction, ...] = ()
    accesses: tuple[Access, ...] = ()
    scratch: tuple[str, ...] = ()
    """Local arrays and vectors declared outside that each iteration fills before it reads them: to be copied for each thread."""

    def __bool__(self) -> bool:
        return not self.problem


@lru_cache(maxsize=256)
def independence(unit: Unit, loop: Loop, copies: bool = False) -> Independence:
    """Whether `loop`'s iterations may run in any order, or together, up to its reductions; with `copies`, given scratch of their own."""
    escape = _escapes(unit, loop)
    if escape:
        return Independence(escape)
    private, reductions, problem = _scalars(unit, loop)
    if problem:
        return Independence(problem)
    found = _arrays(unit, loop, private, reductions, sizes=False, copies=copies)
    return found or _arrays(unit, loop, private, reductions, sizes=True, copies=copies) or found


def _arrays(unit: Unit, loop: Loop, private: tuple[str, ...], reductions: tuple[Reduction, ...], sizes: bool, copies: bool) -> Independence:
    """Whether elements are apart, with computed lengths written out, or as `sizes` of their own."""
    reader = read(unit, loop.body, sizes)
    if reader.effects.problem:
        return Independence(reader.effects.problem)
    if reader.range(loop, {}) is None or (loop.step is not None and reader.poly(loop.step, {}) is None):
        return Independence("the loop's bounds or its step are not understood")
    scratch = []
    for root, group in _shared(unit, loop, reader).items():
        if not copies or not filled_first(unit, loop, root, group):
            return Independence(f"iterations may touch the same element of {root.split('@')[0]}")
        scratch.append(root.split("@")[0])
    return Independence("", private, reductions, tuple(reader.effects.accesses), tuple(scratch))


def shared_roots(unit: Unit, loop: Loop) -> dict[str, list[Access]]:
    """Accesses of the buffers of which two iterations may touch the same element, one of them writing."""
    return _shared(unit, loop, read(unit, loop.body))


def _shared(unit: Unit, loop: Loop, reader: Reader) -> dict[str, list[Access]]:
    own = reader.range(loop, {})
    step = reader.poly(loop.step, {}) if loop.step is not None else Poly.constant(1)
    groups: dict[str, list[Access]] = {}
    for access in reader.effects.accesses:
        groups.setdefault(access.root, []).append(access)
    written = {r: g for r, g in groups.items() if any(a.write for a in g) and not _declared_inside(unit, loop, r)}
    if own is None or step is None:
        return written
    around, counters = _around(unit, loop, reader), _counters(unit, loop)
    return {r: g for r, g in written.items() if not _distinct(g, own, step) and not apart(g, own, around, counters)}


def touches_scalars(unit: Unit, loop: Loop) -> bool:
    """Whether the loop writes scalars that are declared outside it."""
    private, reductions, problem = _scalars(unit, loop)
    return bool(private or reductions or problem)


def _around(unit: Unit, loop: Loop, reader: Reader) -> list[Range]:
    """Ranges of the loops around, as far as they are understood."""
    found = []
    current = loop.node.parent
    while current is not None and current.type != "function_definition":
        outer = unit.loop(current) if current.type == "for_statement" else None
        own = reader.range(outer, {}) if outer is not None else None
        if own is not None:
            found.append(own)
        current = current.parent
    return found


def _counters(unit: Unit, loop: Loop) -> frozenset[str]:
    return frozenset(one.symbol for one in unit.loops(unit.function_of(loop.node)))


def _escapes(unit: Unit, loop: Loop) -> str:
    for node in walk(loop.body, skip=frozenset({"for_statement", "while_statement", "do_statement", "switch_statement"})):
        if node.type == "break_statement":
            return "the loop breaks"
    assigned = unit.assigned(loop.body)
    for bound in (loop.upper, loop.step):
        if bound is not None and any(n.type == "identifier" and unit.text(n) in assigned for n in walk(bound)):
            return "the loop changes its own bound"
    return ""


def _declared_inside(unit: Unit, loop: Loop, root: str) -> bool:
    start = int(root.split("@")[1]) if "@" in root else -1
    if loop.body.start_byte <= start < loop.body.end_byte:
        return True
    function = unit.function_of(loop.node)
    # A local of an inlined helper is new in each call.
    return not function.start_byte <= start < function.end_byte


# ---------------------------------------------------------------- scalars


def _scalars(unit: Unit, loop: Loop) -> tuple[tuple[str, ...], tuple[Reduction, ...], str]:
    outside: dict[str, list[Node]] = {}
    for node in walk(loop.body):
        if node.type != "identifier":
            continue
        declaration = unit.declaration(node)
        if declaration is not None and not contains(loop.node, declaration.node) and declaration.form == "value":
            outside.setdefault(declaration.name, []).append(node)
    written = set(unit.assigned(loop.body))
    reductions = {r.name: r for r in find_reductions(unit, loop.body)}
    private, reduced = [], []
    for name, uses in outside.items():
        if name not in written:
            continue
        if name in reductions:
            reduced.append(reductions[name])
        elif _set_first(unit, loop, uses) and (own := unit.declaration(uses[0])) is not None and not read_later(unit, loop, own):
            private.append(name)
        else:
            return (), (), f"{name} carries a value from one iteration to the next"
    return tuple(private), tuple(reduced), ""


def _set_first(unit: Unit, loop: Loop, uses: list[Node]) -> bool:
    """The first mention in the body is an assignment that every iteration carries out."""
    first = uses[0]
    parent = first.parent
    if parent is None or parent.type != "assignment_expression":
        return False
    operator, left, right = unit.binary(parent)
    if operator != "=" or left != first or any(contains(right, u) for u in uses):
        return False
    # Every later use stands inside the same statement list, so the assignment dominates it.
    holder = parent.parent
    if holder is not None and holder.type == "for_statement":
        inner = unit.loop(holder)
        if inner is not None and inner.variable == unit.text(first) and all(contains(holder, u) or _is_reset(unit, u) for u in uses):
            return True
    while holder is not None and holder.type == "expression_statement":
        holder = holder.parent
    return holder is not None and contains(loop.body, holder) and (holder == loop.body or all(contains(holder, u) for u in uses))


def _is_reset(unit: Unit, use: Node) -> bool:
    """Stands in a loop that starts by setting it."""
    current: Node | None = use
    while current is not None:
        if current.type == "for_statement":
            loop = unit.loop(current)
            if loop is not None and loop.variable == unit.text(use) and not loop.declared_here:
                return True
        current = current.parent
    return False


def read_later(unit: Unit, loop: Loop, declaration: Declaration) -> bool:
    """Whether a mention after the loop, or before it where an outer loop comes round, reads the value left by it."""
    function = unit.function_of(loop.node)
    if _read_between(unit, function, declaration, loop.node.end_byte, function.end_byte):
        return True
    current = loop.node.parent
    while current is not None and current != function:
        around = current.type in ("for_statement", "while_statement", "do_statement") and not contains(current, declaration.node)
        if around and _read_between(unit, current, declaration, current.start_byte, loop.node.start_byte):
            return True
        current = current.parent
    return False


def _read_between(unit: Unit, region: Node, declaration: Declaration, start: int, end: int) -> bool:
    """Whether the region's bytes from `start` to `end` may read a scalar before they have set it."""
    reached = start
    for node in walk(region):
        if node.type != "identifier" or unit.text(node) != declaration.name or not reached <= node.start_byte < end:
            continue
        own = unit.declaration(node)
        if own is None or own.symbol != declaration.symbol or contains(declaration.node, node):
            continue
        covered = _set_here(unit, node)
        if covered is None:
            return True
        if contains(covered, region) or covered == region or covered.end_byte >= end:
            return False
        reached = covered.end_byte
    return False


def _set_here(unit: Unit, name: Node) -> Node | None:
    """The stretch of code that runs only after `name` was set by this mention; None where the mention reads it."""
    assignment = name.parent
    if assignment is None or assignment.type != "assignment_expression":
        return None
    operator, left, right = unit.binary(assignment)
    if operator != "=" or left != name or any(n.type == "identifier" and unit.text(n) == unit.text(name) for n in walk(right)):
        return None
    holder = assignment.parent
    if holder is not None and holder.type == "expression_statement":
        inside = holder.parent
        return inside if inside is not None and inside.type == "compound_statement" else holder
    return holder if holder is not None and holder.type == "for_statement" else None


# ---------------------------------------------------------------- arrays


def _distinct(group: Sequence[Access], own: Range, step: Poly) -> bool:
    """Certainly no element is touched by two iterations when one of them writes it."""
    if any(a.index is None for a in group) or len({len(a.index or ()) for a in group}) != 1:
        return False
    dimensions = len(group[0].index or ())
    moving = [own.symbol, *(r.symbol for a in group for r in a.ranges)]
    if any(loaded(s, m) for a in group for p in a.index or () for s in p.symbols for m in moving):
        return False
    return any(_distinct_in(group, [a.index[d] for a in group if a.index is not None], own, step) for d in range(dimensions))


def _distinct_in(group: Sequence[Access], indices: Sequence[Poly], own: Range, step: Poly) -> bool:
    symbols = {r.symbol for a in group for r in a.ranges} & {s for p in indices for s in p.symbols}
    # Loops over the same variable go together: copies of a nest (a full strip, a ragged one) walk alike.
    inner = sorted({s.split("@")[0] for s in symbols})
    if len(inner) > MAX_LOOPS:
        return False
    choices = (high for size in range(len(inner) + 1) for high in combinations(inner, size))
    return any(_split_works(group, indices, own, step, {s for s in symbols if s.split("@")[0] in high}) for high in choices)


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
    if not any(_separate(group, low, own, step, written) for written in (_normalise, _as_written)):
        return False
    if stride is None:
        return True
    whole = [_bounds(part, (own, *access.ranges), "") for access, part in zip(group, low, strict=True)]
    return all(whole) and _fit(whole, Poly.of({stride[0]: stride[1]}), group, plausible=False)


def _separate(group: Sequence[Access], low: Sequence[Poly], own: Range, step: Poly, written: Callable[..., _Written]) -> bool:
    """Each iteration keeps to a window of its own, narrower than the distance from one to the next."""
    strides, windows = [], []
    for access, part in zip(group, low, strict=True):
        normal, ranges = written(part, access.ranges)
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
        return stride is not None and own not in monomial and stride[0] != () and Poly.of({monomial: factor}).divisible_by(*stride)

    return Poly(tuple((m, c) for m, c in index.terms if not is_high(m, c)))


def _normalise(part: Poly, ranges: Sequence[Range]) -> _Written:
    """Each inner variable written as its lower bound plus an offset from 0."""
    replaced: dict[str, Poly] = {}
    offsets = []
    for found in ranges:
        lower = found.lower.substitute(replaced)
        offset = f"{found.symbol}+"
        offsets.append(Range(offset, Poly(), tuple(u.substitute(replaced) - lower for u in found.uppers)))
        replaced[found.symbol] = lower + Poly.symbol(offset)
    return part.substitute(replaced), tuple(offsets)


def _as_written(part: Poly, ranges: Sequence[Range]) -> _Written:
    return part, tuple(ranges)


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
    return [(low, high) for low, high in states if not any(s == forbidden or loaded(s, forbidden) for s in low.symbols | high.symbols)]


def value_bounds(part: Poly, ranges: Sequence[Range], forbidden: str) -> list[tuple[Poly, Poly]]:
    """Alternative (minimum, maximum) pairs of `part` over loops, outer first; `forbidden` may not occur in them."""
    return _bounds(*_normalise(part, ranges), forbidden)


def _fit(windows: Sequence[list[tuple[Poly, Poly]]], stride: Poly, group: Sequence[Access], plausible: bool = True) -> bool:
    """Every window spans less than one stride, whichever two accesses are compared."""
    less = stride - Poly.constant(1)
    # A leading dimension of another name than the loop's bound cannot be proved larger; a buffer that is only stored to is
    # proposed nevertheless, and the judge decides.
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


def is_innermost(unit: Unit, loop: Loop) -> bool:
    return not any(n.type in ("for_statement", "while_statement", "do_statement", "for_range_loop") for n in walk(loop.body))


def outermost(unit: Unit) -> list[Loop]:
    """Loops that no other loop contains, in functions that are reached without passing through a loop."""
    found: list[Loop] = []
    inside = _called_in_loops(unit)
    for function in unit.reachable:
        if unit.functions.get("solve") != function and function.start_byte in inside:
            continue
        taken: list[Node] = []
        for node in walk(function.child_by_field_name("body")):
            if node.type in ("for_statement", "while_statement", "do_statement") and not any(contains(t, node) for t in taken):
                taken.append(node)
                if (loop := unit.loop(node)) is not None:
                    found.append(loop)
    return found


def _called_in_loops(unit: Unit) -> set[int]:
    """Start bytes of the functions that some loop calls, directly or through others."""
    reached: set[int] = set()
    waiting = [n for f in unit.reachable for n in walk(f) if n.type in ("for_statement", "while_statement", "do_statement")]
    while waiting:
        for call in walk(waiting.pop()):
            name = unit.callee(call) if call.type == "call_expression" else None
            if name in unit.functions and unit.functions[name].start_byte not in reached:
                reached.add(unit.functions[name].start_byte)
                waiting.append(unit.functions[name])
    return reached


def single(body: Node) -> Node | None:
    """The only statement of a body."""
    inner = statements(body)
    return strip(inner[0]) if len(inner) == 1 else None
