"""The floating-point type of an expression, from declarations; "" where it cannot be told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.unit import CppUnit
from tools.languages.cpp_source import library_function_name, strip_parentheses

if TYPE_CHECKING:
    from tree_sitter import Node

OVERLOADED_FUNCTIONS = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "sinh",
    "cosh",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "erf",
    "erfc",
    "sqrt",
    "cbrt",
    "pow",
    "hypot",
    "fma",
    "fmax",
    "fmin",
    "fabs",
    "floor",
    "ceil",
    "round",
    "rint",
    "nearbyint",
    "trunc",
    "fmod",
    "copysign",
)
FLOAT_FUNCTIONS = frozenset(f"{name}f" for name in OVERLOADED_FUNCTIONS) | {"kw_rsqrt"}
SAME_TYPE_FUNCTIONS = frozenset({*OVERLOADED_FUNCTIONS, "max", "min", "abs", "clamp"})
"""Overloaded in <cmath>: float of float."""
INTEGER_TYPES = frozenset(
    [
        "int",
        "long",
        "short",
        "char",
        "unsigned",
        "bool",
        "size_t",
        "int8_t",
        "int16_t",
        "int32_t",
        "int64_t",
        "uint8_t",
        "uint32_t",
        "uint64_t",
    ]
)


def arithmetic_type(unit: CppUnit, node: Node) -> str:
    """ "float", "double", "int" for any integer, or ""."""
    node = strip_parentheses(node)
    if node.type == "number_literal":
        text = unit.text(node)
        if not any(c in text for c in ".eEpP") or text.startswith("0x"):
            return "int"
        return "float" if text[-1] in "fF" else "double"
    if node.type == "identifier":
        return _declared_type(unit, node)
    if node.type in ("subscript_expression", "pointer_expression", "unary_expression"):
        argument = node.child_by_field_name("argument")
        return arithmetic_type(unit, argument) if argument is not None else ""
    if node.type == "cast_expression":
        kind = node.child_by_field_name("type")
        return _type_of_text(unit, unit.text(kind)) if kind is not None else ""
    if node.type == "binary_expression":
        _, left, right = unit.split_binary(node)
        return _common_type(arithmetic_type(unit, left), arithmetic_type(unit, right))
    return _call_type(unit, node) if node.type == "call_expression" else ""


def _declared_type(unit: CppUnit, node: Node) -> str:
    declaration = unit.declaration(node)
    if declaration is None:
        return "float" if unit.text(node) in ("INFINITY", "FLT_MAX", "FLT_MIN", "NAN") else ""
    if declaration.type in ("auto", "") and declaration.initial is not None:
        return arithmetic_type(unit, declaration.initial)
    return _type_of_text(unit, declaration.type)


def _call_type(unit: CppUnit, node: Node) -> str:
    name = library_function_name(unit, node)
    arguments = unit.arguments(node)
    if name in FLOAT_FUNCTIONS:
        return "float"
    if name in ("static_cast", "float", "double"):
        function = node.child_by_field_name("function")
        return (
            _type_of_text(unit, unit.text(function).partition("<")[2].rstrip(">") or name)
            if function is not None
            else ""
        )
    own = unit.functions.get(unit.called_function(node) or "")
    if own is not None and (not name or name.startswith("kw_")):
        kind = own.child_by_field_name("type")
        return _type_of_text(unit, unit.text(kind)) if kind is not None else ""
    kinds = (
        [arithmetic_type(unit, a) for a in arguments]
        if re.sub(r"^kw_|(?<=pow)\d+$", "", name) in SAME_TYPE_FUNCTIONS
        else []
    )
    found = kinds[0] if kinds else ""
    for other in kinds[1:]:
        found = _common_type(found, other)
    return found


def _type_of_text(unit: CppUnit, text: str) -> str:
    element = re.fullmatch(r"(?:const\s+)?std::(?:vector|array|unique_ptr|span)<\s*([\w:]+)\b.*>", text.strip())
    text = str(element[1]) if element is not None else text
    words = [w for w in text.replace("*", " ").replace("std::", "").split() if w != "const"]
    if len(words) == 1:
        words = unit.aliases.get(words[0], words[0]).split()
    if words in (["float"], ["double"]):
        return words[0]
    return "int" if words and set(words) <= INTEGER_TYPES else ""


def _common_type(a: str, b: str) -> str:
    if not a or not b:
        return ""
    for kind in ("double", "float"):
        if kind in (a, b):
            return kind
    return "int"
