"""Small structs of the file itself that only look at memory: a pointer, sizes, methods that return an expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.playbook.syntax import Unit
from agents.models.playbook.tree import contains, walk

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Field:
    """`const float* data`: what stands before, around and behind the name."""

    kind: str
    before: str
    name: str

    def declared(self, holder: str) -> str:
        return f"{self.kind} {self.before}{holder}_{self.name}"


@dataclass(frozen=True)
class View:
    """A struct of plain members and of methods that only return an expression."""

    name: str
    node: Node
    fields: tuple[Field, ...]
    methods: dict[str, Node]


def views(unit: Unit) -> Iterator[View]:
    """The structs of the file that are views and nothing more."""
    named = [unit.text(n) for n in walk(unit.root) if n.type == "type_identifier" and _names_a_type(n)]
    for node in walk(unit.root):
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if node.type != "struct_specifier" or name is None or body is None or name.type != "type_identifier":
            continue
        outside = node.parent is not None and node.parent.type in ("translation_unit", "declaration_list")
        read = _members(unit, body)
        if (
            outside
            and read is not None
            and named.count(unit.text(name)) == 1
            and not any(n.type == "base_class_clause" for n in node.named_children)
        ):
            yield View(unit.text(name), node, *read)


def _names_a_type(name: Node) -> bool:
    """Stands where a type gets its name, not where it is used."""
    parent = name.parent
    if parent is None or parent.type.endswith("_parameter_declaration"):
        return parent is not None
    if parent.type == "type_definition":
        return name in parent.children_by_field_name("declarator")
    return parent.type.endswith(("_specifier", "alias_declaration")) and parent.child_by_field_name("name") == name


def _members(unit: Unit, body: Node) -> tuple[tuple[Field, ...], dict[str, Node]] | None:
    fields: list[Field] = []
    methods: dict[str, Node] = {}
    for node in body.named_children:
        if node.type == "comment":
            continue
        if node.type == "field_declaration":
            found = _fields(unit, node)
            if not found:
                return None
            fields += found
            continue
        declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
        while declarator is not None and declarator.type == "reference_declarator":
            declarator = declarator.named_children[0]
        name = declarator.child_by_field_name("declarator") if declarator is not None else None
        said = unit.text(name).replace(" ", "") if name is not None else ""
        if name is None or name.type not in ("operator_name", "field_identifier") or said in methods:
            return None
        if re.search(r"\bvirtual\b|\bdecltype\b|->", unit.text(node).split("{")[0]):
            return None
        methods[said] = node
    return (tuple(fields), methods) if fields else None


def _fields(unit: Unit, node: Node) -> list[Field]:
    """`const float *a, *b;`; empty where a member is more than a number or a pointer to numbers."""
    declarators = node.children_by_field_name("declarator")
    kind = node.child_by_field_name("type")
    others = [c for c in node.named_children if c not in declarators and c != kind and c.type != "type_qualifier"]
    if not declarators or kind is None or kind.type not in ("primitive_type", "sized_type_specifier", "type_identifier") or others:
        return []
    text = unit.code[node.start_byte : declarators[0].start_byte].decode().strip()
    if re.search(r"\b(?:static|mutable|volatile)\b", text):
        return []
    found = []
    for declarator in declarators:
        name = declarator
        while name.type == "pointer_declarator" and name.named_children:
            name = name.named_children[-1]
        if name.type != "field_identifier":
            return []
        found.append(Field(text, unit.code[declarator.start_byte : name.start_byte].decode(), unit.text(name)))
    return found


def uses(unit: Unit, view: View) -> Iterator[Node]:
    """Mentions of objects of the struct, outside of it."""
    for node in walk(unit.root):
        if node.type == "identifier" and not contains(view.node, node):
            declaration = unit.declaration(node)
            if declaration is not None and declaration.type == view.name and not contains(declaration.node, node):
                yield node
