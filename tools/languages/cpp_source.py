"""C++ source as tree-sitter reads it: functions, calls and assignments by name, with byte-accurate edits.

Everything is read from the concrete syntax tree; nothing is preprocessed or type-checked, so whoever edits must treat
what cannot be named as unknown. Offsets are bytes of the UTF-8 text.
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
CUDA = ("cuda", "cutlass")
"""Languages that are read with CUDA's grammar."""
CHANGE_ALL = frozenset({"swap", "exchange", "tie", "iter_swap"})
"""Functions of the standard library that write to what they are given by name."""
_CLUSTER = re.compile(rb"__(?:cluster_dims|block_size|maxnreg)__\s*\([^()]*\)")
"""What CUDA's grammar does not know in front of a kernel's name."""
OPAQUE = frozenset({"lambda_expression", "template_declaration", "class_specifier", "struct_specifier"})


@dataclass(frozen=True)
class Edit:
    """Replace bytes [start, end) by `text`."""

    start: int
    end: int
    text: str


class CppSource:
    """One parsed source file."""

    def __init__(self, source: str, grammar: str = "cpp") -> None:
        """`grammar`: cpp, or cuda, which knows launches, too."""
        import tree_sitter

        self.source = source
        self.code = source.encode()
        read = self.code if grammar == "cpp" else _CLUSTER.sub(lambda found: b" " * len(found[0]), self.code)
        self.root = tree_sitter.Parser(_language(grammar)).parse(read).root_node
        # The tree never changes, and the same is asked of the same node again and again.
        self._assigned: dict[int, tuple[str, ...]] = {}

    @property
    def broken(self) -> bool:
        """The parser met something that it does not understand."""
        return self.root.has_error

    def text(self, node: Node) -> str:
        return self.code[node.start_byte : node.end_byte].decode()

    def apply(self, edits: Iterable[Edit]) -> str:
        """The source with `edits` (which must not overlap) carried out."""
        code = self.code
        for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
            code = code[: edit.start] + edit.text.encode() + code[edit.end :]
        return code.decode()

    def indent(self, node: Node) -> str:
        """White space that starts the node's line."""
        start = self.code.rfind(b"\n", 0, node.start_byte) + 1
        line = self.code[start : node.start_byte]
        return line[: len(line) - len(line.lstrip())].decode()

    @cached_property
    def functions(self) -> dict[str, Node]:
        """Free functions with a body, by name; templates and members are left alone, of overloads none is listed."""
        found: dict[str, list[Node]] = {}
        for node in walk(self.root, skip=OPAQUE):
            if node.type == "function_definition" and (name := self.function_name(node)):
                found.setdefault(name, []).append(node)
        return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1}

    @cached_property
    def own(self) -> frozenset[str]:
        """Names that the file gives to something that may be called: functions of any kind, and variables, which may
        hold a lambda."""
        return frozenset(
            self.text(n) for n in walk(self.root) if n.type == "identifier" and n.parent is not None and is_declared(n)
        )

    def library(self, call: Node) -> bool:
        """Whether a called name is the library's, or of a recipe: the file may have functions of the same name."""
        function = call.child_by_field_name("function")
        name = self.text(function) if function is not None else ""
        return function is None or function.type != "identifier" or name.startswith("kw_") or name not in self.own

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Other names of types: `typedef float real;`, `using real = float;`, `#define REAL float`; none that means
        two things."""
        found: dict[str, str] = {}
        twice: set[str] = set()
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
                twice |= {name} if found.setdefault(name, text) != text else set()
        return {name: text for name, text in found.items() if name not in twice}

    def function_name(self, node: Node) -> str | None:
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
    def reachable(self) -> tuple[Node, ...]:
        """`solve` and the functions of this file that it calls, directly or not; empty without a `solve`."""
        seen: dict[str, Node] = {}
        waiting = [ENTRY]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.functions:
                continue
            seen[name] = self.functions[name]
            waiting.extend(
                callee for call in walk(seen[name]) if call.type == "call_expression" and (callee := self.callee(call))
            )
        return tuple(seen.values())

    def callee(self, call: Node) -> str | None:
        """Name of the called function, `std::` and `::` dropped; None for anything but a plain name."""
        function = call.child_by_field_name("function")
        if function is None or function.type not in ("identifier", "qualified_identifier"):
            return None
        return self.text(function).replace(" ", "").removeprefix("::").removeprefix("std::").removeprefix("__builtin_")

    def arguments(self, call: Node) -> list[Node]:
        arguments = call.child_by_field_name("arguments")
        return [a for a in arguments.named_children if a.type != "comment"] if arguments is not None else []

    def binary(self, node: Node) -> tuple[str, Node, Node]:
        """Operator, left and right of a binary or assignment expression."""
        operator, left, right = (node.child_by_field_name(f) for f in ("operator", "left", "right"))
        assert left is not None and right is not None
        return self.text(operator) if operator is not None else "=", left, right

    def assigned(self, node: Node) -> tuple[str, ...]:
        """Plain names that are written (not declared) anywhere inside `node`, once per write; `&name` counts as a
        write, and so does a name that a function of the file, or one like std::swap, is given to change; writing to
        a reference writes to what it stands for."""
        if node.id not in self._assigned:
            self._assigned[node.id] = tuple(self._written(node))
        return self._assigned[node.id]

    def _written(self, node: Node) -> Iterator[str]:
        for inner in walk(node):
            target: Node | None = None
            if inner.type == "assignment_expression":
                target = inner.child_by_field_name("left")
            elif inner.type == "update_expression" or (
                inner.type == "pointer_expression" and self.text(inner).startswith("&")
            ):
                target = inner.child_by_field_name("argument")
            elif inner.type == "call_expression":
                callee = (self.callee(inner) or "").rpartition("::")[2]
                changed = self._changed_by.get(callee, frozenset())
                for place, argument in enumerate(self.arguments(inner)):
                    if argument.type == "identifier" and (callee in CHANGE_ALL or place in changed):
                        yield self.text(argument)
                        yield from self._stands_for.get(self.text(argument), ())
            if target is not None and (target := strip(target)).type == "identifier":
                yield self.text(target)
                yield from self._stands_for.get(self.text(target), ())

    @cached_property
    def _changed_by(self) -> dict[str, frozenset[int]]:
        """Places of the parameters that a function, template or named lambda of the file takes by a reference that
        it may write to."""
        found: dict[str, set[int]] = {}
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
            listed = declarator.child_by_field_name("parameters") if declarator is not None else None
            if name is None or listed is None:
                continue
            taken = [n for n in listed.named_children if n.type.endswith("parameter_declaration")]
            places = {
                i for i, n in enumerate(taken) if "&" in self.text(n) and not re.search(r"\bconst\b", self.text(n))
            }
            found.setdefault(self.text(name).rpartition("::")[2], set()).update(places)
        return {name: frozenset(places) for name, places in found.items()}

    @cached_property
    def _stands_for(self) -> dict[str, tuple[str, ...]]:
        """References of the file to plain names -> what they stand for."""
        found: dict[str, tuple[str, ...]] = {}
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
                inner = name.named_children[0] if name.named_children else name
                found[self.text(inner)] = (*found.get(self.text(inner), ()), self.text(value))
        return found

    def function_of(self, node: Node) -> Node:
        """The function definition around `node` (or the root)."""
        while node.type != "function_definition" and node.parent is not None:
            node = node.parent
        return node


@lru_cache(maxsize=2)
def _language(grammar: str) -> Language:
    import tree_sitter

    return tree_sitter.Language(importlib.import_module(f"tree_sitter_{grammar}").language())


def walk(node: Node | None, skip: frozenset[str] = frozenset()) -> Iterator[Node]:
    """`node` and all named nodes below it in document order, not entering types in `skip`."""
    if node is None:
        return iter(())
    return iter(_below(node)) if not skip else _outside(_below(node), skip)


def _outside(nodes: tuple[Node, ...], skip: frozenset[str]) -> Iterator[Node]:
    end = 0
    for node in nodes:
        if node.start_byte < end:
            continue
        if node.type in skip:
            end = node.end_byte
        else:
            yield node


@lru_cache(maxsize=4096)
def _below(node: Node) -> tuple[Node, ...]:
    """Making a node's Python object costs more than all that is asked of it, so that each is made once."""
    found: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        found.append(current)
        stack.extend(reversed(current.named_children))
    return tuple(found)


def text(node: Node) -> str:
    """The node's source text, without its source at hand."""
    return (node.text or b"").decode(errors="replace")


def tokens(node: Node) -> Iterator[str]:
    """Texts of the leaves in order, without comments and attributes."""
    if node.type in ("comment", "attribute_specifier", "attribute_declaration"):
        return
    if not node.children and node.text:
        yield text(node)
    for child in node.children:
        yield from tokens(child)


def function_declarator(node: Node) -> Node | None:
    """What names a declared function and lists its parameters, behind the stars of its result."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return declarator


def strip(node: Node) -> Node:
    """Without enclosing parentheses."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def statements(body: Node) -> list[Node]:
    """The statements of a loop's or function's body; comments and a `;` by itself are none."""
    inner = body.named_children if body.type == "compound_statement" else [body]
    return [n for n in inner if n.type != "comment" and (n.type != "expression_statement" or n.named_child_count)]


def contains(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def single(body: Node) -> Node | None:
    """The only statement of a body."""
    inner = statements(body)
    return strip(inner[0]) if len(inner) == 1 else None


def is_declared(name: Node) -> bool:
    """Stands where a declaration gives a name, not in the value behind it."""
    parent = name.parent
    if parent is None or parent.type == "for_range_loop" or parent.type == "lambda_capture_initializer":
        return parent is not None and name in (
            parent.child_by_field_name("declarator"),
            parent.child_by_field_name("left"),
        )
    declares = parent.type.endswith("_declarator") or parent.type in ("declaration", "parameter_declaration")
    return declares and parent.child_by_field_name("value") != name


def call_name(source: CppSource, call: Node) -> str:
    """Called name with template arguments and `std::` dropped; "" for a function of the file's own."""
    function = call.child_by_field_name("function") if source.library(call) else None
    return (
        source.text(function).split("<")[0].removeprefix("::").removeprefix("std::").removeprefix("__builtin_")
        if function is not None
        else ""
    )


def pragma_before(node: Node) -> Node | None:
    """The #pragma directly in front of a statement."""
    previous = node.prev_named_sibling
    return previous if previous is not None and previous.type == "preproc_call" else None


def fresh(source: CppSource, stem: str) -> str:
    """`stem` with the first number that makes it a new word in this source."""
    number = 1
    while f"{stem}_{number}" in source.source:
        number += 1
    return f"{stem}_{number}"
