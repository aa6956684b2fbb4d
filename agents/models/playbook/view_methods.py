"""A call of a view's method, written out as the expression that it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.callables import EFFECTS, parameters_of, substituted
from agents.models.playbook.element_types import floating
from agents.models.playbook.syntax import Edit, Unit
from agents.models.playbook.tree import statements, strip, walk
from agents.models.playbook.views import View

if TYPE_CHECKING:
    from tree_sitter import Node

PLAIN = frozenset({"identifier", "number_literal", "field_expression"})
"""Arguments that need no parentheses where they are put in."""
MAX_DIGITS = 10
"""A number of fewer is an int."""


def inlined(unit: Unit, view: View, use: Node) -> Edit | None:
    """`m(i, j)`, `m[i]` or `m.at(i, j)` written out."""
    call, method, declaration = use.parent, "", unit.declaration(use)
    if call is None or declaration is None or declaration.form in ("pointer", "array"):
        return None
    if call.type == "call_expression" and call.child_by_field_name("function") == use:
        method, arguments = "operator()", unit.arguments(call)
    elif call.type == "subscript_expression" and call.child_by_field_name("argument") == use:
        indices = call.child_by_field_name("indices")
        method, arguments = "operator[]", list(indices.named_children) if indices is not None else []
    elif call.type == "field_expression" and call.parent is not None and call.parent.child_by_field_name("function") == call:
        field = call.child_by_field_name("field")
        call, method = call.parent, unit.text(field) if field is not None else ""
        arguments = unit.arguments(call)
    function = view.methods.get(method)
    if function is None:
        return None
    # The innermost call first: what it becomes is a plain argument of the next.
    if any(n.type in EFFECTS or n.type in ("call_expression", "update_expression") for a in arguments for n in walk(a)):
        return None
    text = _returned(unit, view, function, unit.text(use), arguments)
    return Edit(call.start_byte, call.end_byte, text) if text is not None else None


def _returned(unit: Unit, view: View, function: Node, holder: str, arguments: list[Node]) -> str | None:
    """What a method returns, in the words of its caller; None where it does more, or says what cannot be said there."""
    body, kind = function.child_by_field_name("body"), function.child_by_field_name("type")
    inner = statements(body) if body is not None else []
    declarator = function.child_by_field_name("declarator")
    reference = declarator is not None and declarator.type == "reference_declarator"
    while declarator is not None and declarator.type == "reference_declarator":
        declarator = declarator.named_children[0]
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    parameters = parameters_of(unit, declarator.parent) if declarator is not None and declarator.parent is not None else None
    if kind is None or listed is None or parameters is None or len(parameters) != len(arguments):
        return None
    result = inner[0].named_children[0] if len(inner) == 1 and inner[0].type == "return_statement" and inner[0].named_children else None
    if result is None or any(n.type in EFFECTS or n.type in ("call_expression", "this", "initializer_list") for n in walk(result)):
        return None
    texts = {field.name: f"{holder}.{field.name}" for field in view.fields}
    for (told, name, written), argument in zip(parameters, arguments, strict=True):
        plain = "float" if told in ("float", "double") else "int" if told in ("int", "long", "size_t", "std::size_t") else ""
        if written or not plain or (plain == "int") != (floating(unit, argument) not in ("float", "double")):
            return None
        same = (_integer(unit, argument) if plain == "int" else floating(unit, argument)) == told
        text = unit.text(argument) if same else f"({told})({unit.text(argument)})"
        texts[name] = text if argument.type in PLAIN and same else f"({text})"
    if {unit.text(n) for n in walk(result) if n.type == "identifier"} - set(texts):
        return None
    text = substituted(unit, result, texts)
    array = result.child_by_field_name("argument") if result.type == "subscript_expression" else None
    elements = {field.name: field.kind.removeprefix("const ") for field in view.fields}
    same = array is not None and elements.get(unit.text(array)) == unit.text(kind)
    if reference or unit.text(kind) == "auto":
        return text if array is not None else f"({text})"
    return text if same else f"(({unit.text(kind)})({text}))"


def _integer(unit: Unit, node: Node) -> str:
    """The type of an integer expression, where it is surely `int` or that of a variable."""
    node = strip(node)
    if node.type == "number_literal":
        return "int" if unit.text(node).isdigit() and len(unit.text(node)) < MAX_DIGITS else ""
    if node.type == "binary_expression":
        operator, left, right = unit.binary(node)
        kinds = {_integer(unit, left), _integer(unit, right)}
        if operator not in ("+", "-", "*", "/", "%"):
            return ""
        return kinds.pop() if len(kinds) == 1 else "long" if kinds == {"int", "long"} else ""
    declaration = unit.declaration(node) if node.type == "identifier" else None
    return declaration.type if declaration is not None and declaration.form == "value" else ""
