"""What a piece of code reads and writes in memory: arrays by root and index polynomial, through helpers that it calls.

Pointer parameters are taken as disjoint, which the kernel contract promises. What cannot be named is a problem,
never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.affine import Polynomial
from agents.models.playbook.analysis.expressions import (
    ALLOCATORS,
    Environment,
    ExpressionEvaluator,
    Value,
    VariableRange,
)
from agents.models.playbook.analysis.types import OVERLOADED_FUNCTIONS
from agents.models.playbook.analysis.unit import CppUnit
from tools.languages.cpp_source import statements, strip_parentheses

if TYPE_CHECKING:
    from tree_sitter import Node

CMATH = (
    *OVERLOADED_FUNCTIONS,
    "abs",
    "max",
    "min",
    "isnan",
    "isinf",
    "isfinite",
    "conj",
    "real",
    "imag",
    "norm",
    "arg",
    "polar",
)
PURE_FUNCTIONS = frozenset(
    [*CMATH, *(f"{name}f" for name in CMATH), *(f"kw_{name}" for name in CMATH), "kw_pick", "kw_cmul",
     "clamp", "unreachable"]
)  # fmt: skip
"""Functions of <cmath>, <complex> and <algorithm> that touch no memory, and the ones that recipes insert."""
UNREADABLE_NODES = frozenset(
    {
        "while_statement",
        "do_statement",
        "goto_statement",
        "throw_statement",
        "try_statement",
        "switch_statement",
        "for_range_loop",
    }
    | {"lambda_expression", "asm_statement", "gnu_asm_expression"}
)
MAX_CALL_DEPTH = 4


@dataclass(frozen=True)
class ElementAccess:
    """One read or write of an element; index None: not understood."""

    root: str
    index: tuple[Polynomial, ...] | None
    write: bool
    plain: bool
    """A write by `=` alone, of an element that the statement does not read."""
    ranges: tuple[VariableRange, ...]
    """Of the loops between the region and the access, outer first."""
    node: Node


@dataclass
class Effects:
    """Everything found in a region; `problem` names the first thing that could not be understood."""

    accesses: list[ElementAccess] = field(default_factory=list)
    problem: str = ""

    def add_problem(self, problem: str) -> None:
        self.problem = self.problem or problem


class EffectReader(ExpressionEvaluator):
    """Reads the effects of one region (a loop's body)."""

    def __init__(self, unit: CppUnit, region: Node) -> None:
        super().__init__(unit, region)
        self.effects = Effects()
        self._unbounded = 0
        """Loops around whose bounds are not understood."""
        for statement in statements(region):
            self._visit(statement, (), {})

    def _visit(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int = 0) -> None:
        handlers = {
            "for_statement": self._visit_loop,
            "assignment_expression": self._visit_assignment,
            "subscript_expression": self._visit_element,
            "pointer_expression": self._visit_element,
            "update_expression": self._visit_update,
            "call_expression": self._visit_call,
            "declaration": self._visit_declaration,
            "identifier": self._visit_name,
        }
        if node.type in handlers:
            handlers[node.type](node, ranges, env, depth)
            return
        if node.type in UNREADABLE_NODES:
            self.effects.add_problem(f"{node.type.replace('_', ' ')} is not understood")
        elif node.type == "return_statement" and depth == 0:
            self.effects.add_problem("the loop returns from the function")
        for child in node.named_children:
            self._visit(child, ranges, env, depth)

    def _visit_element(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int) -> None:
        if self.unit.text(node).startswith("&"):
            self.effects.add_problem(f"an address is taken: {self.unit.text(node)}")
        self._add_access(node, False, False, ranges, env)
        for child in node.named_children:
            if child.type != "identifier":
                self._visit(child, ranges, env, depth)

    def _visit_update(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int) -> None:
        target = node.child_by_field_name("argument")
        if target is not None:
            self._write(target, False, ranges, env)

    def _visit_name(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int) -> None:
        """A read through a reference."""
        declaration = self.unit.declaration(node)
        if declaration is not None and declaration.form == "reference" and declaration.initial is not None:
            self._add_access(node, False, False, ranges, env)

    def _visit_loop(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int) -> None:
        loop = self.unit.counted(node)
        if loop is None:
            self.effects.add_problem(f"not a counted loop: {self.unit.text(node).splitlines()[0]}")
            return
        for bound in (loop.lower, loop.upper):
            self._visit(bound, ranges, env, depth)
        found = self.loop_range(loop, env)
        self._unbounded += found is None
        self._visit(loop.body, (*ranges, found) if found is not None else ranges, env, depth)
        self._unbounded -= found is None

    def _visit_assignment(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int) -> None:
        operator, left, right = self.unit.split_binary(node)
        self._visit(right, ranges, env, depth)
        self._write(left, operator == "=", ranges, env)
        for child in strip_parentheses(left).named_children:
            if child.type != "identifier":
                self._visit(child, ranges, env, depth)

    def _write(self, target: Node, plain: bool, ranges: tuple[VariableRange, ...], env: Environment) -> None:
        target = strip_parentheses(target)
        if target.type == "identifier":
            declaration = self.unit.declaration(target)
            if declaration is None or declaration.kind == "global":
                self.effects.add_problem(f"writes {self.unit.text(target)}, which is not local")
            elif declaration.form == "reference":
                self._add_access(target, True, plain, ranges, env)
        elif target.type in ("subscript_expression", "pointer_expression"):
            self._add_access(target, True, plain, ranges, env)
        else:
            self.effects.add_problem(f"writes {self.unit.text(target)}, which is not understood")

    def _add_access(
        self, node: Node, write: bool, plain: bool, ranges: tuple[VariableRange, ...], env: Environment
    ) -> None:
        # An element in a loop that walks nobody knows how far may be any of its buffer.
        element = self.element_index(node, env) if not self._unbounded else None
        if element is not None:
            self.effects.accesses.append(ElementAccess(element[0], element[1], write, plain, ranges, node))
            return
        root = self.root(node, env)
        if root is None:
            self.effects.add_problem(f"{self.unit.text(node)} cannot be traced to a buffer")
        else:
            self.effects.accesses.append(ElementAccess(root, None, write, plain, ranges, node))

    def _visit_declaration(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int) -> None:
        text = self.unit.text(node)
        if text.startswith("static") and "const" not in text.split("=")[0]:
            self.effects.add_problem("a static variable is shared by all iterations")
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            inner = declarator.child_by_field_name("declarator")
            if value is None or (inner is not None and inner.type in ("pointer_declarator", "reference_declarator")):
                continue
            self._visit(value, ranges, env, depth)

    # ------------------------------------------------------------ calls

    def _visit_call(self, node: Node, ranges: tuple[VariableRange, ...], env: Environment, depth: int) -> None:
        unit = self.unit
        arguments = unit.arguments(node)
        function = node.child_by_field_name("function")
        name = unit.called_function(node)
        called = unit.text(function).split("<")[0] if function is not None else ""
        pure = name in PURE_FUNCTIONS and unit.is_library_call(node)
        if self.is_cast(node) or pure or called in ("std::max", "std::min", "std::numeric_limits"):
            for argument in arguments:
                self._visit(argument, ranges, env, depth)
        elif name in ALLOCATORS or (
            function is not None
            and function.type == "field_expression"
            and unit.text(function).endswith((".data", ".size"))
        ):
            return
        elif name in unit.functions and depth < MAX_CALL_DEPTH:
            self._visit_helper(unit.functions[name], arguments, ranges, env, depth)
        else:
            self.effects.add_problem(f"calls {name or unit.text(node)}, whose effects are not known")

    def _visit_helper(
        self, function: Node, arguments: list[Node], ranges: tuple[VariableRange, ...], env: Environment, depth: int
    ) -> None:
        unit = self.unit
        parameters = unit.parameters(function)
        body = function.child_by_field_name("body")
        if len(parameters) != len(arguments) or body is None:
            self.effects.add_problem("a call's arguments do not match its function")
            return
        inner: dict[str, Value] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if parameter.form in ("pointer", "array"):
                inner[parameter.symbol] = self.pointer(argument, env)
            elif parameter.form == "reference" and "const" not in unit.text(parameter.node):
                self.effects.add_problem(f"{parameter.name} is passed by reference")
            else:
                inner[parameter.symbol] = self.integer_value(argument, env)
                self._visit(argument, ranges, env, depth)
        self.regions.append(function)
        self._visit(body, ranges, inner, depth + 1)
        self.regions.pop()


@lru_cache(maxsize=256)
def read_effects(unit: CppUnit, region: Node) -> EffectReader:
    """The effects of a region; several recipes ask for the same ones."""
    return EffectReader(unit, region)
