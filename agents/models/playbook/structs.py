"""Small structs of the file itself that only look at memory (a pointer, sizes, `operator()`), taken apart: recipes read plain arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.playbook.callables import EFFECTS, parameters_of, substituted
from agents.models.playbook.element_types import floating
from agents.models.playbook.syntax import ENTRY, Edit, Unit, contains, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

PLAIN = frozenset({"identifier", "number_literal", "field_expression"})
"""Arguments that need no parentheses where they are put in."""
MAX_DIGITS = 10
"""A number of fewer is an int."""


@dataclass(frozen=True)
class Field:
    """`const float* data`: what stands before, around and behind the name."""

    kind: str
    before: str
    name: str

    def declared(self, holder: str) -> str:
        return f"{self.kind} {self.before}{holder}_{self.name}"


@dataclass(frozen=True)
class View:
    """A struct of plain members and of methods that only return an expression."""

    name: str
    node: Node
    fields: tuple[Field, ...]
    methods: dict[str, Node]


def taken_apart(unit: Unit) -> list[Edit]:
    """One call of a method replaced by what it returns; where none is left, one struct replaced by its members."""
    for view in _views(unit):
        inlined = next((edit for use in _uses(unit, view) if (edit := _inlined(unit, view, use)) is not None), None)
        if inlined is not None:
            return [inlined]
        edits = _flattened(unit, view)
        if edits:
            return edits
    return []


def _views(unit: Unit) -> Iterator[View]:
    named = [unit.text(n) for n in walk(unit.root) if n.type == "type_identifier" and _names_a_type(n)]
    for node in walk(unit.root):
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if node.type != "struct_specifier" or name is None or body is None or name.type != "type_identifier":
            continue
        outside = node.parent is not None and node.parent.type in ("translation_unit", "declaration_list")
        read = _members(unit, body)
        if (
            outside
            and read is not None
            and named.count(unit.text(name)) == 1
            and not any(n.type == "base_class_clause" for n in node.named_children)
        ):
            yield View(unit.text(name), node, *read)


def _names_a_type(name: Node) -> bool:
    """Stands where a type gets its name, not where it is used."""
    parent = name.parent
    if parent is None or parent.type.endswith("_parameter_declaration"):
        return parent is not None
    if parent.type == "type_definition":
        return name in parent.children_by_field_name("declarator")
    return parent.type.endswith(("_specifier", "alias_declaration")) and parent.child_by_field_name("name") == name


def _members(unit: Unit, body: Node) -> tuple[tuple[Field, ...], dict[str, Node]] | None:
    fields: list[Field] = []
    methods: dict[str, Node] = {}
    for node in body.named_children:
        if node.type == "comment":
            continue
        if node.type == "field_declaration":
            found = _fields(unit, node)
            if not found:
                return None
            fields += found
            continue
        declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
        while declarator is not None and declarator.type == "reference_declarator":
            declarator = declarator.named_children[0]
        name = declarator.child_by_field_name("declarator") if declarator is not None else None
        said = unit.text(name).replace(" ", "") if name is not None else ""
        if name is None or name.type not in ("operator_name", "field_identifier") or said in methods:
            return None
        if re.search(r"\bvirtual\b|\bdecltype\b|->", unit.text(node).split("{")[0]):
            return None
        methods[said] = node
    return (tuple(fields), methods) if fields else None


def _fields(unit: Unit, node: Node) -> list[Field]:
    """`const float *a, *b;`; empty where a member is more than a number or a pointer to numbers."""
    declarators = node.children_by_field_name("declarator")
    kind = node.child_by_field_name("type")
    others = [c for c in node.named_children if c not in declarators and c != kind and c.type != "type_qualifier"]
    if not declarators or kind is None or kind.type not in ("primitive_type", "sized_type_specifier", "type_identifier") or others:
        return []
    text = unit.code[node.start_byte : declarators[0].start_byte].decode().strip()
    if re.search(r"\b(?:static|mutable|volatile)\b", text):
        return []
    found = []
    for declarator in declarators:
        name = declarator
        while name.type == "pointer_declarator" and name.named_children:
            name = name.named_children[-1]
        if name.type != "field_identifier":
            return []
        found.append(Field(text, unit.code[declarator.start_byte : name.start_byte].decode(), unit.text(name)))
    return found


# ---------------------------------------------------------------- methods


def _uses(unit: Unit, view: View) -> Iterator[Node]:
    """Mentions of objects of the struct, outside of it."""
    for node in walk(unit.root):
        if node.type == "identifier" and not contains(view.node, node):
            declaration = unit.declaration(node)
            if declaration is not None and declaration.type == view.name and not contains(declaration.node, node):
                yield node


def _inlined(unit: Unit, view: View, use: Node) -> Edit | None:
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


# ---------------------------------------------------------------- members


def _flattened(unit: Unit, view: View) -> list[Edit]:
    """Parameters and locals of the struct's type become its members; nothing where one mention of it is of another kind."""
    parts = _parameters(unit, view), _locals(unit, view)
    if parts[0] is None or parts[1] is None:
        return []
    settled = {**parts[0], **parts[1]}
    edits = [Edit(node.start_byte, node.end_byte, text) for node, text in settled.items()]
    given = _arguments(unit, view)
    if given is None:
        return []
    edits += given
    uses = list(_uses(unit, view))
    taken = {unit.text(n) for n in walk(unit.root) if n.type == "identifier"}
    pairs = {(unit.text(u), f.name) for u in uses for f in view.fields}
    names = {f"{holder}_{name}" for holder, name in pairs}
    if names & taken or len(names) < len(pairs):
        return []
    for use in uses:
        if any(edit.start <= use.start_byte and use.end_byte <= edit.end for edit in edits):
            continue
        edit = _member(unit, view, use)
        if edit is None:
            return []
        edits.append(edit)
    for node in walk(unit.root):
        if node.type != "type_identifier" or unit.text(node) != view.name or contains(view.node, node):
            continue
        if not any(edit.start <= node.start_byte and node.end_byte <= edit.end for edit in edits):
            return []
    return edits


def _parameters(unit: Unit, view: View) -> dict[Node, str] | None:
    """Each parameter of the struct's type with its members in its place; None where one cannot be replaced."""
    found: dict[Node, str] = {}
    for function in [f for f in walk(unit.root) if f.type == "function_definition" and not contains(view.node, f)]:
        name = unit.function_name(function)
        for parameter in [p for p in unit.parameters(function) if p.type == view.name]:
            if name is None or name == ENTRY or unit.functions.get(name) != function or not _only_called(unit, name):
                return None
            if parameter.form not in ("value", "reference") or (parameter.form == "reference" and "const" not in unit.text(parameter.node)):
                return None
            found[parameter.node] = ", ".join(field.declared(parameter.name) for field in view.fields)
    return found


def _locals(unit: Unit, view: View) -> dict[Node, str] | None:
    """Each local of the struct's type as locals of its members; None where one cannot be replaced."""
    found: dict[Node, str] = {}
    for node in walk(unit.root):
        kind = node.child_by_field_name("type") if node.type == "declaration" else None
        if kind is None or unit.text(kind) != view.name:
            continue
        made = _declared(unit, view, node)
        if made is None:
            return None
        found[node] = made
    return found


def _only_called(unit: Unit, name: str) -> bool:
    """Nobody takes the function's address, declares it before, or names it otherwise."""
    for node in walk(unit.root):
        if node.type == "identifier" and unit.text(node) == name:
            parent = node.parent
            called = parent is not None and parent.type == "call_expression" and parent.child_by_field_name("function") == node
            if not called and unit.functions[name].child_by_field_name("declarator") != parent:
                return False
    return True


def _declared(unit: Unit, view: View, node: Node) -> str | None:
    """`const View m{a, n};` as declarations of its members."""
    declarators = node.children_by_field_name("declarator")
    name = declarators[0].child_by_field_name("declarator") if len(declarators) == 1 else None
    value = declarators[0].child_by_field_name("value") if name is not None else None
    if name is None or value is None or name.type != "identifier" or node.parent is None or node.parent.type != "compound_statement":
        return None
    values = _values(unit, view, value)
    if values is None or "static" in unit.text(node).split(view.name)[0]:
        return None
    return " ".join(f"{field.declared(unit.text(name))} = {text};" for field, text in zip(view.fields, values, strict=True))


def _values(unit: Unit, view: View, node: Node) -> list[str] | None:
    """What a braced list gives the members."""
    node = strip(node)
    if node.type == "compound_literal_expression":
        kind, inner = node.child_by_field_name("type"), node.child_by_field_name("value")
        if kind is None or inner is None or unit.text(kind) != view.name:
            return None
        node = inner
    given = [n for n in node.named_children if n.type != "comment"] if node.type == "initializer_list" else []
    odd = any(n.type in EFFECTS or n.type in ("initializer_list", "initializer_pair") for g in given for n in walk(g))
    texts = [_spoken(unit, view, g) for g in given]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(given) == len(view.fields) and not odd else None


def _spoken(unit: Unit, view: View, node: Node) -> str | None:
    """The text of a value in which members of other objects may be named."""
    text = unit.code[node.start_byte : node.end_byte]
    for use in reversed([use for use in _uses(unit, view) if contains(node, use)]):
        edit = _member(unit, view, use)
        if edit is None:
            return None
        text = text[: edit.start - node.start_byte] + edit.text.encode() + text[edit.end - node.start_byte :]
    return text.decode()


def _arguments(unit: Unit, view: View) -> list[Edit] | None:
    """Objects made where a function is called, as the values of their members; None where an argument is of another kind."""
    found = []
    for call in [n for n in walk(unit.root) if n.type == "call_expression"]:
        function = unit.functions.get(unit.callee(call) or "")
        if function is None or not any(p.type == view.name for p in unit.parameters(function)):
            continue
        parameters, arguments = unit.parameters(function), unit.arguments(call)
        if len(parameters) != len(arguments):
            return None
        for parameter, argument in zip(parameters, arguments, strict=True):
            declaration = unit.declaration(argument) if argument.type == "identifier" else None
            if parameter.type != view.name or (declaration is not None and declaration.type == view.name):
                continue
            values = _values(unit, view, argument)
            if values is None:
                return None
            found.append(Edit(argument.start_byte, argument.end_byte, ", ".join(values)))
    return found


def _argument(unit: Unit, node: Node, view: View) -> bool:
    """Stands for a parameter of the struct's type in a call of a function of this file."""
    call = node.parent.parent if node.parent is not None and node.parent.type == "argument_list" else None
    function = unit.functions.get(unit.callee(call) or "") if call is not None and call.type == "call_expression" else None
    if call is None or function is None:
        return False
    pairs = zip(unit.parameters(function), unit.arguments(call), strict=False)
    return any(p.type == view.name and a == node for p, a in pairs)


def _member(unit: Unit, view: View, use: Node) -> Edit | None:
    """`m.size` becomes `m_size`; `m` as an argument becomes all its members."""
    parent = use.parent
    if parent is not None and parent.type == "field_expression":
        field = parent.child_by_field_name("field")
        around = parent.parent
        written = around is not None and (
            (around.type == "assignment_expression" and around.child_by_field_name("left") == parent)
            or around.type == "update_expression"
            or (around.type == "pointer_expression" and unit.text(around).startswith("&"))
        )
        if field is None or written or "->" in unit.text(parent) or unit.text(field) not in {f.name for f in view.fields}:
            return None
        return Edit(parent.start_byte, parent.end_byte, f"{unit.text(use)}_{unit.text(field)}")
    if _argument(unit, use, view):
        return Edit(use.start_byte, use.end_byte, ", ".join(f"{unit.text(use)}_{f.name}" for f in view.fields))
    return None
