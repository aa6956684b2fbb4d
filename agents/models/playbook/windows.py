"""A loop whose two ends move together with a loop around it (`for k in [t - h, t + h]`), counted from zero: its length is fixed then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.polynomial import Poly, loaded
from agents.models.playbook.syntax import Edit, Unit, fresh, pragma_before
from agents.models.playbook.tree import walk
from agents.models.playbook.values import Values

if TYPE_CHECKING:
    from tree_sitter import Node

LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
MAX_AROUND = 2
TAP = "kw_tap"
"""Starts the names of the counters that are put in."""
NEAR = 4
"""Elements from one window to the next of which vector loads still take the wanted ones."""


def counted_from_zero(unit: Unit) -> list[Edit]:
    """The edits for one innermost loop; none where no loop is such a window."""
    for function in unit.reachable:
        for loop in reversed(unit.loops(function.child_by_field_name("body") or function)):
            for number, around in enumerate(_around(unit, loop)):
                if loop.step is None and loop.declared_here and around.step is None:
                    edits = _moved(unit, around, loop, number == 0)
                    if edits:
                        return edits
    return []


def _around(unit: Unit, loop: Loop) -> list[Loop]:
    """The loop directly around an innermost one, and the one around that."""
    if any(n.type in LOOPS for n in walk(loop.body)):
        return []
    found: list[Loop] = []
    current = loop.node.parent
    while current is not None and current.type != "function_definition" and len(found) < MAX_AROUND:
        one = unit.loop(current) if current.type == "for_statement" else None
        if current.type in LOOPS and one is None:
            break
        found += [one] if one is not None else []
        current = current.parent
    return found


def _moved(unit: Unit, around: Loop, loop: Loop, direct: bool) -> list[Edit]:
    if pragma_before(unit, loop.node) is not None or pragma_before(unit, around.node) is not None or "kw_" in around.variable:
        return []
    kind = loop.node.child_by_field_name("initializer")
    name = kind.child_by_field_name("type") if kind is not None else None
    values = Values(unit, around.body)
    lower, upper = values.poly(loop.lower, {}), values.poly(loop.upper, {})
    if (
        name is None
        or lower is None
        or upper is None
        or unit.text(name) not in ("int", "long", "auto", "int64_t", "std::int64_t", "ptrdiff_t")
    ):
        return []
    step = lower.coefficient(around.symbol)
    length = upper - lower + Poly.constant(1 if loop.inclusive else 0)
    text = expression(unit, around.node, length)
    # One step of the loop around moves the window by few elements; a row of a matrix is none.
    if step is None or step.value is None or not 1 <= step.value <= NEAR or not text:
        return []
    # A short window of its own, moved by one element, is a stencil that the compiler unrolls.
    if step.value == 1 and (length.value is not None or not direct):
        return []
    counter, moved = fresh(unit, TAP), f"{unit.text(name)} {loop.variable}"
    made = f"const {moved} = ({unit.text(loop.lower)}) + {counter};"
    head = Edit(
        loop.node.start_byte,
        loop.body.start_byte,
        f"for ({unit.text(name) if unit.text(name) != 'auto' else 'long'} {counter} = 0; {counter} < {text}; ++{counter}) ",
    )
    if loop.body.type == "compound_statement":
        return [head, Edit(loop.body.start_byte + 1, loop.body.start_byte + 1, f" {made}")]
    return [head, Edit(loop.body.start_byte, loop.body.start_byte, f"{{ {made} "), Edit(loop.body.end_byte, loop.body.end_byte, " }")]


def expression(unit: Unit, before: Node, value: Poly) -> str:
    """C expression of a value that is known in front of a node; "" where a name in it is not, or is a counter's."""
    counters = {one.symbol for one in unit.loops(unit.function_of(before))}
    terms = []
    for monomial, factor in value.terms:
        names = []
        for symbol in monomial:
            name, _, start = symbol.partition("@")
            # An element of a buffer has no name that could be written there.
            if symbol in counters or loaded(symbol) or (start and int(start) >= before.start_byte):
                return ""
            names.append(f"({name.removeprefix('?')})" if name.startswith("?") else name)
        sign = "-" if factor < 0 else "+"
        terms.append(f"{sign} {' * '.join([*([str(abs(factor))] if abs(factor) != 1 or not names else []), *names])}")
    terms.sort(key=lambda term: term[0] == "-")
    return " ".join(terms).removeprefix("+ ") or "0"
