"""Calls of libm replaced by functions that the compiler can inline into a vector loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.models.playbook import vector_complex, vector_functions, vector_special
from agents.models.playbook.base import Recipe
from agents.models.playbook.dependence import independence
from agents.models.playbook.element_types import floating
from agents.models.playbook.reductions import call_name
from agents.models.playbook.syntax import Edit, Unit
from agents.models.playbook.tree import strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

Key = tuple[str, str]
"""Function and element type."""
MAKERS: dict[Key, Callable[[], str]] = {
    ("pick", "float"): lambda: vector_functions.pick("float"),
    ("pick", "double"): lambda: vector_functions.pick("double"),
    ("exp", "double"): vector_functions.exp_double,
    ("log", "float"): vector_functions.log_float,
    ("log", "double"): vector_special.log_double,
    ("tanh", "float"): vector_functions.tanh_float,
    ("sqrt", "float"): vector_special.sqrt_float,
    ("sqrt", "double"): vector_special.sqrt_double,
    ("erf", "float"): vector_special.erf_float,
    ("erfc", "float"): vector_special.erfc_float,
    ("erfc", "double"): vector_special.erfc_double,
    ("erf", "double"): vector_special.erf_double,
    ("expm1", "float"): vector_special.expm1_float,
    ("log1p", "float"): vector_special.log1p_float,
    ("exp2", "float"): vector_special.exp2_float,
    ("log2", "float"): lambda: vector_special.scaled_log("log2", "1.44269504f"),
    ("log10", "float"): lambda: vector_special.scaled_log("log10", "0.434294482f"),
    ("sin", "float"): lambda: vector_special.angle_float("sin", "0u"),
    ("cos", "float"): lambda: vector_special.angle_float("cos", "1u"),
    ("pow", "float"): vector_special.pow_float,
    ("floor", "float"): lambda: vector_special.whole_float("floor", "s - kw_pick(1.0f, 0.0f, s > x)"),
    ("ceil", "float"): lambda: vector_special.whole_float("ceil", "s + kw_pick(1.0f, 0.0f, s < x)"),
    ("trunc", "float"): lambda: vector_special.whole_float("trunc", "s - kw_pick(kw_pick(-1.0f, 1.0f, x < 0.0f), 0.0f, m > a)"),
}
"""In an order in which each comes after what it needs; exp of float stands before all, for its degree is a knob."""
NEEDS: dict[Key, tuple[Key, ...]] = {
    **{(name, "float"): (("pick", "float"),) for name in ("log", "sqrt", "floor", "ceil", "trunc")},
    **{(name, "float"): (("pick", "float"), ("exp", "float")) for name in ("tanh", "erf", "erfc", "expm1", "exp2")},
    **{(name, "float"): (("log", "float"),) for name in ("log1p", "log2", "log10")},
    **{(name, "double"): (("pick", "double"),) for name in ("log", "sqrt")},
    ("erfc", "double"): (("pick", "double"), ("exp", "double")),
    ("erf", "double"): (("erfc", "double"),),
    ("pow", "float"): (("exp", "double"), ("log", "double"), ("pick", "float")),
}
NAMES = frozenset(name for name, _ in MAKERS) - {"pick"} | {"exp"}
IN_LOOPS = frozenset({"sqrt", "floor", "ceil", "trunc"})
"""One such instruction is cheaper than the polynomial; only the vector loop gains."""
MAX_POWER = 16


class VectorExp(Recipe):
    """Elementary functions of float (some of double) as inlinable polynomials, everywhere in what `solve` reaches; small whole powers
    and products of complex numbers as plain ones."""

    name = "vector_exp"
    knobs = {"DEGREE": ("6", "5", "7")}

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        calls: list[Edit] = []
        needed: set[Key] = set()
        for function in unit.reachable:
            if "kw_" in unit.text(function).split("(")[0]:
                continue
            before = len(calls)
            for kind, edits in vector_complex.products(unit, function):
                needed.add(("cmul", kind))
                calls += edits
            for node in walk(function.child_by_field_name("body")):
                if node.type != "call_expression":
                    continue
                power = _power(unit, node)
                if power is not None:
                    key, base, text = power
                    needed.add(key)
                    calls += [
                        Edit(node.start_byte, base.start_byte, f"{text}("),
                        Edit(base.end_byte, node.end_byte, ")"),
                    ]
                    continue
                found, callee = self._kind(unit, node), node.child_by_field_name("function")
                if found is not None and callee is not None and (found[0] not in IN_LOOPS or _innermost(unit, node)):
                    needed.add(found)
                    calls.append(Edit(callee.start_byte, callee.end_byte, f"kw_{found[0]}"))
            if len(calls) > before:
                calls += _inlined(unit, function)
        if calls:
            # Of insertions at one place the last stands first.
            yield [*calls, *_definitions(unit, needed, self.value(knobs, "DEGREE"))]

    def present(self, source: str) -> dict[str, str]:
        degrees = [degree for degree in vector_functions.EXP_FLOAT if vector_functions.exp_polynomial(degree) in source]
        return {"DEGREE": degrees[0]} if degrees else {}

    def retune(self, source: str, knobs: Mapping[str, str]) -> str:
        now, wanted = self.present(source).get("DEGREE"), knobs.get("DEGREE", "")
        if now is None or wanted not in vector_functions.EXP_FLOAT:
            return source
        return source.replace(vector_functions.exp_polynomial(now), vector_functions.exp_polynomial(wanted))

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
        return (base, kind) if (base, kind) in MAKERS or (base, kind) == ("exp", "float") else None


def _power(unit: Unit, call: Node) -> tuple[Key, Node, str] | None:
    """Key, base and function for `pow(x, 3)` and the like."""
    arguments = unit.arguments(call)
    if call_name(unit, call) not in ("pow", "powf") or len(arguments) != 2 or any(n.type == "call_expression" for n in walk(arguments[0])):
        return None
    exponent, kind = strip(arguments[1]), floating(unit, arguments[0])
    found = re.fullmatch(r"(\d+)(?:\.0*f?)?", unit.text(exponent)) if exponent.type == "number_literal" else None
    if found is None or kind not in ("float", "double") or not 2 <= int(found[1]) <= MAX_POWER:
        return None
    return ("pow" + found[1], kind), arguments[0], f"kw_pow{found[1]}"


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


def _definitions(unit: Unit, needed: set[Key], degree: str) -> list[Edit]:
    while more := {one for key in needed for one in NEEDS.get(key, ())} - needed:
        needed = needed | more
    degree = degree if degree in vector_functions.EXP_FLOAT else "6"
    makers = {("exp", "float"): lambda: vector_functions.exp_float(degree), **MAKERS}
    texts = [make() for key, make in makers.items() if key in needed and not _defined(unit, key)]
    texts += [
        vector_special.power(int(name[3:]), kind)
        for name, kind in sorted(needed)
        if re.fullmatch(r"pow\d+", name) and not _defined(unit, (name, kind))
    ]
    texts += [
        vector_complex.complex_product(kind) for name, kind in sorted(needed) if name == "cmul" and f"{kind}> kw_cmul(" not in unit.source
    ]
    place = insertion_point(unit)
    return [Edit(place, place, "\n" + "\n".join(texts) + "\n")] if texts else []


def _defined(unit: Unit, key: Key) -> bool:
    return f"{key[1]} kw_{key[0]}({key[1]} x" in unit.source


def insertion_point(unit: Unit) -> int:
    """Byte at file scope behind the includes that come before any code."""
    place = 0
    for node in unit.root.named_children:
        if node.type == "preproc_include":
            place = node.end_byte
        elif node.type in ("function_definition", "linkage_specification", "template_declaration", "namespace_definition", "declaration"):
            break
    return place
