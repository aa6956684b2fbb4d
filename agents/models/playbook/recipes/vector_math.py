"""Calls of libm replaced by functions that the compiler can inline into a vector loop."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.lift.functions import FUNCTIONS, Key, with_called_functions
from agents.models.playbook.analysis.dependence import analyse_independence
from agents.models.playbook.analysis.types import arithmetic_type
from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.recipe import Recipe
from tools.languages.cpp_source import CppEdit, library_function_name, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

REPLACED_FUNCTIONS = frozenset(name for name, _ in FUNCTIONS) - {"pick"}
ONLY_IN_VECTOR_LOOPS = frozenset({"sqrt", "floor", "ceil", "trunc"})
"""One such instruction is cheaper than the polynomial; only the vector loop gains."""


class VectorExp(Recipe):
    """Elementary functions of float (some of double) as inlinable polynomials, everywhere in what `solve` reaches."""

    name = "vector_exp"
    knobs = {"DEGREE": ("6", "5", "7")}

    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        calls: list[CppEdit] = []
        needed: set[Key] = set()
        for function in unit.reachable_functions:
            if "kw_" in unit.text(function).split("(")[0]:
                continue
            before = len(calls)
            for node in walk(function.child_by_field_name("body")):
                if node.type != "call_expression":
                    continue
                found, callee = self._replacement_key(unit, node), node.child_by_field_name("function")
                if (
                    found is not None
                    and callee is not None
                    and (found[0] not in ONLY_IN_VECTOR_LOOPS or _is_in_vector_loop(unit, node))
                ):
                    needed.add(found)
                    calls.append(CppEdit(callee.start_byte, callee.end_byte, f"kw_{found[0]}"))
            if len(calls) > before:
                calls += _inline_edits(unit, function)
        if calls:
            # Of insertions at one place the last stands first.
            yield [*calls, *self._definitions(unit, needed, knobs)]

    def _definitions(self, unit: CppUnit, needed: set[Key], knobs: Mapping[str, str]) -> list[CppEdit]:
        needed = with_called_functions(needed)
        texts = [
            text
            for key, text in FUNCTIONS.items()
            if key in needed and f"{key[1]} kw_{key[0]}({key[1]} x" not in unit.source
        ]
        place = insertion_point(unit)
        return (
            [
                CppEdit(
                    place,
                    place,
                    self.set_knobs("\n" + "\n".join(texts) + "\n", {"DEGREE": self.value(knobs, "DEGREE")}),
                )
            ]
            if texts
            else []
        )

    def _replacement_key(self, unit: CppUnit, call: Node) -> Key | None:
        """Function and element type, where there is a replacement."""
        name = library_function_name(unit, call)
        arguments = unit.arguments(call)
        base = name if name in REPLACED_FUNCTIONS else name.removesuffix("f")
        if base not in REPLACED_FUNCTIONS or len(arguments) != (2 if base == "pow" else 1):
            return None
        if all(strip_parentheses(a).type == "number_literal" for a in arguments):
            return None
        kinds = {arithmetic_type(unit, a) for a in arguments} - ({"int"} if base == "pow" else set())
        kind = "float" if name != base else kinds.pop() if len(kinds) == 1 else ""
        if base == "pow" and name == base and any(arithmetic_type(unit, a) == "int" for a in arguments):
            return None
        return (base, kind) if (base, kind) in FUNCTIONS else None


def _inline_edits(unit: CppUnit, function: Node) -> list[CppEdit]:
    """A small helper that has grown is not inlined by itself, and a loop that calls is not vectorised."""
    head = unit.text(function).split("(")[0]
    if unit.functions.get("solve") == function or "always_inline" in unit.text(function) or _has_loops(function):
        return []
    words = "__attribute__((always_inline)) " + ("" if re.search(r"\binline\b", head) else "inline ")
    return [CppEdit(function.start_byte, function.start_byte, words)]


def _has_loops(node: Node | None) -> bool:
    return any(n.type in ("for_statement", "while_statement", "do_statement") for n in walk(node))


def _has_loops_inside(unit: CppUnit, body: Node) -> bool:
    """Whether a body holds loops, its own or those of a function that it calls."""
    called = [unit.functions.get(unit.called_function(n) or "") for n in walk(body) if n.type == "call_expression"]
    return _has_loops(body) or any(_has_loops(function) for function in called)


def _is_in_vector_loop(unit: CppUnit, call: Node) -> bool:
    """Directly in a loop that holds no other and has independent iterations, or in a function without loops."""
    current, function = call.parent, unit.enclosing_function(call)
    while current is not None and current != function:
        if current.type in ("for_statement", "while_statement", "do_statement"):
            loop = unit.loop(current) if current.type == "for_statement" else None
            return (
                loop is not None and not _has_loops_inside(unit, loop.body) and bool(analyse_independence(unit, loop))
            )
        current = current.parent
    return unit.functions.get("solve") != function and not _has_loops(function)


def insertion_point(unit: CppUnit) -> int:
    """Byte at file scope behind the includes that come before any code."""
    place = 0
    for node in unit.root.named_children:
        if node.type == "preproc_include":
            place = node.end_byte
        elif node.type in (
            "function_definition",
            "linkage_specification",
            "template_declaration",
            "namespace_definition",
            "declaration",
        ):
            break
    return place
