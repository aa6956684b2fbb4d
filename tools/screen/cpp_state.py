"""The screen for state in C++: variables that live across calls, code that runs at load time, functions that are not
defined in the source. Pure; used by `tools.screen.screen`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tools.languages.cpp_signature import expand_macros
from tools.languages.cpp_source import CppSource, node_text, tokens, walk
from tools.screen.refusals import Refusal

if TYPE_CHECKING:
    from tree_sitter import Node

_LIVES_ACROSS_CALLS = (
    "keeps state: it lives across calls and can be written; use a local variable for scratch memory and constexpr "
    "for a table"
)
_INITIALISED_BY_CODE = (
    "is initialised by code that runs outside the call; make it constexpr or move it into the function"
)
_NOT_DEFINED_HERE = "is declared but not defined here; include the header that declares it or define the function"
_UNPARSED_STORAGE_CLASS = "contains a storage class in code that cannot be parsed; write the declaration without macros"
_NAMESPACE_SCOPE_NODES = (
    "namespace_definition",
    "linkage_specification",
    "declaration_list",
    "template_declaration",
    "translation_unit",
)
_NAME_NODES = (
    "identifier",
    "qualified_identifier",
    "field_identifier",
    "template_function",
    "operator_name",
    "destructor_name",
)


def screen_static_state(source: str, language: str = "cpp") -> Iterator[Refusal]:
    """Yield a refusal for each variable with static storage that is not constant and each function without a
    definition."""
    nodes = list(walk(CppSource(expand_macros(source), language).root))
    yield from _screen_undefined_functions(nodes)
    classes = {
        node_text(name)
        for node in nodes
        if node.type in ("struct_specifier", "class_specifier") and (name := _defined_class_name(node))
    }
    for node in nodes:
        words = _storage_words(node)
        if language == "cuda" and _is_device_storage(node):
            continue
        is_static = node.type == "declaration" and (
            _is_at_namespace_scope(node) or bool(words & {"static", "thread_local", "extern", "__thread"})
        )
        if is_static or (node.type == "field_declaration" and words & {"static", "mutable"}):
            yield from _screen_variable(node, classes)
        elif node.type == "ERROR" and not {"static", "thread_local"}.isdisjoint(tokens(node)):
            yield Refusal(node.start_point[0] + 1, "", _UNPARSED_STORAGE_CLASS)


def _is_device_storage(node: Node) -> bool:
    """Whether the variable is block-local (`__shared__`) or a filled `__constant__` table, which no code writes."""
    head = re.split(r"[=;(\[]", node_text(node))[0] if node.type == "declaration" else ""
    is_filled = any(declarator.type == "init_declarator" for declarator in node.children_by_field_name("declarator"))
    return "__shared__" in node_text(node).split("=")[0] or ("__constant__" in head and is_filled)


def _is_at_namespace_scope(node: Node) -> bool:
    return node.parent is not None and node.parent.type in _NAMESPACE_SCOPE_NODES


def _storage_words(node: Node) -> set[str]:
    return {node_text(c) for c in node.children if c.type in ("storage_class_specifier", "type_qualifier")}


def _defined_class_name(node: Node) -> Node | None:
    """The name of the class that `node` defines; None where it only refers to one."""
    return node.child_by_field_name("name") if node.child_by_field_name("body") is not None else None


def _screen_variable(node: Node, classes: set[str]) -> Iterator[Refusal]:
    words = _storage_words(node)
    for declarator in node.children_by_field_name("declarator"):
        if _declares_function(declarator):
            continue
        quote = " ".join(node_text(node).split())[:80]
        line = declarator.start_point[0] + 1
        if "constexpr" in words:
            continue
        if not _is_constant(declarator, words) or words & {"extern", "thread_local", "__thread", "mutable"}:
            yield Refusal(line, quote, _LIVES_ACROSS_CALLS)
        elif _initialiser_runs_code(node, declarator, classes):
            yield Refusal(line, quote, _INITIALISED_BY_CODE)


def _declares_function(declarator: Node | None) -> bool:
    """Whether the declarator declares a function, not a pointer to a function; the result may be a pointer."""
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.child_by_field_name("declarator") or (
            declarator.children[-1] if declarator.children else None
        )
    if declarator is None or declarator.type != "function_declarator":
        return False
    inner = declarator.child_by_field_name("declarator")
    return inner is not None and inner.type in _NAME_NODES


def _is_constant(declarator: Node, words: set[str]) -> bool:
    """Whether the object itself is const; of a pointer, the const behind the star counts."""
    node: Node | None = declarator
    while node is not None and node.type in ("init_declarator", "array_declarator", "parenthesized_declarator"):
        node = node.child_by_field_name("declarator") or next((c for c in node.children if c.is_named), None)
    if node is not None and node.type == "pointer_declarator":
        return any(c.type == "type_qualifier" and node_text(c) in ("const", "constexpr") for c in node.children)
    return "const" in words


def _initialiser_runs_code(node: Node, declarator: Node, classes: set[str]) -> bool:
    """Whether the variable's initial value needs code at load time, such as a constructor or a call."""
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


def _screen_undefined_functions(nodes: list[Node]) -> Iterator[Refusal]:
    """Refuse functions that are declared without a definition: the linker would take them from a library, which the
    screen does not see."""
    defined = {
        _function_name(node.child_by_field_name("declarator")) for node in nodes if node.type == "function_definition"
    }
    for node in nodes:
        if node.type != "declaration" or not _is_at_namespace_scope(node):
            continue
        for declarator in node.children_by_field_name("declarator"):
            if _declares_function(declarator) and _function_name(declarator) not in defined:
                yield Refusal(declarator.start_point[0] + 1, " ".join(node_text(node).split())[:80], _NOT_DEFINED_HERE)


def _function_name(declarator: Node | None) -> str:
    while declarator is not None and declarator.type not in _NAME_NODES:
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in reversed(declarator.children) if c.is_named), None
        )
    return node_text(declarator).rpartition("::")[2] if declarator is not None else ""
