"""Lambdas and templates of the file itself, written out where they are called: recipes read plain functions only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agents.models.playbook.element_types import floating
from agents.models.playbook.syntax import Edit, Unit
from agents.models.playbook.tree import contains, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

EFFECTS = frozenset({"assignment_expression", "update_expression", "lambda_expression"})
WRAPPED = frozenset({"binary_expression", "conditional_expression", "cast_expression", "unary_expression", "comma_expression"})


def substituted(unit: Unit, node: Node, texts: Mapping[str, str]) -> str:
    """Text of `node` with plain names and type names replaced."""
    text = unit.code[node.start_byte : node.end_byte]
    for inner in reversed([n for n in walk(node) if n.type in ("identifier", "type_identifier") and unit.text(n) in texts]):
        start, end = inner.start_byte - node.start_byte, inner.end_byte - node.start_byte
        text = text[:start] + texts[unit.text(inner)].encode() + text[end:]
    return text.decode()


# ---------------------------------------------------------------- lambdas


def parameters_of(unit: Unit, function: Node) -> list[tuple[str, str, bool]] | None:
    """(type, name, whether it is a reference to something that may be written) of a lambda's parameters; None where one is odd."""
    declarator = function.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    found = []
    for node in listed.named_children if listed is not None else ():
        kind, inner = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        if node.type != "parameter_declaration" or kind is None or inner is None:
            return None
        reference = inner.type == "reference_declarator"
        name = inner.named_children[0] if reference and inner.named_children else inner
        if name.type != "identifier":
            return None
        found.append((unit.text(kind), unit.text(name), reference and "const" not in unit.text(node)))
    return found


def copies_what_changes(unit: Unit, around: Node | None, function: Node) -> bool:
    """Whether a lambda captured by value something that the function around it writes (None: it is called where it stands), or keeps a
    state of its own."""
    captures, declarator = function.child_by_field_name("captures"), function.child_by_field_name("declarator")
    text = unit.text(captures).strip("[] ") if captures is not None else ""
    if "mutable" in (unit.text(declarator) if declarator is not None else "") or re.search(r"\w\s*=|\*", text):
        return True
    names = {unit.text(n) for n in walk(function.child_by_field_name("body")) if n.type == "identifier"}
    return text not in ("", "&") and around is not None and bool(names & {*unit.assigned(around), *_filled(unit, around)})


def _filled(unit: Unit, around: Node) -> Iterator[str]:
    """Arrays and vectors of the function of which elements are written: a copy keeps the old ones, that of a pointer does not."""
    for node in walk(around):
        target = node.child_by_field_name({"assignment_expression": "left", "update_expression": "argument"}.get(node.type, "none"))
        while target is not None and target.type in ("subscript_expression", "parenthesized_expression"):
            target = target.named_children[0]
        found = unit.declaration(target) if target is not None and target.type == "identifier" else None
        if found is not None and found.form in ("array", "object"):
            yield found.name


def result_type(unit: Unit, function: Node) -> str | None:
    """The type behind a lambda's `->`; "" where there is none, None where it is more than a word."""
    declarator = function.child_by_field_name("declarator")
    told = unit.text(declarator).partition("->")[2].strip() if declarator is not None else ""
    return told if re.fullmatch(r"(?:[\w:]+)?", told) else None


def result_of(function: Node) -> Node | None:
    """The expression of a lambda that only returns."""
    body = function.child_by_field_name("body")
    inner = statements(body) if body is not None else []
    only = inner[0] if len(inner) == 1 and inner[0].type == "return_statement" else None
    return only.named_children[0] if only is not None and only.named_child_count == 1 else None


def inline_lambdas(unit: Unit) -> list[Edit]:
    """One call of a local lambda that only returns a value, replaced by that value; or a lambda that nobody calls any more, dropped."""
    for function in unit.reachable:
        body = function.child_by_field_name("body")
        for node in walk(body):
            value = node.child_by_field_name("value") if node.type == "init_declarator" else None
            name = node.child_by_field_name("declarator") if value is not None and value.type == "lambda_expression" else None
            if value is None or name is None or name.type != "identifier" or node.parent is None or node.parent.type != "declaration":
                continue
            uses = [n for n in walk(body) if n.type == "identifier" and unit.text(n) == unit.text(name) and n != name]
            if not uses and node.parent.named_child_count == 2:
                return [Edit(node.parent.start_byte, node.parent.end_byte, "")]
            for use in uses:
                edit = _inlined(unit, function, value, use)
                if edit is not None:
                    return [edit]
    return []


def _inlined(unit: Unit, function: Node, value: Node, use: Node) -> Edit | None:
    call = use.parent
    if call is None or call.type != "call_expression" or call.child_by_field_name("function") != use:
        return None
    arguments, parameters, result = unit.arguments(call), parameters_of(unit, value), result_of(value)
    if parameters is None or result is None or len(arguments) != len(parameters) or any(n.type in EFFECTS for n in walk(result)):
        return None
    calls = [n for a in arguments for n in walk(a) if n.type == "call_expression"]
    if any(not unit.library(n) for n in calls):
        # It may have effects, and be made as often as the parameter is named.
        return None
    if any(n.type in EFFECTS for a in arguments for n in walk(a)) or not _same_names(unit, function, value, result):
        return None
    told = result_type(unit, value)
    if told is None or copies_what_changes(unit, function, value):
        return None
    texts = {}
    for (kind, name, written), argument in zip(parameters, arguments, strict=True):
        text = unit.text(argument)
        same = "int" if kind in ("int", "long") else kind if kind in ("float", "double") else ""
        if kind != "auto" and not written and floating(unit, argument) != same:
            text = f"({kind})({text})"
        texts[name] = f"({text})" if argument.type in WRAPPED or text != unit.text(argument) else text
    text = substituted(unit, result, texts)
    return Edit(call.start_byte, call.end_byte, f"({told})({text})" if told and told != "auto" else f"({text})")


def _same_names(unit: Unit, function: Node, value: Node, result: Node) -> bool:
    """What the lambda captures is called the same wherever it is called: each name is declared once in the function."""
    declared: dict[str, int] = {}
    for node in walk(function):
        if node.type not in ("init_declarator", "parameter_declaration", "declaration") or contains(value, node):
            continue
        for name in node.children_by_field_name("declarator"):
            while (inner := name.child_by_field_name("declarator")) is not None and name.type != "init_declarator":
                name = inner
            if name.type == "identifier":
                declared[unit.text(name)] = declared.get(unit.text(name), 0) + 1
    return all(declared.get(unit.text(n), 0) <= 1 for n in walk(result) if n.type == "identifier")


# ---------------------------------------------------------------- templates


def concrete_templates(unit: Unit) -> list[Edit]:
    """One function template whose calls all ask for the same types, as a plain function."""
    templates = [n for n in walk(unit.root) if n.type == "template_declaration"]
    for template in templates:
        function = next((n for n in template.named_children if n.type == "function_definition"), None)
        name = unit.function_name(function) if function is not None else None
        if function is None or name is None or name in unit.functions:
            continue
        # Another template that calls it, or is it for one type (`f<float>(`): which body is meant is the compiler's to say.
        if any(re.search(rf"\b{name}\s*[(<]", unit.text(t)) for t in templates if t != template):
            continue
        calls = [c for c in walk(unit.root) if c.type == "call_expression" and _called(unit, c) == name and not contains(template, c)]
        bindings = [_bindings(unit, template, function, call) for call in calls]
        if not bindings or bindings[0] is None or any(b != bindings[0] for b in bindings):
            continue
        text = substituted(unit, function, bindings[0])
        # GCC inlines a template more readily than a plain function.
        if not re.search(r"\b(?:static|inline)\b", text.split("(")[0]):
            text = f"inline {text}"
        edits = [Edit(template.start_byte, template.end_byte, text)]
        for call in calls:
            callee = call.child_by_field_name("function")
            if callee is not None and callee.type == "template_function":
                edits.append(Edit(callee.start_byte, callee.end_byte, name))
        return edits
    return []


def _called(unit: Unit, call: Node) -> str | None:
    function = call.child_by_field_name("function")
    if function is not None and function.type == "template_function":
        function = function.child_by_field_name("name")
    return unit.text(function) if function is not None and function.type == "identifier" else None


def _bindings(unit: Unit, template: Node, function: Node, call: Node) -> dict[str, str] | None:
    """Template parameter -> its text in this call; None where one cannot be told."""
    listed = template.child_by_field_name("parameters")
    names = []
    for node in listed.named_children if listed is not None else ():
        name = node.child_by_field_name("declarator") or (node.named_children[-1] if node.named_children else None)
        if node.type not in ("type_parameter_declaration", "parameter_declaration") or name is None or not name.type.endswith("identifier"):
            return None
        names.append(unit.text(name))
    callee = call.child_by_field_name("function")
    given = callee.child_by_field_name("arguments") if callee is not None and callee.type == "template_function" else None
    texts = [unit.text(a) for a in given.named_children] if given is not None else []
    found = dict(zip(names, texts, strict=False))
    for parameter, argument in zip(unit.parameters(function), unit.arguments(call), strict=False):
        if parameter.type in names and parameter.type not in found:
            kind = floating(unit, strip(argument))
            if kind not in ("float", "double"):
                return None
            found[parameter.type] = kind
    return found if set(found) == set(names) else None
