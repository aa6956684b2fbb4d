"""Values of integer and pointer expressions: index polynomials, buffers with offsets, ranges of loop variables.

What cannot be told is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.affine import Polynomial, element_symbol, is_element_symbol
from agents.models.playbook.analysis.declarations import Declaration
from agents.models.playbook.analysis.loops import CountedLoop
from agents.models.playbook.analysis.unit import CppUnit
from tools.languages.cpp_source import node_contains, statements, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

ALLOCATORS = frozenset({"malloc", "calloc", "aligned_alloc", "alloca", "free"})
CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})
INDEX_TYPE_WORDS = frozenset(
    ("int", "long", "unsigned", "signed", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t",
     "int32_t", "int64_t", "uint32_t", "uint64_t")
)  # fmt: skip
"""Words of the integer types that an index fits in; what is narrower wraps, and a floating-point number is cut off."""
ZERO_POLYNOMIAL = Polynomial()


@dataclass(frozen=True)
class Pointer:
    """Points at root[prefix...][offset]."""

    root: str
    prefix: tuple[Polynomial, ...] = ()
    offset: Polynomial = ZERO_POLYNOMIAL


@dataclass(frozen=True)
class VariableRange:
    """Values of an inner loop's variable, inclusive."""

    symbol: str
    lower: Polynomial
    uppers: tuple[Polynomial, ...]
    """Any of them bounds it from above."""


Value = Polynomial | Pointer | None
Environment = Mapping[str, Value]


class ExpressionEvaluator:
    """Evaluates expressions as seen from a region of code; variables that the region changes have no value."""

    def __init__(self, unit: CppUnit, region: Node) -> None:
        """A length computed before all loops (`const int out_h = h - r + 1`) stands for itself and is not written
        out."""
        self.unit = unit
        self.regions = [region]

    def integer_value(self, node: Node, env: Environment) -> Polynomial | None:
        """Value of an integer expression."""
        node = strip_parentheses(node)
        if node.type == "number_literal":
            digits = self.unit.text(node).rstrip("uUlL").replace("'", "")
            return Polynomial.constant(int(digits, 8 if digits[0] == "0" else 10)) if digits.isdigit() else None
        if node.type == "identifier":
            return self._name(node, env)
        if node.type == "cast_expression":
            value, kind = node.child_by_field_name("value"), node.child_by_field_name("type")
            return (
                self.integer_value(value, env)
                if value is not None and kind is not None and self._is_index_type(self.unit.text(kind))
                else None
            )
        if node.type == "call_expression" and self.is_cast(node):
            arguments, function = self.unit.arguments(node), self.unit.text(node).split("(")[0]
            kind_text = function.partition("<")[2].rstrip("> ") or function
            return (
                self.integer_value(arguments[0], env)
                if len(arguments) == 1 and self._is_index_type(kind_text)
                else None
            )
        if node.type == "unary_expression" and self.unit.text(node).startswith("-"):
            inner = node.child_by_field_name("argument")
            value_of = self.integer_value(inner, env) if inner is not None else None
            return -value_of if value_of is not None else None
        if node.type in ("subscript_expression", "pointer_expression"):
            return self._element_value(node, env)
        return self._arithmetic(node, env) if node.type == "binary_expression" else None

    def _is_index_type(self, kind: str) -> bool:
        words = [w for w in kind.replace("std::", "").split() if w != "const"]
        if len(words) == 1:
            words = self.unit.aliases.get(words[0], words[0]).replace("std::", "").split()
        return bool(words) and set(words) <= INDEX_TYPE_WORDS

    def _element_value(self, node: Node, env: Environment) -> Polynomial | None:
        """An element of a parameter that the function only reads: the same wherever its index is the same."""
        found = self.element_index(node, env)
        if found is None:
            return None
        function = self.unit.enclosing_function(self.regions[0])
        constant = any(
            p.symbol == found[0] and p.form == "pointer" and _is_read_only(self.unit, p)
            for p in self.unit.parameters(function)
        )
        return Polynomial.symbol(element_symbol(*found)) if constant else None

    def _arithmetic(self, node: Node, env: Environment) -> Polynomial | None:
        operator, left, right = self.unit.split_binary(node)
        a, b = self.integer_value(left, env), self.integer_value(right, env)
        if a is None or b is None:
            return None
        if operator in "+-*":
            return a + b if operator == "+" else a - b if operator == "-" else a * b
        loops = (self.unit.counted(n) for n in walk(self.unit.enclosing_function(node)) if n.type == "for_statement")
        counters = {loop.symbol for loop in loops if loop is not None}
        if operator == "/" and not any(s in counters or is_element_symbol(s) for s in a.symbols | b.symbols):
            return Polynomial.symbol(f"?{self.unit.text(node)}")
        return None

    def _name(self, node: Node, env: Environment) -> Polynomial | None:
        declaration = self.unit.declaration(node)
        if declaration is None:
            return Polynomial.symbol(f"?{self.unit.text(node)}")
        loop = self._loop_that_counts(node, declaration)
        if loop is not None:
            return Polynomial.symbol(loop.symbol)
        if declaration.type in ("float", "double"):
            return None
        wide = declaration.form != "value" or declaration.type in ("auto", "") or self._is_index_type(declaration.type)
        if declaration.symbol in env:
            value = env[declaration.symbol]
            return value if isinstance(value, Polynomial) and wide else None
        written = declaration.name in self.unit.written_names(declaration.scope)
        if declaration.initial is not None and not written and declaration.form == "value" and wide:
            value_of = self.integer_value(declaration.initial, env)
            if value_of is not None and not (len(value_of.terms) > 1 and not _is_in_loop(declaration.node)):
                return value_of
        inside = any(node_contains(region, declaration.node) for region in self.regions)
        changed = any(declaration.name in self.unit.written_names(region) for region in self.regions)
        return (
            None if (inside and declaration.kind != "parameter") or changed else Polynomial.symbol(declaration.symbol)
        )

    def _loop_that_counts(self, node: Node, declaration: Declaration) -> CountedLoop | None:
        """The innermost loop around `node` whose variable this is."""
        current = node.parent
        while current is not None and current.type != "function_definition":
            if current.type == "for_statement":
                loop = self.unit.counted(current)
                if loop is not None and loop.declaration is not None and loop.declaration.symbol == declaration.symbol:
                    start = current.child_by_field_name("initializer")
                    return (
                        None
                        if start is not None and node_contains(start, node) and not loop.declares_variable
                        else loop
                    )
            current = current.parent
        return None

    def is_cast(self, call: Node) -> bool:
        function = call.child_by_field_name("function")
        if function is None:
            return False
        if function.type == "template_function":
            name = function.child_by_field_name("name")
            return name is not None and self.unit.text(name) in CASTS
        return function.type == "primitive_type" or self.unit.text(function).removeprefix("std::") in INDEX_TYPE_WORDS

    def pointer(self, node: Node, env: Environment) -> Pointer | None:
        """What a pointer-valued expression points at."""
        node = strip_parentheses(node)
        unit = self.unit
        if node.type == "identifier":
            return self._pointer_name(node, env)
        if node.type == "cast_expression":
            value = node.child_by_field_name("value")
            return self.pointer(value, env) if value is not None else None
        if node.type == "call_expression":
            function, arguments = node.child_by_field_name("function"), unit.arguments(node)
            if self.is_cast(node) and len(arguments) == 1:
                return self.pointer(arguments[0], env)
            if function is not None and function.type == "field_expression" and unit.text(function).endswith(".data"):
                return self.pointer(function.named_children[0], env)
        if node.type == "pointer_expression" and unit.text(node).startswith("&"):
            inner = node.child_by_field_name("argument")
            element = self.element_index(inner, env) if inner is not None else None
            return Pointer(element[0], element[1][:-1], element[1][-1]) if element and element[1] else None
        if node.type == "subscript_expression":
            element = self.element_index(node, env)
            return Pointer(*element) if element and element[1] is not None else None
        if node.type == "binary_expression":
            operator, left, right = unit.split_binary(node)
            base, offset = self.pointer(left, env), self.integer_value(right, env)
            if operator == "+" and base is None:
                base, offset = self.pointer(right, env), self.integer_value(left, env)
            if base is not None and offset is not None and operator in ("+", "-"):
                return Pointer(
                    base.root, base.prefix, base.offset + offset if operator == "+" else base.offset - offset
                )
        return None

    def _pointer_name(self, node: Node, env: Environment) -> Pointer | None:
        declaration = self.unit.declaration(node)
        if declaration is None:
            return None
        if declaration.symbol not in env and declaration.form in ("array", "object"):
            return Pointer(declaration.symbol)
        ahead = (
            self._pointer_advance(node, declaration, env)
            if declaration.name in self.unit.written_names(declaration.scope)
            else ZERO_POLYNOMIAL
        )
        start = self._start(declaration, env) if ahead is not None else None
        return replace(start, offset=start.offset + ahead) if start is not None and ahead is not None else None

    def _pointer_advance(self, use: Node, pointer: Declaration, env: Environment) -> Polynomial | None:
        """How far a pointer has walked that starts beside a loop and steps once in each iteration, behind its uses."""
        unit, name, around = self.unit, pointer.name, use
        while around.parent is not None and around.parent != pointer.scope:
            around = around.parent
        loop = unit.loop(around) if around.type == "for_statement" else None
        inside = statements(loop.body) if loop is not None else []
        moved = next(
            (n.named_children[0] for n in inside if n.type == "expression_statement" and name in unit.written_names(n)),
            use,
        )
        if (
            loop is None
            or use.start_byte >= moved.start_byte
            or any(n.type == "continue_statement" for n in walk(loop.body))
        ):
            return None
        if (
            unit.written_names(pointer.scope).count(name) != 1
            or loop.step is not None
            or unit.text(pointer.node).startswith("static")
        ):
            return None
        step = Polynomial.constant(1) if unit.text(moved) in (f"++{name}", f"{name}++") else None
        if moved.type == "assignment_expression" and unit.text(moved).split()[:2] == [name, "+="]:
            step = self.integer_value(unit.split_binary(moved)[2], env)
        lower = self.integer_value(loop.lower, env)
        if step is None or lower is None or any(s == loop.symbol or is_element_symbol(s) for s in step.symbols):
            return None
        return step * (Polynomial.symbol(loop.symbol) - lower)

    def _start(self, declaration: Declaration, env: Environment) -> Pointer | None:
        """What a pointer points at where it is declared."""
        if declaration.symbol in env:
            value = env[declaration.symbol]
            return value if isinstance(value, Pointer) else None
        initial = strip_parentheses(declaration.initial) if declaration.initial is not None else None
        if declaration.kind == "parameter":
            function = self.unit.enclosing_function(declaration.node)
            known = declaration.form == "pointer" and declaration.name not in aliased_parameters(self.unit, function)
            return Pointer(declaration.symbol) if known else None
        if initial is None:
            return None
        while initial.type == "cast_expression" and (cast := initial.child_by_field_name("value")) is not None:
            initial = strip_parentheses(cast)
        if self.is_new_memory(initial):
            return Pointer(declaration.symbol)
        return self.pointer(initial, env) if declaration.form == "pointer" or declaration.type == "auto" else None

    def is_new_memory(self, node: Node) -> bool:
        """Newly allocated memory."""
        if node.type == "call_expression" and self.is_cast(node):
            return any(self.is_new_memory(strip_parentheses(a)) for a in self.unit.arguments(node))
        return node.type == "new_expression" or (
            node.type == "call_expression" and self.unit.called_function(node) in ALLOCATORS
        )

    def element_index(self, node: Node, env: Environment) -> tuple[str, tuple[Polynomial, ...]] | None:
        """Root and index of an element expression; None when not understood."""
        node = strip_parentheses(node)
        argument = node.child_by_field_name("argument")
        if node.type == "subscript_expression" and argument is not None:
            indices = node.child_by_field_name("indices")
            base = self.pointer(argument, env)
            index = (
                self.integer_value(indices.named_children[0], env)
                if indices is not None and indices.named_child_count == 1
                else None
            )
            return (base.root, (*base.prefix, base.offset + index)) if base is not None and index is not None else None
        if node.type == "pointer_expression" and argument is not None and self.unit.text(node).startswith("*"):
            base = self.pointer(argument, env)
            return (base.root, (*base.prefix, base.offset)) if base is not None else None
        if node.type == "identifier":
            declaration = self.unit.declaration(node)
            if declaration is not None and declaration.form == "reference" and declaration.initial is not None:
                return self.element_index(declaration.initial, env)
        return None

    def root(self, node: Node, env: Environment) -> str | None:
        """Buffer of an element whose index is not understood."""
        node = strip_parentheses(node)
        argument = node.child_by_field_name("argument")
        base = self.pointer(argument, env) if argument is not None else None
        return base.root if base is not None else None

    def loop_range(self, loop: CountedLoop, env: Environment) -> VariableRange | None:
        """Inclusive range of a loop's variable."""
        lower = self.integer_value(loop.lower, env)
        uppers = tuple(self._upper_bounds(loop.upper, env))
        less = Polynomial.constant(0 if loop.is_inclusive else 1)
        return (
            VariableRange(loop.symbol, lower, tuple(u - less for u in uppers)) if lower is not None and uppers else None
        )

    def _upper_bounds(self, node: Node, env: Environment) -> list[Polynomial]:
        """Polynomials of which each bounds `node` from above: a minimum has several."""
        node = strip_parentheses(node)
        value = self.integer_value(node, env)
        known = [value] if value is not None else []
        declaration = self.unit.declaration(node) if node.type == "identifier" else None
        initial = declaration.initial if declaration is not None else None
        if known and (declaration is None or initial is None or value != Polynomial.symbol(declaration.symbol)):
            return known
        if declaration is not None:
            fixed = declaration.name not in self.unit.written_names(declaration.scope)
            return [*known, *(self._upper_bounds(initial, env) if initial is not None and fixed else [])]
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            if function is not None and self.unit.text(function).split("<")[0] in ("std::min", "min"):
                return [u for a in self.unit.arguments(node) for u in self._upper_bounds(a, env)]
        if node.type == "conditional_expression":
            condition, yes, no = (node.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
            if (
                condition is not None
                and yes is not None
                and no is not None
                and strip_parentheses(condition).type == "binary_expression"
            ):
                operator, left, right = self.unit.split_binary(strip_parentheses(condition))
                if operator in ("<", "<=") and [self.unit.text(left), self.unit.text(right)] == [
                    self.unit.text(yes),
                    self.unit.text(no),
                ]:
                    return self._upper_bounds(yes, env) + self._upper_bounds(no, env)
        return []


@lru_cache(maxsize=256)
def aliased_parameters(unit: CppUnit, function: Node) -> frozenset[str]:
    """Pointer parameters of a helper that some call gives the same buffer as another one, which the contract
    promises for `solve`'s only; none where the helper writes to neither."""
    if unit.functions.get("solve") == function:
        return frozenset()
    name, parameters, found = unit.function_name(function), unit.parameters(function), set[str]()
    for caller in unit.reachable_functions:
        values = ExpressionEvaluator(unit, caller.child_by_field_name("body") or caller)
        for call in walk(caller):
            if call.type != "call_expression" or unit.called_function(call) != name or caller == function:
                continue
            given = [
                (p, values.pointer(a, {}))
                for p, a in zip(parameters, unit.arguments(call), strict=False)
                if p.form == "pointer"
            ]
            for (one, a), (other, b) in combinations(given, 2):
                if (
                    a is not None
                    and b is not None
                    and a.root == b.root
                    and not (_is_read_only(unit, one) and _is_read_only(unit, other))
                ):
                    found |= {one.name, other.name}
            # What is one buffer in the caller's own callers is one here too.
            if aliased_parameters(unit, caller):
                found |= {p.name for p, pointer in given if pointer is None}
    return frozenset(found)


def _is_in_loop(node: Node) -> bool:
    current = node.parent
    while current is not None and current.type != "for_statement":
        current = current.parent
    return current is not None


def _is_read_only(unit: CppUnit, parameter: Declaration) -> bool:
    """Declared to point at something constant, by a kernel that casts nothing away."""
    text = unit.text(parameter.node).split("*")[0]
    return "const" in text.split() and "const_cast" not in unit.source
