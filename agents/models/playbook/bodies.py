"""A function whose loops move with its caller's (a window around a pixel), put in where it is called: recipes read the whole nest then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.effects import PURE
from agents.models.playbook.element_types import INTEGER_TYPES
from agents.models.playbook.macros import macro_words
from agents.models.playbook.scopes import Declaration
from agents.models.playbook.syntax import ENTRY, Edit, Unit, dropped
from agents.models.playbook.tree import contains, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

NUMBERS = INTEGER_TYPES | {"float", "double"}
EFFECTS = frozenset({"assignment_expression", "update_expression", "lambda_expression", "new_expression", "comma_expression"})
ODD = frozenset(
    {"goto_statement", "labeled_statement", "lambda_expression", "storage_class_specifier", "try_statement", "throw_statement",
     "asm_statement", "gnu_asm_expression", "alias_declaration", "type_definition", "struct_specifier", "class_specifier",
     "enum_specifier", "union_specifier", "using_declaration", "preproc_call", "preproc_def", "preproc_if", "preproc_ifdef",
     "preproc_function_def"}
)  # fmt: skip
"""What a body may not hold: it would mean something else in another function, or twice."""


def bodies_put_in(unit: Unit) -> list[Edit]:
    """The edits for one call that is the whole right side of a statement inside a loop; none where no call is such a one."""
    for caller in unit.reachable:
        if any(n.type == "goto_statement" for n in walk(caller)):
            continue
        for loop in unit.loops(caller.child_by_field_name("body") or caller):
            for call in walk(loop.body):
                function = unit.functions.get(unit.callee(call) or "") if call.type == "call_expression" else None
                if function is None or function in (caller, unit.functions.get(ENTRY)):
                    continue
                edit = _put_in(unit, caller, function, call)
                if edit is not None:
                    return [edit, *_no_longer_called(unit, function)]
    return []


def _no_longer_called(unit: Unit, function: Node) -> list[Edit]:
    """A function of this file alone, whose one call is gone, taken away."""
    name = unit.function_name(function)
    mentions = sum(n.type == "identifier" and unit.text(n) == name for n in walk(unit.root))
    if mentions != 2 or not any(c.type == "storage_class_specifier" and unit.text(c) == "static" for c in function.named_children):
        return []
    return [dropped(unit, function)]


def _put_in(unit: Unit, caller: Node, function: Node, call: Node) -> Edit | None:
    statement, body, kind = _statement(unit, call), function.child_by_field_name("body"), function.child_by_field_name("type")
    declared = function.child_by_field_name("declarator")
    listed = declared.child_by_field_name("parameters") if declared is not None else None
    if statement is None or statement.parent is None or body is None or kind is None or listed is None:
        return None
    parameters, arguments, inner = unit.parameters(function), unit.arguments(call), statements(body)
    last = inner[-1] if inner else None
    if last is None or last.type != "return_statement" or last.named_child_count != 1 or unit.text(kind) not in NUMBERS:
        return None
    if len(parameters) != len(arguments) or listed.named_child_count != len(arguments) or not _plain(unit, function, body, last):
        return None
    if not all(_known(unit, p, a) for p, a in zip(parameters, arguments, strict=True)) or not _moving(unit, function, call):
        return None
    names = _own_names(unit, caller, function)
    if names is None:
        return None
    lines = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        if _same(unit, function, parameter, argument):
            names[parameter.symbol] = unit.text(argument)
            continue
        lines.append(f"{_renamed(unit, parameter.node, names)} = {unit.text(argument)};")
    indent = unit.indent(statement)
    lines += [_renamed(unit, one, names).replace(f"\n{unit.indent(one)}", f"\n{indent}") for one in inner[:-1]]
    value = last.named_children[0]
    own = unit.declaration(value) if value.type == "identifier" else None
    text = _renamed(unit, value, names)
    same = own is not None and own.form == "value" and own.type == unit.text(kind)
    result = text if same else f"({unit.text(kind)})({text})"
    start, end = call.start_byte, call.end_byte
    lines.append(unit.code[statement.start_byte : start].decode() + result + unit.code[end : statement.end_byte].decode())
    whole = f"\n{indent}".join(lines)
    return Edit(statement.start_byte, statement.end_byte, whole if statement.parent.type == "compound_statement" else f"{{ {whole} }}")


def _statement(unit: Unit, call: Node) -> Node | None:
    """`x = f(...);` or `T x = f(...);` around a call, in a block or as the body of a loop."""
    value = call
    while value.parent is not None and value.parent.type == "parenthesized_expression":
        value = value.parent
    above = value.parent
    if above is None or above.parent is None or above.parent.parent is None:
        return None
    statement, place = above.parent, above.parent.parent.type
    if above.type == "assignment_expression" and statement.type == "expression_statement" and above.child_by_field_name("right") == value:
        left = above.child_by_field_name("left")
        quiet = left is not None and not any(n.type in EFFECTS or n.type == "call_expression" for n in walk(left))
        return statement if quiet and place in ("compound_statement", "for_statement") else None
    single = statement.type == "declaration" and len(statement.children_by_field_name("declarator")) == 1
    fixed = any(c.type == "storage_class_specifier" for c in statement.named_children)
    if above.type == "init_declarator" and above.child_by_field_name("value") == value and single and not fixed:
        return statement if place == "compound_statement" else None
    return None


def _plain(unit: Unit, function: Node, body: Node, last: Node) -> bool:
    """One return, at the end; nothing that would mean something else in another place."""
    if any(n.type in ODD or (n.type == "return_statement" and n != last) for n in walk(body)):
        return False
    if not any(n.type == "for_statement" for n in walk(body)) or "volatile" in unit.text(function):
        return False
    return all(unit.callee(n) != unit.function_name(function) for n in walk(body) if n.type == "call_expression")


def _known(unit: Unit, parameter: Declaration, argument: Node) -> bool:
    """A number or a pointer to numbers, given by an expression without effects."""
    if parameter.form not in ("value", "pointer") or parameter.type not in NUMBERS:
        return False
    for node in walk(argument):
        if node.type in EFFECTS or (node.type == "call_expression" and not ((unit.callee(node) or "") in PURE and unit.library(node))):
            return False
    return True


def _moving(unit: Unit, function: Node, call: Node) -> bool:
    """Whether a loop of the function starts where a counter of the caller says."""
    counters = {one.variable for one in unit.loops(unit.function_of(call)) if contains(one.body, call)}
    given = zip(unit.parameters(function), unit.arguments(call), strict=True)
    moved = {p.name for p, a in given if any(n.type == "identifier" and unit.text(n) in counters for n in walk(a))}
    bounds = [b for one in unit.loops(function.child_by_field_name("body") or function) for b in (one.lower, one.upper)]
    return any(n.type == "identifier" and unit.text(n) in moved for b in bounds for n in walk(b))


def _own_names(unit: Unit, caller: Node, function: Node) -> dict[str, str] | None:
    """Declaration -> name in the caller of everything that the function declares; None where a name means two things."""
    used = {unit.text(n) for n in walk(caller) if n.type in ("identifier", "type_identifier", "field_identifier")}
    local = {unit.text(n) for n in walk(caller) if n.type == "identifier" and (d := unit.declaration(n)) is not None and d.kind != "global"}
    found: dict[str, str] = {}
    taken: set[str] = set()
    for node in walk(function):
        name = unit.text(node)
        if node.type != "identifier" or node == _name_of(function):
            continue
        declaration = unit.declaration(node)
        if declaration is None or declaration.kind == "global":
            if name in local or (declaration is None and name in {unit.text(n) for n in walk(caller) if n.type == "lambda_expression"}):
                return None
        elif declaration.symbol not in found:
            chosen, number = name, 1
            while chosen in used or chosen in taken:
                chosen, number = f"kw_{name}_{number}", number + 1
            taken.add(chosen)
            found[declaration.symbol] = chosen
    declared_types = any(n.type in ("alias_declaration", "type_definition", "struct_specifier", "using_declaration") for n in walk(caller))
    words = macro_words(unit)
    return None if declared_types or words & (used | taken | {symbol.split("@")[0] for symbol in found}) else found


def _name_of(function: Node) -> Node | None:
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        declarator = declarator.child_by_field_name("declarator")
    return declarator


def _same(unit: Unit, function: Node, parameter: Declaration, argument: Node) -> bool:
    """The argument is a variable of the caller that may stand for the parameter."""
    argument = strip(argument)
    own = unit.declaration(argument) if argument.type == "identifier" else None
    if (
        own is None
        or own.kind == "global"
        or (own.form, own.type) != (parameter.form, parameter.type)
        or parameter.name in unit.assigned(function)
    ):
        return False
    return own.form == "value" or not any("**" in unit.text(d.node).replace(" ", "") for d in (own, parameter))


def _renamed(unit: Unit, node: Node, names: dict[str, str]) -> str:
    text = unit.code[node.start_byte : node.end_byte]
    for inner in reversed([n for n in walk(node) if n.type == "identifier"]):
        name = unit.text(inner)
        declaration = unit.declaration(inner)
        chosen = names.get(declaration.symbol, name) if declaration is not None else name
        text = text[: inner.start_byte - node.start_byte] + chosen.encode() + text[inner.end_byte - node.start_byte :]
    return text.decode()
