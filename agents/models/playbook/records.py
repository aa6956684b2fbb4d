"""Small structs of numbers (a point, a complex number) and the functions that take them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.playbook.syntax import ENTRY, Unit
from agents.models.playbook.tree import statements, walk

if TYPE_CHECKING:
    from tree_sitter import Node

NUMBERS = frozenset({"float", "double", "int", "long", "bool", "unsigned", "char", "short"})
SPECIFIERS = frozenset({"static", "inline", "constexpr"})
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:__)?(?:always_)?inline(?:__)?\)\)|\[\[nodiscard\]\]")


class NotUnderstood(Exception):
    """One use of a struct is of a kind that is not taken apart, so that nothing of it is."""


@dataclass(frozen=True)
class Record:
    """A struct of numbers."""

    name: str
    node: Node
    fields: dict[str, str]
    """Member -> its type."""

    @property
    def element(self) -> str:
        """The one type of all members: then a row of structs lies in memory like a row of numbers."""
        kinds = set(self.fields.values())
        if len(kinds) != 1:
            raise NotUnderstood
        return kinds.pop()


@dataclass(frozen=True)
class Parameter:
    """Of a function that is put in at its calls."""

    name: str
    symbol: str
    type: str
    reference: bool
    written: bool
    """A reference through which the function may write."""


@dataclass(frozen=True)
class Function:
    """A function with the struct in its signature."""

    name: str
    node: Node
    parameters: tuple[Parameter, ...]
    result: str
    reference: bool
    body: Sequence[Node]


def records(unit: Unit) -> Iterator[Record]:
    for node in walk(unit.root):
        body, name, whole = node.child_by_field_name("body"), node.child_by_field_name("name"), node
        if node.type != "struct_specifier" or body is None or node.parent is None:
            continue
        if node.parent.type == "type_definition":
            declarators = node.parent.children_by_field_name("declarator")
            name, whole = (declarators[0], node.parent) if name is None and len(declarators) == 1 else (None, node)
        outside = whole.parent is not None and whole.parent.type in ("translation_unit", "declaration_list")
        plain = {c.type for c in node.named_children} <= {"type_identifier", "field_declaration_list"}
        if name is None or name.type != "type_identifier" or not outside or not plain or unit.text(name) in unit.aliases.values():
            continue
        fields = fields_of(unit, body)
        if fields and named_once(unit, unit.text(name)):
            yield Record(unit.text(name), whole, fields)


def named_once(unit: Unit, name: str) -> bool:
    """Whether the file gives this name to one type."""
    return sum(_names(unit, n, name) for n in walk(unit.root)) == 1


def _names(unit: Unit, node: Node, name: str) -> bool:
    """Gives this name to a type."""
    parent = node.parent
    if node.type != "type_identifier" or unit.text(node) != name or parent is None:
        return False
    if parent.type == "type_definition":
        return node in parent.children_by_field_name("declarator")
    return parent.type.endswith(("_specifier", "alias_declaration", "type_parameter_declaration")) and node in parent.named_children


def fields_of(unit: Unit, body: Node, beside: Collection[str] = ()) -> dict[str, str]:
    """Member -> type, of a struct that has nothing else but what is of the types `beside`; empty where a member is more than a number."""
    found: dict[str, str] = {}
    for node in body.named_children:
        if node.type == "comment" or node.type in beside:
            continue
        names, kind = node.children_by_field_name("declarator"), node.child_by_field_name("type")
        known = kind is not None and node.type == "field_declaration" and is_number(unit, unit.text(kind))
        if not known or kind is None or not names or node.named_child_count != len(names) + 1 or kind != node.children[0]:
            return {}
        if any(n.type != "field_identifier" or unit.text(n) in found for n in names):
            return {}
        found |= {unit.text(n): unit.text(kind) for n in names}
    return found


def is_number(unit: Unit, kind: str) -> bool:
    return unit.aliases.get(kind, kind) in NUMBERS


def functions_of(unit: Unit, record: Record) -> list[Function]:
    """All functions with the struct in their signature; NotUnderstood where one is of another kind."""
    found = []
    for node in walk(unit.root):
        body, declarator = node.child_by_field_name("body"), node.child_by_field_name("declarator")
        if node.type != "function_definition" or declarator is None:
            continue
        values = [n for n in node.named_children if n != body]
        mentions = any(n.type == "type_identifier" and unit.text(n) == record.name for v in values for n in walk(v))
        if mentions and not _pointers_only(unit, record, node):
            found.append(_function(unit, record, node))
    return found


def _pointers_only(unit: Unit, record: Record, node: Node) -> bool:
    """A function that takes arrays of the struct and is kept."""
    kind = node.child_by_field_name("type")
    mine = [p for p in unit.parameters(node) if p.type == record.name]
    return kind is not None and unit.text(kind) != record.name and bool(mine) and all(p.form == "pointer" for p in mine)


def _function(unit: Unit, record: Record, node: Node) -> Function:
    kind, body, declarator = node.child_by_field_name("type"), node.child_by_field_name("body"), node.child_by_field_name("declarator")
    reference = declarator is not None and declarator.type == "reference_declarator"
    if reference and declarator is not None:
        declarator = declarator.named_children[0]
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    if kind is None or body is None or declarator is None or name is None or listed is None or node.parent is None:
        raise NotUnderstood
    before = ATTRIBUTE.sub(" ", unit.code[node.start_byte : declarator.start_byte].decode()).replace("&", " ").split()
    behind = {c.type for c in declarator.named_children if c not in (name, listed)}
    plain = name.type in ("identifier", "operator_name") and node.parent.type in ("translation_unit", "declaration_list")
    if not set(before) <= {*SPECIFIERS, unit.text(kind)} or not plain or not behind <= {"noexcept"} or unit.text(name) == ENTRY:
        raise NotUnderstood
    result = unit.text(kind)
    if result not in (record.name, "void") and not is_number(unit, result):
        raise NotUnderstood
    parameters = tuple(_parameter(unit, record, p) for p in listed.named_children if p.type != "comment")
    written = any(p.written for p in parameters)
    if reference and not written:
        raise NotUnderstood
    return Function(unit.text(name).replace(" ", ""), node, parameters, result, reference, statements(body))


def _parameter(unit: Unit, record: Record, node: Node) -> Parameter:
    kind, name = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    if node.type != "parameter_declaration" or kind is None or name is None:
        raise NotUnderstood
    reference = name.type == "reference_declarator"
    name = name.named_children[0] if reference else name
    constant = [c for c in node.named_children if c not in (kind, node.child_by_field_name("declarator"))]
    if name.type != "identifier" or any(unit.text(c) != "const" for c in constant):
        raise NotUnderstood
    text = unit.text(kind)
    if text != record.name and (not is_number(unit, text) or (reference and not constant)):
        raise NotUnderstood
    return Parameter(unit.text(name), f"{unit.text(name)}@{name.start_byte}", text, reference, reference and not constant)
