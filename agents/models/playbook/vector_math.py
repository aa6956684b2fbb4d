"""Calls of libm replaced by functions that the compiler can inline into a vector loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook import vector_functions
from agents.models.playbook.base import Recipe
from agents.models.playbook.element_types import floating
from agents.models.playbook.reductions import call_name
from agents.models.playbook.syntax import Edit, Unit, walk

if TYPE_CHECKING:
    from tree_sitter import Node

REPLACED = {"exp": "kw_exp", "log": "kw_log", "tanh": "kw_tanh"}


class VectorExp(Recipe):
    """exp, log and tanh of float (and exp of double) as inlinable polynomials, everywhere in what `solve` reaches."""

    name = "vector_exp"
    knobs = {"DEGREE": ("6", "5", "7")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        calls: list[Edit] = []
        needed: set[tuple[str, str]] = set()
        for function in unit.reachable:
            if unit.text(function).startswith("static inline") and "kw_" in unit.text(function).split("(")[0]:
                continue
            for node in walk(function.child_by_field_name("body")):
                callee = node.child_by_field_name("function") if node.type == "call_expression" else None
                kind = self._kind(unit, node) if callee is not None else None
                if kind is not None and callee is not None:
                    needed.add(kind)
                    calls.append(Edit(callee.start_byte, callee.end_byte, REPLACED[kind[0]]))
        if calls:
            yield [*_definitions(unit, needed, self.value(knobs, "DEGREE")), *calls]

    def present(self, source: str) -> dict[str, str]:
        degrees = [degree for degree in vector_functions.EXP_FLOAT if vector_functions.exp_polynomial(degree) in source]
        return {"DEGREE": degrees[0]} if degrees else {}

    def retune(self, source: str, knobs: Mapping[str, str]) -> str:
        now, wanted = self.present(source).get("DEGREE"), knobs.get("DEGREE", "")
        if now is None or wanted not in vector_functions.EXP_FLOAT:
            return source
        return source.replace(vector_functions.exp_polynomial(now), vector_functions.exp_polynomial(wanted))

    def _kind(self, unit: Unit, call: Node) -> tuple[str, str] | None:
        """Function and element type, where there is a replacement."""
        name = call_name(unit, call)
        arguments = unit.arguments(call)
        base = name.removesuffix("f")
        if base not in REPLACED or len(arguments) != 1 or name in unit.functions:
            return None
        kind = "float" if name.endswith("f") else floating(unit, arguments[0])
        if kind == "float" or (kind == "double" and base == "exp"):
            return base, kind
        return None


def _definitions(unit: Unit, needed: set[tuple[str, str]], degree: str) -> list[Edit]:
    if ("tanh", "float") in needed:
        needed = needed | {("exp", "float")}
    makers = {
        ("exp", "float"): lambda: vector_functions.exp_float(degree if degree in vector_functions.EXP_FLOAT else "6"),
        ("exp", "double"): vector_functions.exp_double,
        ("log", "float"): vector_functions.log_float,
        ("tanh", "float"): vector_functions.tanh_float,
    }
    texts = [make() for key, make in makers.items() if key in needed and f"kw_{key[0]}({key[1]} x)" not in unit.source]
    place = insertion_point(unit)
    return [Edit(place, place, "\n" + "\n".join(texts) + "\n")] if texts else []


def insertion_point(unit: Unit) -> int:
    """Byte at file scope behind the includes that come before any code."""
    place = 0
    for node in unit.root.named_children:
        if node.type == "preproc_include":
            place = node.end_byte
        elif node.type in ("function_definition", "linkage_specification", "template_declaration", "namespace_definition", "declaration"):
            break
    return place
