"""Calls of <algorithm> and <numeric> over pointers and vectors, written out as the counted loops that recipes read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.playbook.callables import EFFECTS, copies_what_changes, parameters_of, result_type, substituted
from agents.models.playbook.element_types import floating
from agents.models.playbook.reductions import call_name
from agents.models.playbook.syntax import Edit, Unit, fresh
from agents.models.playbook.tree import statements, strip

if TYPE_CHECKING:
    from tree_sitter import Node

VALUES = {"accumulate": (3, 4), "reduce": (3, 4), "inner_product": (4,)}
"""Calls that give a number -> how many arguments are understood."""
POSITIONS = {"max_element": ">", "min_element": "<"}
ACTIONS = {"transform": (4, 5), "for_each": (3,), "fill": (3,), "fill_n": (3,), "copy": (3,), "copy_n": (3,), "partial_sum": (3,),
           "inclusive_scan": (3,)}  # fmt: skip
FUNCTORS = {"plus": "+", "multiplies": "*", "minus": "-", "divides": "/"}

CHANGED = r"\b{}\s*(?:=[^=]|\.\s*(?:resize|push_back|emplace_back|assign|insert|clear|swap)\b)"
"""What gives a vector another length."""


@dataclass(frozen=True)
class Span:
    """Elements base[lower] to base[upper - 1]."""

    base: str
    lower: str
    upper: str


def written_out(unit: Unit) -> list[Edit]:
    """The edits for one call, those in front first; none where no call is understood."""
    for function in unit.reachable:
        for call in _calls(function):
            name = call_name(unit, call)
            callee = call.child_by_field_name("function")
            if callee is None or not unit.text(callee).removeprefix("::").startswith("std::"):
                continue
            edits: list[Edit] | None = None
            if len(unit.arguments(call)) in VALUES.get(name, ()):
                edits = _value(unit, call, name)
            elif name in POSITIONS and len(unit.arguments(call)) == 2:
                edits = _position(unit, call, POSITIONS[name])
            elif len(unit.arguments(call)) in ACTIONS.get(name, ()):
                edits = _action(unit, call, name)
            if edits:
                return edits
    return []


def _calls(function: Node) -> list[Node]:
    """Calls outside lambdas, in document order."""
    found, stack = [], [function]
    while stack:
        node = stack.pop()
        if node.type == "lambda_expression":
            continue
        if node.type == "call_expression":
            found.append(node)
        stack.extend(reversed(node.named_children))
    return found


def _statement(call: Node) -> Node | None:
    """The statement that certainly carries out `call` once, where one can be put in front of it."""
    current: Node | None = call
    while current is not None and current.type not in ("expression_statement", "declaration", "return_statement"):
        if current.type in ("lambda_expression", "conditional_expression", "for_statement", "while_statement", "if_statement"):
            return None
        if current.type == "binary_expression" and any(c.type in ("&&", "||") for c in current.children):
            return None
        current = current.parent
    if current is None or current.parent is None or (current.parent.type == "for_statement" and current.type == "declaration"):
        return None
    return current


def _span(unit: Unit, first: Node, last: Node) -> Span | None:
    if any(n.type in EFFECTS for one in (first, last) for n in _all(one)):
        return None
    one, other = strip(first), strip(last)
    container = re.fullmatch(r"(\w+)\.c?begin\(\)", unit.text(one))
    if container is not None:
        whole = re.fullmatch(rf"{container[1]}\.c?end\(\)", unit.text(other))
        size = _length(unit, _all(one)[-1]) if whole is not None else None
        return Span(container[1], "0", size) if size is not None else None
    if any(
        n.type == "call_expression" and not re.search(r"\.data\(\)$|cast", unit.text(n).split("<")[0]) for n in (*_all(one), *_all(other))
    ):
        return None
    base = _plain(unit, one)
    if other.type == "binary_expression" and unit.binary(other)[0] == "+":
        _, left, right = unit.binary(other)
        if unit.text(left) == unit.text(one):
            return Span(base, "0", _plain(unit, right))
        if one.type == "binary_expression" and unit.binary(one)[0] == "+" and unit.text(unit.binary(one)[1]) == unit.text(left):
            return Span(_plain(unit, left), _plain(unit, unit.binary(one)[2]), _plain(unit, right))
    return Span(base, "0", f"{_plain(unit, other)} - {base}")


def _length(unit: Unit, vector: Node) -> str | None:
    """What a local vector was made with, where nothing changes it later."""
    declaration = unit.declaration(vector) if vector.type == "identifier" else None
    if declaration is None or declaration.form != "object" or re.search(CHANGED.format(declaration.name), unit.source):
        return None
    # `vector<float> v(n)` may be parsed as a function's declaration; its text is the same.
    found = re.search(rf"\b{declaration.name}\s*[({{]([\w\s*+]+)[,)}}]", unit.text(declaration.node))
    return f"({found[1].strip()})" if found is not None and "{" not in found[0] else None


def _counted(unit: Unit, first: Node, count: Node) -> Span | None:
    return Span(_plain(unit, first), "0", _plain(unit, count)) if not any(n.type in EFFECTS for n in _all(first)) else None


def _output(unit: Unit, node: Node) -> str | None:
    """A pointer or the beginning of a vector, to be subscripted."""
    node = strip(node)
    container = re.fullmatch(r"(\w+)\.begin\(\)", unit.text(node))
    if container is not None:
        return container[1]
    calls = [n for n in _all(node) if n.type in ("call_expression", *EFFECTS)]
    return _plain(unit, node) if not calls or unit.text(node).endswith(".data()") else None


def _plain(unit: Unit, node: Node) -> str:
    node = strip(node)
    return unit.text(node) if node.type in ("identifier", "number_literal", "call_expression") else f"({unit.text(node)})"


def _all(node: Node) -> list[Node]:
    found, stack = [], [node]
    while stack:
        found.append(stack.pop())
        stack.extend(found[-1].named_children)
    return found


def _element(base: str, counter: str, span: Span) -> str:
    return f"{base}[{counter}]" if span.lower == "0" else f"{base}[{counter} - {span.lower}]"


def _loop(counter: str, span: Span, body: Sequence[str]) -> str:
    # Elements are counted in long: a size_t would not compare with a difference of pointers.
    text = " ".join(body)
    return f"for (long {counter} = {span.lower}; {counter} < {span.upper}; {counter}++) {{ {text} }}"


def _applied(unit: Unit, function: Node, arguments: Sequence[str], target: str) -> list[str] | None:
    """Statements that leave function(arguments) in `target` (or only carry it out, where that is empty)."""
    function, around = strip(function), None
    if function.type == "identifier":
        declaration = unit.declaration(function)
        if declaration is None or declaration.initial is None:
            return (
                [f"{target} = {unit.text(function)}({', '.join(arguments)});"] if target and unit.text(function) in unit.functions else None
            )
        function, around = declaration.initial, unit.function_of(function)
    functor = re.fullmatch(r"std::(\w+)<\w*>\s*(?:\(\)|\{\})", unit.text(function))
    if functor is not None and functor[1] in FUNCTORS and len(arguments) == 2 and target:
        return [f"{target} = {arguments[0]} {FUNCTORS[functor[1]]} {arguments[1]};"]
    parameters = parameters_of(unit, function) if function.type == "lambda_expression" else None
    told = result_type(unit, function) if parameters is not None else None
    if told is None or copies_what_changes(unit, around, function):
        return None
    cast = f"({told})" if told and told != "auto" else ""
    body = function.child_by_field_name("body")
    if parameters is None or body is None or len(parameters) != len(arguments):
        return None
    texts, made = {}, []
    for (kind, name, mutable), argument in zip(parameters, arguments, strict=True):
        if mutable or argument == target:
            texts[name] = argument
        elif any(re.search(rf"\b{name}\b", text) for text in (*arguments, target)):
            return None
        else:
            made.append(f"const {kind.removeprefix('const ')} {name} = {argument};")
    inner = statements(body)
    for node in inner:
        if node.type == "return_statement" and node == inner[-1] and target:
            value = substituted(unit, node.named_children[0], texts)
            made.append(f"{target} = {cast}({value});" if cast else f"{target} = {value};")
        elif any(n.type == "return_statement" for n in _all(node)):
            return None
        else:
            made.append(substituted(unit, node, texts))
    return made if not target or (inner and inner[-1].type == "return_statement") else None


def _in_front(unit: Unit, statement: Node, text: str, within: list[Edit]) -> list[Edit]:
    indent = unit.indent(statement)
    if statement.parent is not None and statement.parent.type == "compound_statement":
        return [Edit(statement.start_byte, statement.start_byte, f"{text}\n{indent}"), *within]
    return [
        Edit(statement.start_byte, statement.start_byte, f"{{ {text}\n{indent}"),
        *within,
        Edit(statement.end_byte, statement.end_byte, " }"),
    ]


def _value(unit: Unit, call: Node, name: str) -> list[Edit] | None:
    arguments, statement = unit.arguments(call), _statement(call)
    span = _span(unit, arguments[0], arguments[1])
    kind = floating(unit, arguments[-1 if name == "inner_product" else 2])
    if statement is None or span is None or not kind:
        return None
    total, counter = fresh(unit, "kw_total"), fresh(unit, "kw_at")
    element = f"{span.base}[{counter}]"
    initial = unit.text(arguments[3 if name == "inner_product" else 2])
    body: list[str] | None
    if name == "inner_product":
        second = _output(unit, arguments[2])
        body = [f"{total} += {element} * {_element(second, counter, span)};"] if second is not None else None
    elif len(arguments) == 4:
        body = _applied(unit, arguments[3], [total, element], total)
    else:
        body = [f"{total} += {element};"]
    if body is None:
        return None
    declared = {"int": "auto"}.get(kind, kind)
    text = f"{declared} {total} = {initial}; {_loop(counter, span, body)}"
    return _in_front(unit, statement, text, [Edit(call.start_byte, call.end_byte, total)])


def _position(unit: Unit, call: Node, sign: str) -> list[Edit] | None:
    """`*max_element(...)` as a value; `max_element(...) - first` as an index."""
    arguments, statement, around = unit.arguments(call), _statement(call), call.parent
    span = _span(unit, arguments[0], arguments[1])
    if statement is None or span is None or around is None or span.lower != "0":
        return None
    counter, best = fresh(unit, "kw_at"), fresh(unit, "kw_best")
    if around.type == "pointer_expression" and unit.text(around).startswith("*"):
        element = f"{span.base}[{counter}]"
        text = f"auto {best} = {span.base}[0]; "
        text += f"for (long {counter} = 1; {counter} < {span.upper}; {counter}++) {{ if ({element} {sign} {best}) {best} = {element}; }}"
        return _in_front(unit, statement, text, [Edit(around.start_byte, around.end_byte, best)])
    index = around.type == "binary_expression" and unit.binary(around)[0] == "-" and unit.binary(around)[1] == call
    if not index or unit.text(unit.binary(around)[2]) != unit.text(arguments[0]):
        return None
    text = f"long {best} = 0; for (long {counter} = 1; {counter} < {span.upper}; {counter}++) {{ "
    text += f"if ({span.base}[{counter}] {sign} {span.base}[{best}]) {best} = {counter}; }}"
    return _in_front(unit, statement, text, [Edit(around.start_byte, around.end_byte, best)])


def _action(unit: Unit, call: Node, name: str) -> list[Edit] | None:
    arguments, statement = unit.arguments(call), call.parent
    if statement is None or statement.type != "expression_statement":
        return None
    span = (_counted if name.endswith("_n") else _span)(unit, arguments[0], arguments[1])
    if span is None:
        return None
    counter = fresh(unit, "kw_at")
    element = f"{span.base}[{counter}]"
    outputs = {"copy": 2, "copy_n": 2, "partial_sum": 2, "inclusive_scan": 2, "transform": len(arguments) - 2}
    place = _output(unit, arguments[outputs[name]]) if name in outputs else ""
    if place is None:
        return None
    target = _element(place, counter, span) if place else ""
    body: list[str] | None
    if name in ("fill", "fill_n"):
        body = [f"{element} = {unit.text(arguments[2])};"]
    elif name.startswith("copy"):
        body = [f"{target} = {element};"]
    elif name == "for_each":
        body = _applied(unit, arguments[2], [element], "")
    elif name == "transform":
        other = _output(unit, arguments[2]) if len(arguments) == 5 else None
        second = [_element(other, counter, span)] if other is not None else []
        body = _applied(unit, arguments[-1], [element, *second], target) if len(second) == len(arguments) - 4 else None
    else:
        total = fresh(unit, "kw_total")
        loop = _loop(counter, span, [f"{total} += {element};", f"{target} = {total};"])
        kind = floating(unit, arguments[0])
        text = f"{{ {kind} {total} = 0; {loop} }}" if kind in ("float", "double") else ""
        return [Edit(statement.start_byte, statement.end_byte, text)] if text else None
    return [Edit(statement.start_byte, statement.end_byte, _loop(counter, span, body))] if body is not None else None
