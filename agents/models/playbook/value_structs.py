"""Small structs of numbers (a point, a complex number) taken apart: one scalar a member, their functions put in where they are called."""

from __future__ import annotations

import re

from agents.models.playbook.macros import macro_words
from agents.models.playbook.member_values import Elements
from agents.models.playbook.memberwise import Members
from agents.models.playbook.records import Function, NotUnderstood, Record, functions_of, records
from agents.models.playbook.syntax import Edit, Unit, dropped
from agents.models.playbook.tree import contains, walk


def numbers_apart(unit: Unit) -> list[Edit]:
    """The edits that take one struct apart everywhere; none where one use of it is not understood."""
    for record in records(unit):
        try:
            edits = _everywhere(unit, record)
        except NotUnderstood:
            continue
        if edits:
            return edits
    return []


def _everywhere(unit: Unit, record: Record) -> list[Edit]:
    functions = functions_of(unit, record)
    hosts = [n for n in walk(unit.root) if n.type == "function_definition" and not any(contains(f.node, n) for f in functions)]
    edits: list[Edit] = []
    taken: set[str] = set()
    objects: set[str] = set()
    for host in hosts:
        body = host.child_by_field_name("body")
        if body is None or any(contains(other, host) for other in hosts if other != host):
            continue
        given: dict[str, Elements] = {}
        for parameter in unit.parameters(host):
            kind = parameter.node.child_by_field_name("type")
            if parameter.type == record.name and kind is not None:
                edits.append(Edit(kind.start_byte, kind.end_byte, record.element))
                given[parameter.symbol] = Elements(parameter.name, "const" in unit.text(parameter.node).split("*")[0])
        members = Members(unit, record, functions, host, dict(given), taken)
        edits += members.rewritten(body)
        mine = {symbol.split("@")[0] for symbol in members.names}
        pragmas = {word for n in walk(body) if n.type == "preproc_call" for word in re.findall(r"\w+", unit.text(n))}
        if mine & pragmas or (mine and any(n.type == "goto_statement" for n in walk(body))):
            raise NotUnderstood
        objects |= mine
    if not edits:
        return []
    edits += [dropped(unit, f.node) for f in functions]
    edits.append(dropped(unit, record.node))
    _nothing_left(unit, record, functions, edits, objects)
    return edits


def _nothing_left(unit: Unit, record: Record, functions: list[Function], edits: list[Edit], objects: set[str]) -> None:
    """NotUnderstood where the struct or a function of it is named outside of what is replaced, or where a macro may name what is."""
    gone = {record.name, *(f.name for f in functions)}
    for node in walk(unit.root):
        named = (
            node.type in ("type_identifier", "identifier", "namespace_identifier", "operator_name")
            and unit.text(node).replace(" ", "") in gone
        )
        if named and not any(e.start <= node.start_byte and node.end_byte <= e.end for e in edits):
            raise NotUnderstood
    inside = {unit.text(n) for f in functions for n in walk(f.node) if n.type in ("identifier", "field_identifier")}
    if macro_words(unit) & {*gone, *inside, *objects, *record.fields}:
        raise NotUnderstood
