"""What a C++ source keeps between calls, takes from elsewhere, or runs outside of them. Pure; used by
`tools.screen.screen`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tools.languages.cpp_signature import expand_macros
from tools.languages.cpp_source import CppSource, node_text, tokens, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_KEPT = (
    "lives across calls and can be written; take scratch from the stack or the heap inside the call, make "
    "tables constexpr"
)
_DYNAMIC = "is initialised by code that runs outside of the call; make it constexpr or move it into the function"
_FOREIGN = "is declared but not defined here; include the header that declares it, or define it"
_UNREADABLE = "holds a storage class where the text cannot be parsed; write the declaration out without macros"
_SCOPES = (
    "namespace_definition",
    "linkage_specification",
    "declaration_list",
    "template_declaration",
    "translation_unit",
)
_NAMES = (
    "identifier",
    "qualified_identifier",
    "field_identifier",
    "template_function",
    "operator_name",
    "destructor_name",
)


def faults(source: str, language: str = "cpp") -> Iterator[tuple[int, str, str]]:
    """(line, quoted text, reason) of each variable with static storage that is not constant, and each function from
    elsewhere."""
    nodes = list(walk(CppSource(expand_macros(source), language).root))
    yield from _imports(nodes)
    classes = {
        node_text(name)
        for node in nodes
        if node.type in ("struct_specifier", "class_specifier") and (name := _body_name(node))
    }
    for node in nodes:
        words = _words(node)
        if language == "cuda" and _of_device(node):
            continue
        kept = node.type == "declaration" and (
            _at_namespace_scope(node) or bool(words & {"static", "thread_local", "extern", "__thread"})
        )
        if kept or (node.type == "field_declaration" and words & {"static", "mutable"}):
            yield from _variable(node, classes)
        elif node.type == "ERROR" and not {"static", "thread_local"}.isdisjoint(tokens(node)):
            yield node.start_point[0] + 1, "", _UNREADABLE


def _of_device(node: Node) -> bool:
    """A declaration whose storage ends with the block, or that device code cannot write: tables without a copy to
    them."""
    head = re.split(r"[=;(\[]", node_text(node))[0] if node.type == "declaration" else ""
    filled = any(declarator.type == "init_declarator" for declarator in node.children_by_field_name("declarator"))
    return "__shared__" in node_text(node).split("=")[0] or ("__constant__" in head and filled)


def _at_namespace_scope(node: Node) -> bool:
    return node.parent is not None and node.parent.type in _SCOPES


def _words(node: Node) -> set[str]:
    return {node_text(c) for c in node.children if c.type in ("storage_class_specifier", "type_qualifier")}


def _body_name(node: Node) -> Node | None:
    """The name of a class that is defined (not only named) at `node`."""
    return node.child_by_field_name("name") if node.child_by_field_name("body") is not None else None


def _variable(node: Node, classes: set[str]) -> Iterator[tuple[int, str, str]]:
    words = _words(node)
    for declarator in node.children_by_field_name("declarator"):
        if _is_function(declarator):
            continue
        quote = " ".join(node_text(node).split())[:80]
        line = declarator.start_point[0] + 1
        if "constexpr" in words:
            continue
        if not _constant(declarator, words) or words & {"extern", "thread_local", "__thread", "mutable"}:
            yield line, quote, _KEPT
        elif _runs_code(node, declarator, classes):
            yield line, quote, _DYNAMIC


def _is_function(declarator: Node | None) -> bool:
    """A function's declaration, possibly behind pointers of its result; not a pointer to a function."""
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.child_by_field_name("declarator") or (
            declarator.children[-1] if declarator.children else None
        )
    if declarator is None or declarator.type != "function_declarator":
        return False
    inner = declarator.child_by_field_name("declarator")
    return inner is not None and inner.type in _NAMES


def _constant(declarator: Node, words: set[str]) -> bool:
    """Whether the object itself is const: for a pointer, the const behind the star counts."""
    node: Node | None = declarator
    while node is not None and node.type in ("init_declarator", "array_declarator", "parenthesized_declarator"):
        node = node.child_by_field_name("declarator") or next((c for c in node.children if c.is_named), None)
    if node is not None and node.type == "pointer_declarator":
        return any(c.type == "type_qualifier" and node_text(c) in ("const", "constexpr") for c in node.children)
    return "const" in words


def _runs_code(node: Node, declarator: Node, classes: set[str]) -> bool:
    kind = node.child_by_field_name("type")
    name = node_text(kind) if kind is not None else ""
    # Classes may construct themselves; plain types, their aliases and std::array are filled by the compiler.
    if name in classes or ("<" in name and not name.removeprefix("std::").startswith("array")):
        return True
    value = declarator.child_by_field_name("value")
    if value is None:
        return False
    return value.type == "argument_list" or any(
        n.type in ("call_expression", "lambda_expression", "new_expression") for n in walk(value)
    )


def _imports(nodes: list[Node]) -> Iterator[tuple[int, str, str]]:
    """Functions declared and used without a definition: they would come from a library behind the screen's back."""
    defined = {
        _function_name(node.child_by_field_name("declarator")) for node in nodes if node.type == "function_definition"
    }
    for node in nodes:
        if node.type != "declaration" or not _at_namespace_scope(node):
            continue
        for declarator in node.children_by_field_name("declarator"):
            if _is_function(declarator) and _function_name(declarator) not in defined:
                yield declarator.start_point[0] + 1, " ".join(node_text(node).split())[:80], _FOREIGN


def _function_name(declarator: Node | None) -> str:
    while declarator is not None and declarator.type not in _NAMES:
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in reversed(declarator.children) if c.is_named), None
        )
    return node_text(declarator).rpartition("::")[2] if declarator is not None else ""
