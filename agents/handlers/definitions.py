"""What a source defines: functions, templates and types with their text and the namespaces around them. C++ and Python."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from agents.text.source import is_python
from tools.languages.cpp_source import CppSource, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_TYPES = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")


class Definition(NamedTuple):
    """One thing that a source defines at the top or in a namespace; offsets are bytes for C++, characters for Python."""

    name: str
    namespaces: tuple[str, ...]
    """Outermost first; "" for one without a name."""
    text: str
    """Whole: with template head, extern "C", decorators."""
    start: int
    end: int
    kind: str
    """function | type | instantiation."""
    template: bool = False


def definitions(source: str, language: str) -> tuple[Definition, ...]:
    """In the order of the text; empty where Python does not parse."""
    return _python(source) if is_python(language) else tuple(_cpp(CppSource(source)))


def called(text: str) -> frozenset[str]:
    """Last parts of the names that C++ text calls."""
    unit = CppSource(text)
    calls = (node for node in walk(unit.root) if node.type == "call_expression")
    return frozenset(name for node in calls if (name := _callee(node.child_by_field_name("function"), unit)))


def _callee(node: Node | None, unit: CppSource) -> str | None:
    while node is not None and node.type in ("qualified_identifier", "template_function"):
        node = node.child_by_field_name("name")
    return unit.text(node) if node is not None and node.type == "identifier" else None


def _cpp(unit: CppSource) -> list[Definition]:
    found: list[Definition] = []
    _collect(unit.root, (), unit, found)
    return found


def _collect(node: Node, namespaces: tuple[str, ...], unit: CppSource, found: list[Definition]) -> None:
    for child in node.named_children:
        if child.type == "namespace_definition":
            name = child.child_by_field_name("name")
            body = child.child_by_field_name("body")
            inner = tuple(unit.text(name).replace(" ", "").split("::")) if name is not None else ("",)
            if body is not None:
                _collect(body, (*namespaces, *inner), unit, found)
        elif child.type == "linkage_specification" and (body := child.child_by_field_name("body")) is not None:
            if body.type == "declaration_list":
                _collect(body, namespaces, unit, found)
            else:
                _add(child, body, namespaces, unit, found)
        elif child.type.startswith("preproc_"):
            _collect(child, namespaces, unit, found)
        else:
            _add(child, child, namespaces, unit, found)


def _add(outer: Node, node: Node, namespaces: tuple[str, ...], unit: CppSource, found: list[Definition]) -> None:
    """Take `node` down where it defines something; `outer` is all of its text."""
    template = node.type == "template_declaration"
    if template:
        node = next((n for n in node.named_children if n.type in ("function_definition", *_TYPES)), node)
    kind = {"function_definition": "function", "template_instantiation": "instantiation"}.get(
        node.type, "type" if node.type in _TYPES else ""
    )
    name = _name(node, unit) if kind else None
    if name and (kind != "type" or node.child_by_field_name("body") is not None):
        end = outer.end_byte
        if kind == "type" and unit.code[end : end + 1] == b";":
            end += 1
        text = unit.code[outer.start_byte : end].decode()
        found.append(Definition(name, namespaces, text, outer.start_byte, end, kind, template))


def _name(node: Node, unit: CppSource) -> str | None:
    if node.type in _TYPES:
        name = node.child_by_field_name("name")
        return unit.text(name) if name is not None and name.type == "type_identifier" else None
    declarator = next((n for n in walk(node) if n.type == "function_declarator"), None)
    return _callee(declarator.child_by_field_name("declarator"), unit) if declarator is not None else None


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _python(source: str) -> tuple[Definition, ...]:
    tree = _parsed(source)
    if tree is None:
        return ()
    lines = source.splitlines(keepends=True)
    found = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            start, end = sum(map(len, lines[: first - 1])), sum(map(len, lines[: node.end_lineno]))
            kind = "function" if isinstance(node, ast.FunctionDef) else "type"
            found.append(Definition(node.name, (), source[start:end].rstrip("\n"), start, end, kind))
    return tuple(found)
