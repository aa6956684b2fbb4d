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
_NOT_DEFINED_HERE = (
    "is declared but not defined here; include the header that declares it or define the function; a variable gets its "
    "value behind `=`"
)
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

_CASTS = ("static_cast", "const_cast", "reinterpret_cast", "dynamic_cast")
"""Keywords that begin an expression, which the grammar reads as the type of a parameter."""
_INDIRECTION_NODES = frozenset(
    f"{prefix}{kind}_declarator" for prefix in ("", "abstract_") for kind in ("pointer", "reference", "array")
)
_TYPE_NAMING_NODES = (
    *("type_definition", "alias_declaration", "using_declaration", "struct_specifier", "class_specifier"),
    *("enum_specifier", "union_specifier", "type_parameter_declaration", "optional_type_parameter_declaration"),
)
_INNER_SCOPE_NODES = frozenset(
    {"compound_statement", "field_declaration_list", "function_definition", "lambda_expression", "parameter_list"}
    | {"template_declaration", "namespace_definition", "for_statement", "for_range_loop", "if_statement"}
    | {"while_statement", "switch_statement", "try_statement", "catch_clause"}
)
"""What has names of its own, which the code around it does not see."""


def screen_static_state(source: str, language: str = "cpp") -> Iterator[Refusal]:
    """Yield a refusal for each variable with static storage that is not constant and each function without a
    definition."""
    nodes = list(walk(CppSource(expand_macros(source), language).root))
    yield from _screen_undefined_functions(nodes, source)
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
        declarator = _inner_declarator(declarator)
    if declarator is None or declarator.type != "function_declarator":
        return False
    inner = declarator.child_by_field_name("declarator")
    while inner is not None and inner.type == "parenthesized_declarator":
        inner = _inner_declarator(inner)
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


def _screen_undefined_functions(nodes: list[Node], source: str) -> Iterator[Refusal]:
    """Refuse functions that are declared at any scope without a definition: the linker would take them from a library,
    which the screen does not see."""
    branches = list(_conditional_branches(source))
    defined: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
    for node in nodes:
        if node.type == "function_definition":
            defined.setdefault(_identity(node, node.child_by_field_name("declarator")), []).append(
                branches[node.start_point[0]]
            )
    for node in nodes:
        if node.type not in ("declaration", "field_declaration") or node.child_by_field_name("default_value"):
            continue
        for declarator in node.children_by_field_name("declarator"):
            if not _declares_function(declarator) or _takes_variable(node, declarator):
                continue
            branch = branches[node.start_point[0]]
            if not any(branch[: len(one)] == one for one in defined.get(_identity(node, declarator), ())):
                yield Refusal(declarator.start_point[0] + 1, " ".join(node_text(node).split())[:80], _NOT_DEFINED_HERE)


def _conditional_branches(source: str) -> Iterator[tuple[int, ...]]:
    """Yield for each line the branches of `#if` around it, from the outside in; a function may be missing from code
    outside of its own branch."""
    stack: list[int] = []
    for number, line in enumerate(source.splitlines()):
        word = re.match(r"\s*#\s*(if|el|endif)", line)
        if word and word[1] != "if" and stack:
            stack.pop()
        if word and word[1] != "endif":
            stack.append(number)
        yield tuple(stack)


def _identity(node: Node, declarator: Node | None) -> tuple[object, ...]:
    """What tells functions apart: scope and name, whether it is a template, and the types of its parameters.

    What a block or a friend declares belongs to the namespace around it.
    """
    local = node.parent is not None and node.parent.type in ("compound_statement", "friend_declaration")
    kinds = ("namespace_definition",) if local else ("namespace_definition", "struct_specifier", "class_specifier")
    around = [_field_text(n, "name") for n in _ancestors(node) if n.type in kinds]
    written = _function_name(declarator)
    name = re.sub(r"<[^<>]*>", "", "::".join([*reversed(around), written]))
    is_template = "::" not in written and node.parent is not None and node.parent.type == "template_declaration"
    parameters = tuple(
        (_field_text(p, "type"), sum(n.type in _INDIRECTION_NODES for n in walk(p))) for p in _parameters(declarator)
    )
    return name, is_template, () if parameters == (("void", 0),) else parameters


def _parameters(declarator: Node | None) -> list[Node]:
    while declarator is not None and not declarator.type.endswith("function_declarator"):
        declarator = _inner_declarator(declarator)
    found = declarator.child_by_field_name("parameters") if declarator is not None else None
    return [n for n in found.named_children if n.type != "comment"] if found is not None else []


def _takes_variable(node: Node, declarator: Node) -> bool:
    """Whether a parameter names a variable or calls a function, so that the declaration is a variable with its initial
    value, which the grammar cannot tell from a function."""
    for parameter in _parameters(declarator):
        kind, shape = (parameter.child_by_field_name(name) for name in ("type", "declarator"))
        if kind is None:
            continue
        if shape is None or shape.type != "abstract_function_declarator":
            found = kind.type == "type_identifier" and _is_variable(node_text(kind), node)
        else:
            # `T(n)` declares a parameter `n` if T is a type; of two names in brackets, none may be a variable then.
            arguments = _parameters(shape)
            is_cast = node_text(kind).partition("<")[0].strip() in _CASTS
            called = is_cast or (
                kind.type == "type_identifier" and _is_variable(node_text(kind), node, "function_definition")
            )
            found = called or (len(arguments) > 1 and _takes_variable(node, shape))
        if found:
            return True
    return False


def _is_variable(name: str, place: Node, *more: str) -> bool:
    """Whether the innermost declaration of `name` around `place` is of a variable, or of a kind in `more`."""
    for scope in _ancestors(place):
        inside = [n for n in _nodes_of_scope(scope) if n.start_byte < place.start_byte]
        if any(n.type in _TYPE_NAMING_NODES and name in tokens(_named_part(n)) for n in inside):
            return False
        if any(
            n.type in ("identifier", "field_identifier") and node_text(n) == name and _names_variable(n) for n in inside
        ):
            return True
        if any(n.type in more and _function_name(n.child_by_field_name("declarator")) == name for n in inside):
            return True
    return False


def _nodes_of_scope(scope: Node) -> Iterator[Node]:
    """Yield the nodes of a scope without those of the scopes inside it."""
    children = scope.named_children
    if scope.type in ("function_definition", "lambda_expression"):
        children = [*children, *_parameters(scope.child_by_field_name("declarator"))]
    for child in children:
        if child.type == "function_definition":
            yield child
        yield from walk(child, skip=_INNER_SCOPE_NODES)


def _named_part(node: Node) -> Node:
    return (node.child_by_field_name("name") or node.children[0]) if node.type.endswith("specifier") else node


def _names_variable(name: Node) -> bool:
    """Whether an identifier is the one that its declaration introduces."""
    above = name.parent
    if above is None or above.type in ("enumerator", "structured_binding_declarator"):
        return above is not None
    if above.type == "function_declarator":
        declaration = next(n for n in _ancestors(above) if not n.type.endswith("_declarator"))
        return _takes_variable(declaration, above)
    return above.type == "reference_declarator" or name in (
        above.child_by_field_name("declarator"),
        above.child_by_field_name("left") if above.type == "lambda_capture_initializer" else None,
    )


def _field_text(node: Node, name: str) -> str:
    found = node.child_by_field_name(name)
    return node_text(found) if found is not None else ""


def _ancestors(node: Node) -> Iterator[Node]:
    while (above := node.parent) is not None:
        yield above
        node = above


def _inner_declarator(declarator: Node) -> Node | None:
    return declarator.child_by_field_name("declarator") or next(
        (c for c in reversed(declarator.children) if c.is_named), None
    )


def _function_name(declarator: Node | None) -> str:
    """The name as written, such as `S::f`."""
    while declarator is not None and declarator.type not in _NAME_NODES:
        declarator = _inner_declarator(declarator)
    return node_text(declarator) if declarator is not None else ""
