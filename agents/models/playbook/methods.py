"""The methods of a small struct of numbers as functions that take the object as their first argument: `a.dot(b)` becomes `dot(a, b)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.models.playbook.records import NotUnderstood, fields_of, named_once
from agents.models.playbook.syntax import Edit, Unit, parsed
from agents.models.playbook.tree import contains, walk
from agents.models.playbook.value_structs import numbers_apart

if TYPE_CHECKING:
    from tree_sitter import Node

SELF = "kw_self"
FREE = re.compile(r"operator(?:[-+*/]=?|[<>!=]=|[<>])")
"""Operators that may be functions of their own."""
QUALIFIERS = frozenset({"const", "inline", "constexpr"})


def methods_set_free(unit: Unit) -> list[Edit]:
    """The edits that take one struct with methods apart; none where one of them, or one call of it, is not understood."""
    for node, body in _structs(unit):
        try:
            changed = parsed(unit.apply(_freed(unit, node, body)))
        except NotUnderstood:
            continue
        # Only together with the struct: a function by itself may stand ahead of one that it calls.
        apart = changed.apply(numbers_apart(changed))
        if not changed.broken and SELF not in apart:
            return [Edit(0, len(unit.code), apart)]
    return []


def _structs(unit: Unit) -> Iterator[tuple[Node, Node]]:
    """Structs of numbers with a method that takes or gives such a struct, and their bodies."""
    for node in walk(unit.root):
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if node.type != "struct_specifier" or name is None or body is None or node.parent is None or name.type != "type_identifier":
            continue
        outside = node.parent.type in ("translation_unit", "declaration_list")
        plain = {c.type for c in node.named_children} <= {"type_identifier", "field_declaration_list"}
        methods = [n for n in body.named_children if n.type == "function_definition"]
        values = [c for m in methods for c in m.named_children if c != m.child_by_field_name("body")]
        own = any(n.type == "type_identifier" and unit.text(n) == unit.text(name) for v in values for n in walk(v))
        if outside and plain and own and named_once(unit, unit.text(name)) and fields_of(unit, body, {"function_definition"}):
            yield node, body


def _freed(unit: Unit, node: Node, body: Node) -> list[Edit]:
    name, fields = unit.text(node.named_children[0]), fields_of(unit, body, {"function_definition"})
    methods = [n for n in body.named_children if n.type == "function_definition"]
    edits, made, renamed = [], [], {}
    for method in methods:
        said, text = _free(unit, name, fields, method)
        if not said.startswith("operator"):
            if said in renamed:
                raise NotUnderstood
            renamed[said] = f"kw_{name}_{said}"
        made.append(text)
        edits.append(Edit(method.start_byte, method.end_byte, ""))
    for call in walk(unit.root):
        field = call.child_by_field_name("field") if call.type == "field_expression" else None
        if field is None or unit.text(field) not in renamed:
            continue
        if any(contains(m, call) for m in methods):
            raise NotUnderstood
        edits += _called(unit, name, call, renamed[unit.text(field)])
    end = node.next_sibling
    if end is None or end.type != ";" or any(new in unit.source for new in renamed.values()):
        raise NotUnderstood
    return [*edits, Edit(end.end_byte, end.end_byte, "\n" + "\n".join(made))]


def _free(unit: Unit, name: str, fields: dict[str, str], method: Node) -> tuple[str, str]:
    """The name of a method and its text as a function."""
    kind, body, declarator = (method.child_by_field_name(f) for f in ("type", "body", "declarator"))
    reference = declarator is not None and declarator.type == "reference_declarator"
    inner = declarator.named_children[0] if reference and declarator is not None else declarator
    said_node = inner.child_by_field_name("declarator") if inner is not None else None
    listed = inner.child_by_field_name("parameters") if inner is not None else None
    if kind is None or body is None or declarator is None or inner is None or said_node is None or listed is None:
        raise NotUnderstood
    said = unit.text(said_node).replace(" ", "")
    before = unit.code[method.start_byte : declarator.start_byte].decode().replace("&", " ").split()
    behind = [unit.text(c) for c in inner.named_children if c not in (said_node, listed)]
    known = said_node.type == "field_identifier" or (said_node.type == "operator_name" and FREE.fullmatch(said))
    plain = all(p.type == "parameter_declaration" for p in listed.named_children)
    if not known or not plain or not set(before) <= {*QUALIFIERS, unit.text(kind)} or not set(behind) <= {"const", "noexcept"}:
        raise NotUnderstood
    constant = "const " if "const" in behind else ""
    parameters = ", ".join([f"{constant}{name}& {SELF}", *(unit.text(p) for p in listed.named_children)])
    free = said if said.startswith("operator") else f"kw_{name}_{said}"
    head = f"static inline {unit.text(kind)}{'&' if reference else ''} {free}({parameters})"
    return said, f"{head} {_with_object(unit, fields, method, body)}"


def _is_method(name: Node) -> bool:
    return name.parent is not None and name.parent.type == "function_declarator"


def _with_object(unit: Unit, fields: dict[str, str], method: Node, body: Node) -> str:
    """A method's body with the object that it is called for named."""
    edits: list[Edit] = []
    others = {unit.text(n) for n in walk(method.parent) if n.type == "field_identifier" and _is_method(n)}
    for node in walk(body):
        above = node.parent
        if node.type == "lambda_expression" or (node.type == "identifier" and unit.text(node) in others):
            raise NotUnderstood
        if node.type == "this" and above is not None:
            starred = above.type == "pointer_expression" and unit.text(above).startswith("*")
            if above.type != "field_expression" and not starred:
                raise NotUnderstood
            # `this->x` up to its member, or all of `*this`.
            member = above.child_by_field_name("field")
            edits.append(
                Edit(above.start_byte, member.start_byte if member is not None else above.end_byte, f"{SELF}." if member else SELF)
            )
        elif node.type == "identifier" and unit.text(node) in fields:
            own = unit.declaration(node)
            if own is None or not contains(method, own.node):
                edits.append(Edit(node.start_byte, node.end_byte, f"{SELF}.{unit.text(node)}"))
            elif above is not None and above.type == "init_declarator":
                raise NotUnderstood
    text = unit.code[body.start_byte : body.end_byte]
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        text = text[: edit.start - body.start_byte] + edit.text.encode() + text[edit.end - body.start_byte :]
    return text.decode()


def _called(unit: Unit, name: str, member: Node, free: str) -> list[Edit]:
    """`a.dot(b)` or `p[i].dot(b)` as a call of the function."""
    call, target = member.parent, member.child_by_field_name("argument")
    arguments = call.child_by_field_name("arguments") if call is not None and call.type == "call_expression" else None
    base = target.child_by_field_name("argument") if target is not None and target.type == "subscript_expression" else target
    declaration = unit.declaration(base) if base is not None and base.type == "identifier" else None
    if call is None or arguments is None or target is None or declaration is None or declaration.type != name:
        raise NotUnderstood
    if call.child_by_field_name("function") != member or declaration.form not in (
        ("pointer",) if base != target else ("value", "reference")
    ):
        raise NotUnderstood
    if "->" in unit.code[target.end_byte : member.end_byte].decode():
        raise NotUnderstood
    more = ", " if arguments.named_child_count else ""
    return [Edit(call.start_byte, arguments.start_byte + 1, f"{free}({unit.text(target)}{more}")]
