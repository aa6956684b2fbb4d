"""A view's members as arguments and locals of their own, where no mention of it stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.callables import EFFECTS
from agents.models.playbook.syntax import ENTRY, Edit, Unit
from agents.models.playbook.tree import contains, strip, walk
from agents.models.playbook.views import View, uses

if TYPE_CHECKING:
    from tree_sitter import Node


def flattened(unit: Unit, view: View) -> list[Edit]:
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
    mentions = list(uses(unit, view))
    taken = {unit.text(n) for n in walk(unit.root) if n.type == "identifier"}
    pairs = {(unit.text(u), f.name) for u in mentions for f in view.fields}
    names = {f"{holder}_{name}" for holder, name in pairs}
    if names & taken or len(names) < len(pairs):
        return []
    for use in mentions:
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
    for use in reversed([use for use in uses(unit, view) if contains(node, use)]):
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
