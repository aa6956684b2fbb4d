"""C++ source as the recipes see it: functions, declarations and counted loops, with byte-accurate edits.

Everything is read from tree-sitter's concrete syntax tree; nothing is preprocessed or type-checked, so a recipe must treat what it
cannot name as unknown. Offsets are bytes of the UTF-8 text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.declarations import Declaration, declared_in, hidden, is_declared
from agents.models.playbook.analysis.loops import Loop, read_loop
from agents.models.playbook.analysis.tree import contains, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Language, Node

ENTRY = "solve"
CHANGE_ALL = frozenset({"swap", "exchange", "tie", "iter_swap"})
"""Functions of the standard library that write to what they are given by name."""
OPAQUE = frozenset({"lambda_expression", "template_declaration", "class_specifier", "struct_specifier"})


@dataclass(frozen=True)
class Edit:
    """Replace bytes [start, end) by `text`."""

    start: int
    end: int
    text: str


class Unit:
    """One parsed source file. `parsed` remembers the last ones."""

    def __init__(self, source: str) -> None:
        import tree_sitter

        self.source = source
        self.code = source.encode()
        self.root = tree_sitter.Parser(_language()).parse(self.code).root_node
        # The tree never changes, and the analyses ask the same of the same node again and again.
        self._assigned: dict[int, tuple[str, ...]] = {}
        self._loops: dict[int, Loop | None] = {}
        self._declared: dict[int, dict[str, list[Declaration]]] = {}
        self._unknown: dict[int, frozenset[str]] = {}

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
        """Names that the file gives to something that may be called: functions of any kind, and variables, which may hold a lambda."""
        return frozenset(self.text(n) for n in walk(self.root) if n.type == "identifier" and n.parent is not None and is_declared(n))

    def library(self, call: Node) -> bool:
        """Whether a called name is the library's, or of a recipe: the file may have functions of the same name."""
        function = call.child_by_field_name("function")
        name = self.text(function) if function is not None else ""
        return function is None or function.type != "identifier" or name.startswith("kw_") or name not in self.own

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Other names of types: `typedef float real;`, `using real = float;`, `#define REAL float`; none that means two things."""
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
        name = declarator.child_by_field_name("declarator") if declarator is not None and declarator.type == "function_declarator" else None
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
            waiting.extend(callee for call in walk(seen[name]) if call.type == "call_expression" and (callee := self.callee(call)))
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

    def loops(self, node: Node) -> list[Loop]:
        """Counted loops inside `node` (or `node` itself) in document order, outer before inner."""
        return [loop for found in walk(node, skip=OPAQUE) if found.type == "for_statement" and (loop := self.loop(found))]

    def loop(self, node: Node) -> Loop | None:
        """`node` as a counted loop, or None when it is not one."""
        if node.id not in self._loops:
            self._loops[node.id] = read_loop(self, node)
        return self._loops[node.id]

    def binary(self, node: Node) -> tuple[str, Node, Node]:
        """Operator, left and right of a binary or assignment expression."""
        operator, left, right = (node.child_by_field_name(f) for f in ("operator", "left", "right"))
        assert left is not None and right is not None
        return self.text(operator) if operator is not None else "=", left, right

    def assigned(self, node: Node) -> tuple[str, ...]:
        """Plain names that are written (not declared) anywhere inside `node`, once per write; `&name` counts as a write, and so does a
        name that a function of the file, or one like std::swap, is given to change; writing to a reference writes to what it stands for."""
        if node.id not in self._assigned:
            self._assigned[node.id] = tuple(self._written(node))
        return self._assigned[node.id]

    def _written(self, node: Node) -> Iterator[str]:
        for inner in walk(node):
            target: Node | None = None
            if inner.type == "assignment_expression":
                target = inner.child_by_field_name("left")
            elif inner.type == "update_expression" or (inner.type == "pointer_expression" and self.text(inner).startswith("&")):
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
    def counting_operator(self) -> bool:
        """Whether an operator that the file defines writes to a global or keeps a state: `a + b` then does more than it says."""
        for node in walk(self.root):
            declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
            if declarator is None or not re.search(r"\boperator\W", self.text(declarator)):
                continue
            for name in walk(node.child_by_field_name("body")):
                found = self.declaration(name) if name.type == "identifier" and self.text(name) in self.assigned(node) else None
                if found is not None and (found.kind == "global" or self.text(found.node).startswith("static")):
                    return True
        return False

    @cached_property
    def _changed_by(self) -> dict[str, frozenset[int]]:
        """Places of the parameters that a function, template or named lambda of the file takes by a reference that it may write to."""
        found: dict[str, set[int]] = {}
        for node in walk(self.root):
            if node.type == "function_definition":
                declarator = node.child_by_field_name("declarator")
                while declarator is not None and declarator.type != "function_declarator":
                    declarator = declarator.child_by_field_name("declarator")
                name = declarator.child_by_field_name("declarator") if declarator is not None else None
            elif node.type == "init_declarator" and (value := node.child_by_field_name("value")) and value.type == "lambda_expression":
                name, declarator = node.child_by_field_name("declarator"), value.child_by_field_name("declarator")
            else:
                continue
            listed = declarator.child_by_field_name("parameters") if declarator is not None else None
            if name is None or listed is None:
                continue
            taken = [n for n in listed.named_children if n.type.endswith("parameter_declaration")]
            places = {i for i, n in enumerate(taken) if "&" in self.text(n) and not re.search(r"\bconst\b", self.text(n))}
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
            if name is not None and value is not None and name.type == "reference_declarator" and value.type == "identifier":
                inner = name.named_children[0] if name.named_children else name
                found[self.text(inner)] = (*found.get(self.text(inner), ()), self.text(value))
        return found

    def declaration(self, name: Node) -> Declaration | None:
        """What the identifier `name` refers to, by walking its scopes outwards; None for macros and unknown names."""
        wanted = self.text(name)
        scope: Node | None = name
        while scope is not None:
            found: Declaration | None = None
            if scope.id not in self._declared:
                names: dict[str, list[Declaration]] = {}
                for candidate in declared_in(self, scope):
                    names.setdefault(candidate.name, []).append(candidate)
                self._declared[scope.id] = names
                self._unknown[scope.id] = frozenset(self.text(n) for n in hidden(scope))
            for candidate in self._declared[scope.id].get(wanted, ()):
                own = candidate.initial is not None and contains(candidate.initial, name)
                if candidate.node.start_byte <= name.start_byte and not own:
                    found = candidate
            if found is not None or wanted in self._unknown[scope.id]:
                return found
            scope = scope.parent
        return None

    def parameters(self, function: Node) -> list[Declaration]:
        """Named parameters of a function definition, in order."""
        return list(declared_in(self, function))

    def function_of(self, node: Node) -> Node:
        """The function definition around `node` (or the root)."""
        while node.type != "function_definition" and node.parent is not None:
            node = node.parent
        return node


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter
    import tree_sitter_cpp

    return tree_sitter.Language(tree_sitter_cpp.language())


@lru_cache(maxsize=64)
def parsed(source: str) -> Unit:
    """The unit of a source text: one plan asks every recipe about the same text, and drafts share their first steps."""
    return Unit(source)


def dropped(unit: Unit, node: Node) -> Edit:
    """A definition taken away, with the `;` and the line breaks behind it."""
    end = node.next_sibling.end_byte if node.next_sibling is not None and node.next_sibling.type == ";" else node.end_byte
    while unit.code[end : end + 1] == b"\n":
        end += 1
    return Edit(node.start_byte, end, "")


def fresh(unit: Unit, stem: str) -> str:
    """`stem` with the first number that makes it a new word in this source."""
    number = 1
    while f"{stem}_{number}" in unit.source:
        number += 1
    return f"{stem}_{number}"


def pragma_before(unit: Unit, node: Node) -> Node | None:
    """The #pragma directly in front of a statement."""
    previous = node.prev_named_sibling
    return previous if previous is not None and previous.type == "preproc_call" else None


def single_store(unit: Unit, body: Node) -> tuple[Node, Node] | None:
    """Target and value of a body that is one plain assignment."""
    inner = statements(body)
    store = inner[0].named_children[0] if len(inner) == 1 and inner[0].type == "expression_statement" and inner[0].named_children else None
    if store is None or store.type != "assignment_expression" or unit.binary(store)[0] != "=":
        return None
    return unit.binary(store)[1], unit.binary(store)[2]
