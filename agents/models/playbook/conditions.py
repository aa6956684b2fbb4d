"""Conditions on loop counters: where they have one outcome, and a body without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.playbook.effects import Reader
from agents.models.playbook.element_types import floating
from agents.models.playbook.polynomial import Poly, loaded
from agents.models.playbook.reductions import call_name
from agents.models.playbook.scopes import Declaration, declared_in
from agents.models.playbook.strides import value_bounds
from agents.models.playbook.syntax import OPAQUE, Unit
from agents.models.playbook.tree import statements, strip, walk
from agents.models.playbook.values import Environment, Range, Value

if TYPE_CHECKING:
    from tree_sitter import Node

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
CLAMPS = frozenset({"max", "min", "clamp"})
UNSIGNED = ("unsigned", "size_t", "uint")
ONE = Poly.constant(1)


@dataclass(frozen=True)
class Condition:
    """`difference >= 0`, or `difference == 0`."""

    node: Node
    part: int
    """Which of a clamp's two comparisons."""
    left: Node
    right: Node
    shift: int
    """Added to left - right."""
    equal: bool = False
    negated: bool = False

    @property
    def key(self) -> tuple[int, int]:
        return self.node.start_byte, self.part

    def edges(self, reader: Reader, own: Range, env: Environment) -> Edges | None:
        """Where it is settled for every value of the loops inside; None where that cannot be told."""
        left, right = reader.poly(self.left, env), reader.poly(self.right, env)
        if left is None or right is None:
            return None
        difference = left - right + Poly.constant(self.shift)
        found = difference.coefficient(own.symbol)
        count = found.value if found is not None else None
        if not count:
            return None
        sign = 1 if count > 0 else -1
        rest = difference.without(own.symbol)
        ranges = _ranges(reader, self.node, env, rest)
        bounds = value_bounds(rest if sign > 0 else -rest, ranges, own.symbol) if ranges is not None else []
        return self._edges(abs(count), sign, *bounds[0]) if bounds else None

    def _edges(self, count: int, sign: int, low: Poly, high: Poly) -> Edges:
        """`count * v + rest >= 0` (sign 1) or `<= 0` (sign -1), with rest between low and high."""
        if self.equal:
            return Edges(count, ONE - low, self.negated, -high, self.negated)
        if sign > 0:
            return Edges(count, -low, not self.negated, -high, self.negated)
        return Edges(count, ONE - low, self.negated, ONE - high, not self.negated)


@dataclass(frozen=True)
class Edges:
    """For count * v >= first it is `late`, for count * v < behind it is `early`."""

    count: int
    first: Poly
    late: bool
    behind: Poly
    early: bool


def conditions(unit: Unit, body: Node) -> Iterator[Condition]:
    """Comparisons and clamps of integers in `body`, those that end its counted loops left out."""
    for node in walk(body, skip=OPAQUE):
        if node.type == "binary_expression":
            operator, left, right = unit.binary(node)
            head = node.parent is not None and node.parent.type == "for_statement"
            if operator in COMPARISONS and not head and signed(unit, left) and signed(unit, right):
                yield _compared(node, 0, operator, left, right)
        elif node.type == "call_expression" and call_name(unit, node) in CLAMPS:
            arguments = unit.arguments(node)
            if all(signed(unit, a) for a in arguments):
                yield from _clamped(node, call_name(unit, node), arguments)


def _compared(node: Node, part: int, operator: str, left: Node, right: Node) -> Condition:
    if operator in ("==", "!="):
        return Condition(node, part, left, right, 0, True, operator == "!=")
    if operator in (">", ">="):
        return Condition(node, part, left, right, -1 if operator == ">" else 0)
    return Condition(node, part, right, left, -1 if operator == "<" else 0)


def _clamped(node: Node, name: str, arguments: list[Node]) -> Iterator[Condition]:
    """The first argument is what comes out."""
    if len(arguments) == 2 and name != "clamp":
        yield _compared(node, 0, ">=" if name == "max" else "<=", *arguments)
    elif len(arguments) == 3 and name == "clamp":
        yield _compared(node, 0, ">=", arguments[0], arguments[1])
        yield _compared(node, 1, "<=", arguments[0], arguments[2])


def signed(unit: Unit, node: Node) -> bool:
    """An integer expression in which nothing is unsigned: there `x - 1 >= 0` says nothing about x."""
    if floating(unit, node) != "int":
        return False
    for name in walk(node):
        declaration = unit.declaration(name) if name.type == "identifier" else None
        kind = declaration.type if declaration is not None else ""
        if name.type in ("primitive_type", "type_identifier", "sized_type_specifier"):
            kind = unit.text(name)
        if name.type == "sizeof_expression" or (name.type == "number_literal" and "u" in unit.text(name).lower()):
            return False
        if any(word in unit.aliases.get(kind, kind) for word in UNSIGNED):
            return False
        if kind == "auto" and declaration is not None and declaration.initial is not None and not signed(unit, declaration.initial):
            return False
    return True


def _ranges(reader: Reader, node: Node, env: Environment, value: Poly) -> tuple[Range, ...] | None:
    """Of the loops between the reader's region and `node`, outer first; one that is not understood may not move `value`."""
    found: list[Range] = []
    current = node
    while current.parent is not None and current != reader.regions[0]:
        above = current.parent
        if above.type in ("while_statement", "do_statement"):
            return None
        if above.type == "for_statement" and current == above.child_by_field_name("body"):
            loop = reader.unit.loop(above)
            own = reader.range(loop, env) if loop is not None else None
            if own is None and (loop is None or any(s == loop.symbol or loaded(s, loop.symbol) for s in value.symbols)):
                return None
            if own is not None:
                found.insert(0, own)
        current = above
    return tuple(found)


# ---------------------------------------------------------------- indices clamped by statements


def clamped_variables(unit: Unit, reader: Reader, own: Range) -> tuple[dict[str, Value], list[Node]]:
    """`int xx = x + dx; if (xx < 0) xx = 0;`: the first value of each such variable that moves with the loop, and the statements."""
    values: dict[str, Value] = {}
    clamps: list[Node] = []
    for node in walk(reader.regions[0], skip=OPAQUE):
        declaration = _clamped_name(unit, node)
        if declaration is None or declaration.initial is None:
            continue
        first = reader.poly(declaration.initial, values)
        following = _clamp_statements(unit, node, declaration.name)
        written = unit.assigned(declaration.scope).count(declaration.name)
        if first is not None and own.symbol in first.symbols and following and len(following) == written:
            values[declaration.symbol] = first
            clamps += following
    return values, clamps


def _clamped_name(unit: Unit, node: Node) -> Declaration | None:
    if node.type != "init_declarator" or node.parent is None or node.parent.type != "declaration":
        return None
    name = node.child_by_field_name("declarator")
    if name is None or name.type != "identifier" or node.parent.parent is None or node.parent.parent.type != "compound_statement":
        return None
    found = next((d for d in declared_in(unit, node.parent.parent) if d.start == name.start_byte), None)
    return found if found is not None and signed(unit, name) else None


def _clamp_statements(unit: Unit, declarator: Node, name: str) -> list[Node]:
    """The `if (name ...) name = ...;` behind a declaration."""
    found = []
    node = declarator.parent.next_named_sibling if declarator.parent is not None else None
    while node is not None and node.type in ("if_statement", "declaration", "comment"):
        then = node.child_by_field_name("consequence") if node.type == "if_statement" else None
        if (
            then is not None
            and node.child_by_field_name("alternative") is None
            and unit.assigned(node) == (name,)
            and len(statements(then)) == 1
        ):
            found.append(node)
        node = node.next_named_sibling
    return found


# ---------------------------------------------------------------- a body without them

Outcomes = Mapping[tuple[int, int], bool]


def outcome(unit: Unit, node: Node, known: Outcomes) -> bool | None:
    """Value of a condition where it is known."""
    node = strip(node)
    if node.type == "unary_expression" and unit.text(node).startswith("!"):
        inner = node.child_by_field_name("argument")
        value = outcome(unit, inner, known) if inner is not None else None
        return not value if value is not None else None
    if node.type != "binary_expression":
        return None
    operator, left, right = unit.binary(node)
    if operator not in ("&&", "||"):
        return known.get((node.start_byte, 0))
    both = outcome(unit, left, known), outcome(unit, right, known)
    decisive = operator == "||"
    if decisive in both:
        return decisive
    return None if None in both else not decisive


def resolved(unit: Unit, node: Node, known: Outcomes) -> str:
    """Text of `node` with what is known carried out."""
    if node.type == "if_statement":
        text = _branch(unit, node, known)
        if text is not None:
            return text
    elif node.type == "conditional_expression":
        condition, yes, no = (node.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
        value = outcome(unit, condition, known) if condition is not None else None
        if value is not None and yes is not None and no is not None:
            return f"({resolved(unit, yes if value else no, known)})"
    elif node.type == "binary_expression" and unit.binary(node)[0] in ("&&", "||"):
        kept = [n for n in unit.binary(node)[1:] if outcome(unit, n, known) is None]
        if len(kept) == 1:
            return resolved(unit, kept[0], known)
    elif node.type == "call_expression":
        text = _unclamped(unit, node, known)
        if text is not None:
            return text
    return _spliced(unit, node, known)


def _spliced(unit: Unit, node: Node, known: Outcomes) -> str:
    text, place = [], node.start_byte
    for child in node.named_children:
        text += [unit.code[place : child.start_byte].decode(), resolved(unit, child, known)]
        place = child.end_byte
    return "".join([*text, unit.code[place : node.end_byte].decode()])


def _unclamped(unit: Unit, node: Node, known: Outcomes) -> str | None:
    name, arguments = call_name(unit, node), unit.arguments(node)
    if name not in CLAMPS or (node.start_byte, 0) not in known:
        return None
    first, second = known[node.start_byte, 0], known.get((node.start_byte, 1))
    if name == "clamp":
        if second is None:
            return None
        return f"({resolved(unit, arguments[0 if first and second else 2 if first else 1], known)})"
    return f"({resolved(unit, arguments[0 if first else 1], known)})"


def _branch(unit: Unit, node: Node, known: Outcomes) -> str | None:
    condition, then, other = (node.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
    value = outcome(unit, condition, known) if condition is not None else None
    if value is None or then is None:
        return None
    inside = node.parent is not None and node.parent.type == "compound_statement"
    chosen = then if value else (other.named_children[-1] if other is not None and other.named_children else None)
    if chosen is None:
        return "" if inside else ";"
    text = resolved(unit, chosen, known)
    plain = chosen.type == "compound_statement" and not any(n.type == "declaration" for n in chosen.named_children)
    return text.strip()[1:-1].strip() if inside and plain else text
