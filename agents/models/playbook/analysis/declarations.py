"""Declarations: which names a function, a loop or a block gives to what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from tools.languages.cpp_source import CppSource, is_declared_name, node_contains, walk

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Declaration:
    """A name and where it comes from."""

    name: str
    start: int
    """Byte of the declarator: tells apart equal names of different scopes."""
    kind: Literal["parameter", "local", "global"]
    type: str
    """Type text with pointer stars and array brackets dropped, e.g. "float"."""
    form: Literal["value", "pointer", "reference", "array", "object"]
    """object: constructed with parentheses, e.g. a std::vector."""
    scope: Node
    node: Node
    """The declaration or parameter_declaration."""
    initial: Node | None = None

    @property
    def symbol(self) -> str:
        """Unique in the source."""
        return f"{self.name}@{self.start}"


def declared_in(unit: CppSource, scope: Node) -> Iterator[Declaration]:
    """What `scope` itself declares, in order; what it only encloses does not count."""
    if scope.type == "function_definition":
        for node in walk(scope.child_by_field_name("declarator"), skip=frozenset({"compound_statement"})):
            if node.type == "parameter_declaration":
                yield from _declarators(unit, node, scope, "parameter")
    elif scope.type == "for_statement":
        start = scope.child_by_field_name("initializer")
        if start is not None and start.type == "declaration":
            yield from _declarators(unit, start, scope, "local")
    elif scope.type in ("compound_statement", "translation_unit", "declaration_list"):
        kind: Literal["local", "global"] = "local" if scope.type == "compound_statement" else "global"
        for node in scope.named_children:
            if node.type == "declaration":
                yield from _declarators(unit, node, scope, kind)


def _declarators(
    unit: CppSource, node: Node, scope: Node, kind: Literal["parameter", "local", "global"]
) -> Iterator[Declaration]:
    type_node = node.child_by_field_name("type")
    type_text = unit.text(type_node) if type_node is not None else ""
    for declarator in node.children_by_field_name("declarator"):
        initial = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
        inner = declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
        form: Literal["value", "pointer", "reference", "array", "object"] = "value"
        if (
            initial is not None
            and initial.type == "argument_list"
            and type_node is not None
            and type_node.type != "primitive_type"
        ):
            form = "object"
        if type_text.removeprefix("std::").startswith(("vector<", "array<")):
            form = "object"
        while inner is not None and inner.type != "identifier":
            if inner.type == "pointer_declarator":
                form = "pointer"
            elif inner.type == "reference_declarator":
                form = "reference"
            elif inner.type == "array_declarator":
                form = "array"
            elif inner.type == "function_declarator" and kind == "local":
                form = "object"
            inner = inner.child_by_field_name("declarator") or _inner_declarator(inner)
        if inner is not None:
            yield Declaration(unit.text(inner), inner.start_byte, kind, type_text, form, scope, node, initial)


def _unread_names(scope: Node) -> Iterator[Node]:
    """Names of a scope that nothing more is known of: a lambda's parameters, the variable of a loop over a range,
    parts of a pair."""
    inside: list[Node] = []
    if scope.type == "for_range_loop":
        inside = scope.children_by_field_name("declarator")
    elif scope.type == "lambda_expression":
        inside = [n for n in scope.named_children if n.type != "compound_statement"]
    elif scope.type == "catch_clause":
        inside = scope.children_by_field_name("parameters")
    elif scope.type in ("if_statement", "while_statement", "switch_statement"):
        inside = [n for n in walk(scope.child_by_field_name("condition")) if n.type == "declaration"]
    elif scope.type == "compound_statement":
        inside = [
            d
            for n in scope.named_children
            if n.type == "declaration"
            for d in walk(n)
            if d.type == "structured_binding_declarator"
        ]
    return (n for one in inside for n in walk(one) if n.type == "identifier" and is_declared_name(n))


def _inner_declarator(declarator: Node) -> Node | None:
    return next((c for c in declarator.named_children if "declarator" in c.type or c.type == "identifier"), None)


def find_declaration(unit: CppSource, name: Node) -> Declaration | None:
    """What the identifier `name` refers to, by walking its scopes outwards; None for macros and unknown names."""
    wanted = unit.text(name)
    scope: Node | None = name
    while scope is not None:
        known, unknown = _names_of_scope(unit, scope)
        found = None
        for candidate in known:
            own = candidate.initial is not None and node_contains(candidate.initial, name)
            if candidate.name == wanted and candidate.node.start_byte <= name.start_byte and not own:
                found = candidate
        if found is not None or wanted in unknown:
            return found
        scope = scope.parent
    return None


@lru_cache(maxsize=4096)
def _names_of_scope(unit: CppSource, scope: Node) -> tuple[tuple[Declaration, ...], frozenset[str]]:
    """What a scope declares, and the names of which it is known only that they are its own."""
    return tuple(declared_in(unit, scope)), frozenset(unit.text(n) for n in _unread_names(scope))
