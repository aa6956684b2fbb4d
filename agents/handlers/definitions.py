"""What a source defines: functions and templates of them with their text and the namespaces around them. C++ and
Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agents.text.source import is_python
from tools.languages.cpp_source import CUDA_GRAMMAR_LANGUAGES, CppSource, walk

if TYPE_CHECKING:
    from tree_sitter import Node

KINDS = {"function_definition": "function", "template_instantiation": "instantiation"}
"""Type of a node -> kind of the definition."""


class Definition(NamedTuple):
    """One function that a source defines at the top or in a namespace; offsets are bytes for C++, characters for
    Python."""

    name: str
    namespaces: tuple[str, ...]
    """Outermost first; "" for one without a name."""
    text: str
    """Whole: with template head, extern "C", decorators."""
    start: int
    end: int
    kind: str
    """function | instantiation."""
    template: bool = False


def definitions(source: str, language: str) -> tuple[Definition, ...]:
    """In the order of the text; empty where Python does not parse."""
    if is_python(language):
        return tuple(_python(source))
    unit = CppSource(source, "cuda" if language in CUDA_GRAMMAR_LANGUAGES else "cpp")
    return tuple(_defined(unit.root, (), unit))


def _defined(node: Node, namespaces: tuple[str, ...], unit: CppSource) -> Iterator[Definition]:
    for child in node.named_children:
        if child.type == "namespace_definition":
            name = child.child_by_field_name("name")
            body = child.child_by_field_name("body")
            inner = tuple(unit.text(name).replace(" ", "").split("::")) if name is not None else ("",)
            if body is not None:
                yield from _defined(body, (*namespaces, *inner), unit)
        elif child.type == "linkage_specification" and (body := child.child_by_field_name("body")) is not None:
            if body.type == "declaration_list":
                yield from _defined(body, namespaces, unit)
            else:
                yield from _definition(child, body, namespaces, unit)
        elif child.type.startswith("preproc_"):
            yield from _defined(child, namespaces, unit)
        else:
            yield from _definition(child, child, namespaces, unit)


def _definition(outer: Node, node: Node, namespaces: tuple[str, ...], unit: CppSource) -> Iterator[Definition]:
    """What `node` defines, if it is one of these; `outer` is all of its text."""
    template = node.type == "template_declaration"
    if template:
        node = next((n for n in node.named_children if n.type == "function_definition"), node)
    name = _name(node, unit) if node.type in KINDS else None
    if name:
        yield Definition(
            name, namespaces, unit.text(outer), outer.start_byte, outer.end_byte, KINDS[node.type], template
        )


def _name(node: Node, unit: CppSource) -> str | None:
    declarator = next((n for n in walk(node) if n.type == "function_declarator"), None)
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    while name is not None and name.type in ("qualified_identifier", "template_function"):
        name = name.child_by_field_name("name")
    return unit.text(name) if name is not None and name.type == "identifier" else None


def _python(source: str) -> Iterator[Definition]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = source.splitlines(keepends=True)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            start, end = sum(map(len, lines[: first - 1])), sum(map(len, lines[: node.end_lineno]))
            yield Definition(node.name, (), source[start:end].rstrip("\n"), start, end, "function")
