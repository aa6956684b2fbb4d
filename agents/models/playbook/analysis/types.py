"""The floating-point type of an expression, from declarations; "" where it cannot be told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import call_name, strip

if TYPE_CHECKING:
    from tree_sitter import Node

OVERLOADED = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "erf", "erfc", "sqrt", "cbrt", "pow", "hypot", "fma", "fmax", "fmin", "fabs", "floor", "ceil", "round", "rint", "nearbyint",
    "trunc", "fmod", "copysign",
)  # fmt: skip
FLOAT_FUNCTIONS = frozenset(f"{name}f" for name in OVERLOADED) | {"kw_rsqrt"}
SAME_TYPE = frozenset({*OVERLOADED, "max", "min", "abs", "clamp"})
"""Overloaded in <cmath>: float of float."""
INTEGER_TYPES = frozenset(
    ("int", "long", "short", "char", "unsigned", "bool", "size_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint32_t",
     "uint64_t")
)  # fmt: skip


def floating(unit: Unit, node: Node) -> str:
    """ "float", "double", "int" for any integer, or ""."""
    node = strip(node)
    if node.type == "number_literal":
        text = unit.text(node)
        if not any(c in text for c in ".eEpP") or text.startswith("0x"):
            return "int"
        return "float" if text[-1] in "fF" else "double"
    if node.type == "identifier":
        return _declared(unit, node)
    if node.type in ("subscript_expression", "pointer_expression", "unary_expression"):
        argument = node.child_by_field_name("argument")
        return floating(unit, argument) if argument is not None else ""
    if node.type == "cast_expression":
        kind = node.child_by_field_name("type")
        return _plain(unit, unit.text(kind)) if kind is not None else ""
    if node.type == "binary_expression":
        _, left, right = unit.binary(node)
        return _wider(floating(unit, left), floating(unit, right))
    return _called(unit, node) if node.type == "call_expression" else ""


def _declared(unit: Unit, node: Node) -> str:
    declaration = unit.declaration(node)
    if declaration is None:
        return "float" if unit.text(node) in ("INFINITY", "FLT_MAX", "FLT_MIN", "NAN") else ""
    if declaration.type in ("auto", "") and declaration.initial is not None:
        return floating(unit, declaration.initial)
    return _plain(unit, declaration.type)


def _called(unit: Unit, node: Node) -> str:
    name = call_name(unit, node)
    arguments = unit.arguments(node)
    if name in FLOAT_FUNCTIONS:
        return "float"
    if name in ("static_cast", "float", "double"):
        function = node.child_by_field_name("function")
        return _plain(unit, unit.text(function).partition("<")[2].rstrip(">") or name) if function is not None else ""
    own = unit.functions.get(unit.callee(node) or "")
    if own is not None and (not name or name.startswith("kw_")):
        kind = own.child_by_field_name("type")
        return _plain(unit, unit.text(kind)) if kind is not None else ""
    kinds = [floating(unit, a) for a in arguments] if re.sub(r"^kw_|(?<=pow)\d+$", "", name) in SAME_TYPE else []
    found = kinds[0] if kinds else ""
    for other in kinds[1:]:
        found = _wider(found, other)
    return found


def _plain(unit: Unit, text: str) -> str:
    element = re.fullmatch(r"(?:const\s+)?std::(?:vector|array|unique_ptr|span)<\s*([\w:]+)\b.*>", text.strip())
    text = str(element[1]) if element is not None else text
    words = [w for w in text.replace("*", " ").replace("std::", "").split() if w != "const"]
    if len(words) == 1:
        words = unit.aliases.get(words[0], words[0]).split()
    if words in (["float"], ["double"]):
        return words[0]
    return "int" if words and set(words) <= INTEGER_TYPES else ""


def _wider(a: str, b: str) -> str:
    if not a or not b:
        return ""
    for kind in ("double", "float"):
        if kind in (a, b):
            return kind
    return "int"
