"""C++ source parsed by tree-sitter: functions, calls and assignments by name, with byte-accurate edits.

Only the concrete syntax tree is used; nothing is preprocessed or type-checked, so callers must treat what has no name
as unknown. Offsets are bytes of the UTF-8 text.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

ENTRY = "solve"
CUDA_GRAMMAR_LANGUAGES = ("cuda", "cutlass")
"""Kernel languages that are parsed with the grammar of CUDA."""
MUTATING_FUNCTIONS = frozenset({"swap", "exchange", "tie", "iter_swap"})
"""Functions of the standard library that write to their arguments."""
_KERNEL_ATTRIBUTE = re.compile(rb"__(?:cluster_dims|block_size|maxnreg)__\s*\([^()]*\)")
"""Attributes of a kernel that the grammar of CUDA does not know."""
OPAQUE_NODE_TYPES = frozenset({"lambda_expression", "template_declaration", "class_specifier", "struct_specifier"})


@dataclass(frozen=True)
class CppEdit:
    """Replaces the bytes [start, end) of a source by `text`."""

    start: int
    end: int
    text: str


class CppSource:
    """One parsed source file."""

    def __init__(self, source: str, grammar: str = "cpp") -> None:
        """Parse `source` with the grammar "cpp" or "cuda"; the latter also parses kernel launches."""
        import tree_sitter

        self.source = source
        self.code = source.encode()
        parsed_code = (
            self.code if grammar == "cpp" else _KERNEL_ATTRIBUTE.sub(lambda match: b" " * len(match[0]), self.code)
        )
        self.root = tree_sitter.Parser(_load_grammar(grammar)).parse(parsed_code).root_node
        # The tree never changes, and callers ask for the written names of the same nodes repeatedly.
        self._assigned: dict[int, tuple[str, ...]] = {}

    @property
    def has_syntax_errors(self) -> bool:
        """Whether a part of the source does not parse."""
        return self.root.has_error

    def text(self, node: Node) -> str:
        """Return the source text of a node."""
        return self.code[node.start_byte : node.end_byte].decode()

    def apply(self, edits: Iterable[CppEdit]) -> str:
        """Return the source with `edits` applied, which must not overlap."""
        code = self.code
        for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
            code = code[: edit.start] + edit.text.encode() + code[edit.end :]
        return code.decode()

    def indent(self, node: Node) -> str:
        """Return the white space at the start of the node's line."""
        start = self.code.rfind(b"\n", 0, node.start_byte) + 1
        line = self.code[start : node.start_byte]
        return line[: len(line) - len(line.lstrip())].decode()

    @cached_property
    def functions(self) -> dict[str, Node]:
        """Free functions with a body by name, without templates, members and overloaded functions."""
        nodes_by_name: dict[str, list[Node]] = {}
        for node in walk(self.root, skip=OPAQUE_NODE_TYPES):
            if node.type == "function_definition" and (name := self.function_name(node)):
                nodes_by_name.setdefault(name, []).append(node)
        return {name: nodes[0] for name, nodes in nodes_by_name.items() if len(nodes) == 1}

    @cached_property
    def declared_names(self) -> frozenset[str]:
        """Names that the file declares and that may be called: functions of any kind, and variables, which may hold a
        lambda."""
        return frozenset(
            self.text(n)
            for n in walk(self.root)
            if n.type == "identifier" and n.parent is not None and is_declared_name(n)
        )

    def is_library_call(self, call: Node) -> bool:
        """Return whether a call is to the standard library or a helper of a recipe, and not to a function that the
        file declares under the same name."""
        function = call.child_by_field_name("function")
        name = self.text(function) if function is not None else ""
        return (
            function is None
            or function.type != "identifier"
            or name.startswith("kw_")
            or name not in self.declared_names
        )

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Alias -> type, from `typedef float real;`, `using real = float;` and `#define REAL float`; an alias with two
        meanings is left out."""
        type_by_alias: dict[str, str] = {}
        ambiguous: set[str] = set()
        for node in walk(self.root):
            if node.type == "type_definition":
                pair = node.child_by_field_name("declarator"), node.child_by_field_name("type")
            elif node.type == "alias_declaration":
                pair = node.child_by_field_name("name"), node.child_by_field_name("type")
            elif node.type == "preproc_def":
                pair = node.child_by_field_name("name"), node.child_by_field_name("value")
            else:
                continue
            if pair[0] is not None and pair[1] is not None and pair[0].type in ("type_identifier", "identifier"):
                name, text = self.text(pair[0]), self.text(pair[1]).strip()
                ambiguous |= {name} if type_by_alias.setdefault(name, text) != text else set()
        return {name: text for name, text in type_by_alias.items() if name not in ambiguous}

    def function_name(self, node: Node) -> str | None:
        """Return the name of a function definition, or None if it is not a plain name."""
        declarator = node.child_by_field_name("declarator")
        while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
            declarator = declarator.child_by_field_name("declarator")
        name = (
            declarator.child_by_field_name("declarator")
            if declarator is not None and declarator.type == "function_declarator"
            else None
        )
        return self.text(name) if name is not None and name.type == "identifier" else None

    @cached_property
    def reachable_functions(self) -> tuple[Node, ...]:
        """`solve` and the functions of this file that it calls directly or indirectly; empty without a `solve`."""
        reached: dict[str, Node] = {}
        pending = [ENTRY]
        while pending:
            name = pending.pop()
            if name in reached or name not in self.functions:
                continue
            reached[name] = self.functions[name]
            pending.extend(
                callee
                for call in walk(reached[name])
                if call.type == "call_expression" and (callee := self.called_function(call))
            )
        return tuple(reached.values())

    def called_function(self, call: Node) -> str | None:
        """Return the name of the called function without `std::` and `::`; None if it is not a plain name."""
        function = call.child_by_field_name("function")
        if function is None or function.type not in ("identifier", "qualified_identifier"):
            return None
        return self.text(function).replace(" ", "").removeprefix("::").removeprefix("std::").removeprefix("__builtin_")

    def arguments(self, call: Node) -> list[Node]:
        """Return the arguments of a call, without comments."""
        arguments = call.child_by_field_name("arguments")
        return [a for a in arguments.named_children if a.type != "comment"] if arguments is not None else []

    def split_binary(self, node: Node) -> tuple[str, Node, Node]:
        """Return operator, left and right side of a binary or assignment expression."""
        operator, left, right = (node.child_by_field_name(f) for f in ("operator", "left", "right"))
        assert left is not None and right is not None
        return self.text(operator) if operator is not None else "=", left, right

    def written_names(self, node: Node) -> tuple[str, ...]:
        """Return the plain names that are written (not declared) inside `node`, once per write.

        `&name` counts as a write, and so does a name that is passed to a function by a mutable reference. A write to a
        C++ reference is a write to its target as well.
        """
        if node.id not in self._assigned:
            self._assigned[node.id] = tuple(self._find_written_names(node))
        return self._assigned[node.id]

    def _find_written_names(self, node: Node) -> Iterator[str]:
        for descendant in walk(node):
            target: Node | None = None
            if descendant.type == "assignment_expression":
                target = descendant.child_by_field_name("left")
            elif descendant.type == "update_expression" or (
                descendant.type == "pointer_expression" and self.text(descendant).startswith("&")
            ):
                target = descendant.child_by_field_name("argument")
            elif descendant.type == "call_expression":
                callee = (self.called_function(descendant) or "").rpartition("::")[2]
                mutated = self._mutable_reference_positions.get(callee, frozenset())
                for position, argument in enumerate(self.arguments(descendant)):
                    if argument.type == "identifier" and (callee in MUTATING_FUNCTIONS or position in mutated):
                        yield self.text(argument)
                        yield from self._reference_targets.get(self.text(argument), ())
            if target is not None and (target := strip_parentheses(target)).type == "identifier":
                yield self.text(target)
                yield from self._reference_targets.get(self.text(target), ())

    @cached_property
    def _mutable_reference_positions(self) -> dict[str, frozenset[int]]:
        """Function, template or named lambda of the file -> positions of its parameters that are mutable references."""
        positions_by_name: dict[str, set[int]] = {}
        for node in walk(self.root):
            if node.type == "function_definition":
                declarator = function_declarator(node)
                name = declarator.child_by_field_name("declarator") if declarator is not None else None
            elif (
                node.type == "init_declarator"
                and (value := node.child_by_field_name("value"))
                and value.type == "lambda_expression"
            ):
                name, declarator = node.child_by_field_name("declarator"), value.child_by_field_name("declarator")
            else:
                continue
            parameter_list = declarator.child_by_field_name("parameters") if declarator is not None else None
            if name is None or parameter_list is None:
                continue
            parameters = [n for n in parameter_list.named_children if n.type.endswith("parameter_declaration")]
            positions = {
                i for i, n in enumerate(parameters) if "&" in self.text(n) and not re.search(r"\bconst\b", self.text(n))
            }
            positions_by_name.setdefault(self.text(name).rpartition("::")[2], set()).update(positions)
        return {name: frozenset(positions) for name, positions in positions_by_name.items()}

    @cached_property
    def _reference_targets(self) -> dict[str, tuple[str, ...]]:
        """C++ reference that the file declares -> the plain names that it refers to."""
        targets: dict[str, tuple[str, ...]] = {}
        for node in walk(self.root):
            if node.type != "init_declarator":
                continue
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if (
                name is not None
                and value is not None
                and name.type == "reference_declarator"
                and value.type == "identifier"
            ):
                reference_name = name.named_children[0] if name.named_children else name
                targets[self.text(reference_name)] = (*targets.get(self.text(reference_name), ()), self.text(value))
        return targets

    def enclosing_function(self, node: Node) -> Node:
        """Return the function definition around `node`, or the root if there is none."""
        while node.type != "function_definition" and node.parent is not None:
            node = node.parent
        return node


@lru_cache(maxsize=2)
def _load_grammar(grammar: str) -> Language:
    import tree_sitter

    return tree_sitter.Language(importlib.import_module(f"tree_sitter_{grammar}").language())


def walk(node: Node | None, skip: frozenset[str] = frozenset()) -> Iterator[Node]:
    """Iterate over `node` and all named nodes below it in document order, without subtrees of the types in `skip`."""
    if node is None:
        return iter(())
    return iter(_descendants(node)) if not skip else _without_types(_descendants(node), skip)


def _without_types(nodes: tuple[Node, ...], skip: frozenset[str]) -> Iterator[Node]:
    end = 0
    for node in nodes:
        if node.start_byte < end:
            continue
        if node.type in skip:
            end = node.end_byte
        else:
            yield node


@lru_cache(maxsize=4096)
def _descendants(node: Node) -> tuple[Node, ...]:
    """Return `node` and all named nodes below it; cached, because creating a node's Python object is the main cost."""
    nodes: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        nodes.append(current)
        stack.extend(reversed(current.named_children))
    return tuple(nodes)


def node_text(node: Node) -> str:
    """Return the source text of a node, without its `CppSource`."""
    return (node.text or b"").decode(errors="replace")


def tokens(node: Node) -> Iterator[str]:
    """Yield the texts of the leaves in order, without comments and attributes."""
    if node.type in ("comment", "attribute_specifier", "attribute_declaration"):
        return
    if not node.children and node.text:
        yield node_text(node)
    for child in node.children:
        yield from tokens(child)


def function_declarator(node: Node) -> Node | None:
    """Return the node that holds the name and parameters of a declared function, or None."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return declarator


def strip_parentheses(node: Node) -> Node:
    """Return the node inside enclosing parentheses."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def statements(body: Node) -> list[Node]:
    """Return the statements of a loop's or function's body, without comments and empty statements."""
    inner = body.named_children if body.type == "compound_statement" else [body]
    return [n for n in inner if n.type != "comment" and (n.type != "expression_statement" or n.named_child_count)]


def node_contains(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def single_statement(body: Node) -> Node | None:
    """Return the only statement of a body, or None if it has none or several."""
    inner = statements(body)
    return strip_parentheses(inner[0]) if len(inner) == 1 else None


def is_declared_name(name: Node) -> bool:
    """Return whether `name` is the declared name in a declaration, and not part of its value."""
    parent = name.parent
    if parent is None or parent.type == "for_range_loop" or parent.type == "lambda_capture_initializer":
        return parent is not None and name in (
            parent.child_by_field_name("declarator"),
            parent.child_by_field_name("left"),
        )
    declares = parent.type.endswith("_declarator") or parent.type in ("declaration", "parameter_declaration")
    return declares and parent.child_by_field_name("value") != name


def library_function_name(source: CppSource, call: Node) -> str:
    """Return the called name without template arguments and `std::`, or "" for a function that the file declares."""
    function = call.child_by_field_name("function") if source.is_library_call(call) else None
    return (
        source.text(function).split("<")[0].removeprefix("::").removeprefix("std::").removeprefix("__builtin_")
        if function is not None
        else ""
    )


def pragma_before(node: Node) -> Node | None:
    """Return the #pragma directly before a statement, or None."""
    previous = node.prev_named_sibling
    return previous if previous is not None and previous.type == "preproc_call" else None


def unused_name(source: CppSource, stem: str) -> str:
    """Return `stem` with the first number that makes it a name that the source does not contain."""
    number = 1
    while f"{stem}_{number}" in source.source:
        number += 1
    return f"{stem}_{number}"
