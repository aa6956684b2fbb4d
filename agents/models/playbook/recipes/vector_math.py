"""Calls of libm replaced by functions that the compiler can inline into a vector loop."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.lift.functions import FUNCTIONS, Key, closed
from agents.models.playbook.analysis.dependence import independence
from agents.models.playbook.analysis.types import floating
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from tools.languages.cpp_source import Edit, call_name, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

NAMES = frozenset(name for name, _ in FUNCTIONS) - {"pick"}
IN_LOOPS = frozenset({"sqrt", "floor", "ceil", "trunc"})
"""One such instruction is cheaper than the polynomial; only the vector loop gains."""


class VectorExp(Recipe):
    """Elementary functions of float (some of double) as inlinable polynomials, everywhere in what `solve` reaches."""

    name = "vector_exp"
    knobs = {"DEGREE": ("6", "5", "7")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        calls: list[Edit] = []
        needed: set[Key] = set()
        for function in unit.reachable:
            if "kw_" in unit.text(function).split("(")[0]:
                continue
            before = len(calls)
            for node in walk(function.child_by_field_name("body")):
                if node.type != "call_expression":
                    continue
                found, callee = self._kind(unit, node), node.child_by_field_name("function")
                if found is not None and callee is not None and (found[0] not in IN_LOOPS or _innermost(unit, node)):
                    needed.add(found)
                    calls.append(Edit(callee.start_byte, callee.end_byte, f"kw_{found[0]}"))
            if len(calls) > before:
                calls += _inlined(unit, function)
        if calls:
            # Of insertions at one place the last stands first.
            yield [*calls, *self._definitions(unit, needed, knobs)]

    def _definitions(self, unit: Unit, needed: set[Key], knobs: Mapping[str, str]) -> list[Edit]:
        needed = closed(needed)
        texts = [
            text
            for key, text in FUNCTIONS.items()
            if key in needed and f"{key[1]} kw_{key[0]}({key[1]} x" not in unit.source
        ]
        place = insertion_point(unit)
        return (
            [Edit(place, place, self.retune("\n" + "\n".join(texts) + "\n", {"DEGREE": self.value(knobs, "DEGREE")}))]
            if texts
            else []
        )

    def _kind(self, unit: Unit, call: Node) -> Key | None:
        """Function and element type, where there is a replacement."""
        name = call_name(unit, call)
        arguments = unit.arguments(call)
        base = name if name in NAMES else name.removesuffix("f")
        if base not in NAMES or len(arguments) != (2 if base == "pow" else 1):
            return None
        if all(strip(a).type == "number_literal" for a in arguments):
            return None
        kinds = {floating(unit, a) for a in arguments} - ({"int"} if base == "pow" else set())
        kind = "float" if name != base else kinds.pop() if len(kinds) == 1 else ""
        if base == "pow" and name == base and any(floating(unit, a) == "int" for a in arguments):
            return None
        return (base, kind) if (base, kind) in FUNCTIONS else None


def _inlined(unit: Unit, function: Node) -> list[Edit]:
    """A small helper that has grown is not inlined by itself, and a loop that calls is not vectorised."""
    head = unit.text(function).split("(")[0]
    if unit.functions.get("solve") == function or "always_inline" in unit.text(function) or _loops(function):
        return []
    words = "__attribute__((always_inline)) " + ("" if re.search(r"\binline\b", head) else "inline ")
    return [Edit(function.start_byte, function.start_byte, words)]


def _loops(node: Node | None) -> bool:
    return any(n.type in ("for_statement", "while_statement", "do_statement") for n in walk(node))


def _loops_inside(unit: Unit, body: Node) -> bool:
    """Whether a body holds loops, its own or those of a function that it calls."""
    called = [unit.functions.get(unit.callee(n) or "") for n in walk(body) if n.type == "call_expression"]
    return _loops(body) or any(_loops(function) for function in called)


def _innermost(unit: Unit, call: Node) -> bool:
    """Directly in a loop that holds no other and has independent iterations, or in a function without loops."""
    current, function = call.parent, unit.function_of(call)
    while current is not None and current != function:
        if current.type in ("for_statement", "while_statement", "do_statement"):
            loop = unit.loop(current) if current.type == "for_statement" else None
            return loop is not None and not _loops_inside(unit, loop.body) and bool(independence(unit, loop))
        current = current.parent
    return unit.functions.get("solve") != function and not _loops(function)


def insertion_point(unit: Unit) -> int:
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
