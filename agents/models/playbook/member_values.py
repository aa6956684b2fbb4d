"""Expressions over a small struct as expressions over its members, each value computed once and in the same place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agents.models.playbook.effects import PURE
from agents.models.playbook.records import Function, NotUnderstood, Parameter, Record
from agents.models.playbook.syntax import Unit
from agents.models.playbook.tree import statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

EFFECTS = frozenset(
    {"assignment_expression", "update_expression", "lambda_expression", "comma_expression", "new_expression", "throw_statement"}
)
STEADY = frozenset({"identifier", "number_literal", "binary_expression", "parenthesized_expression"})
"""What an index may be made of to be written more than once."""


@dataclass(frozen=True)
class Parts:
    """An object as the texts of its members."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Elements:
    """A pointer to objects as a pointer to their first member."""

    text: str
    constant: bool


Binding = Parts | Elements | str


@dataclass
class MemberValues(ABC):
    """Writes out the expressions of one function; NotUnderstood as soon as one cannot be."""

    unit: Unit
    record: Record
    functions: Sequence[Function]
    host: Node
    names: dict[str, Binding]
    taken: set[str]
    """New names, of the whole file: none of them hides another."""
    lines: list[str] = field(default_factory=list)
    inside: tuple[Function, ...] = ()
    """The functions that are being put in, outer first."""
    perhaps: bool = False
    """In a part of an expression that may not be evaluated: nothing may be computed ahead of it."""

    @abstractmethod
    def statement(self, node: Node) -> None:
        """Writes out one statement behind the others."""

    def binding(self, name: Node) -> Binding | None:
        declaration = self.unit.declaration(name) if name.type == "identifier" else None
        return self.names.get(declaration.symbol) if declaration is not None else None

    def lasting(self, value: Node) -> bool:
        """An object that is there without the expression."""
        return strip(value).type in ("identifier", "subscript_expression", "pointer_expression")

    def kept(self, texts: Sequence[str] | None, stem: str, constant: str) -> Parts:
        """The members in scalars of their own."""
        made = tuple(self.fresh(f"{stem}_{name}") for name in self.record.fields)
        for number, (name, kind) in enumerate(zip(made, self.record.fields.values(), strict=True)):
            self.lines.append(f"{constant}{kind} {name} = {texts[number]};" if texts is not None else f"{kind} {name};")
        return Parts(made)

    # ------------------------------------------------------------ expressions

    def typed(self, node: Node) -> bool:
        """Whether an expression is an object of the struct."""
        node = strip(node)
        if node.type == "identifier":
            return isinstance(self.binding(node), Parts)
        if node.type in ("subscript_expression", "pointer_expression"):
            argument = node.child_by_field_name("argument")
            starred = node.type == "subscript_expression" or self.unit.text(node).startswith("*")
            return starred and argument is not None and isinstance(self.binding(strip(argument)), Elements)
        if node.type == "compound_literal_expression":
            kind = node.child_by_field_name("type")
            return kind is not None and self.unit.text(kind) == self.record.name
        found = self.called(node) if node.type != "assignment_expression" else None
        return found is not None and found[0].result == self.record.name

    def called(self, node: Node) -> tuple[Function, list[Node]] | None:
        """The function of the struct that an expression calls, by name or by operator, and its arguments."""
        name, arguments = "", []
        if node.type in ("binary_expression", "assignment_expression"):
            operator, left, right = self.unit.binary(node)
            name, arguments = f"operator{operator}", [left, right]
        elif node.type == "unary_expression" and (inner := node.child_by_field_name("argument")) is not None:
            operator_node = node.child_by_field_name("operator")
            name, arguments = f"operator{self.unit.text(operator_node) if operator_node is not None else ''}", [inner]
        elif node.type == "call_expression" and (function := node.child_by_field_name("function")) is not None:
            if function.type != "identifier":
                return None
            name, arguments = self.unit.text(function), self.unit.arguments(node)
        kinds = [self.typed(a) for a in arguments]
        mine = [f for f in self.functions if f.name == name]
        if not mine or (node.type != "call_expression" and not any(kinds)):
            return None
        fitting = [f for f in mine if [p.type == self.record.name for p in f.parameters] == kinds]
        others = sum(self._defines(n, name) for n in walk(self.unit.root)) != len(mine)
        if len(fitting) != 1 or others or (node.type == "call_expression" and self.unit.declaration(node.named_children[0]) is not None):
            raise NotUnderstood
        return fitting[0], arguments

    def _defines(self, node: Node, name: str) -> bool:
        """Declares a function of this name."""
        declared = node.child_by_field_name("declarator") if node.type == "function_declarator" else None
        return declared is not None and self.unit.text(declared).replace(" ", "") == name

    def parts(self, node: Node) -> list[str]:
        """The members of an object, as texts for one use each (the elements and scalars of a lasting one: for many)."""
        node = strip(node)
        binding = self.binding(node)
        if isinstance(binding, Parts):
            return list(binding.texts)
        if node.type == "compound_literal_expression" and self.typed(node) and (value := node.child_by_field_name("value")) is not None:
            return self.parts(value)
        if node.type == "initializer_list":
            given = [n for n in node.named_children if n.type != "comment"]
            if len(given) > len(self.record.fields) or any(n.type in ("initializer_list", "initializer_pair") for n in given):
                raise NotUnderstood
            if any(self.typed(n) for n in given):
                raise NotUnderstood
            return [*(self.said(n) for n in given), *("0" for _ in range(len(self.record.fields) - len(given)))]
        if node.type in ("subscript_expression", "pointer_expression") and self.typed(node):
            return self._element(node)
        found = self.called(node)
        if found is None or found[0].result != self.record.name or found[0].reference:
            raise NotUnderstood
        result = self.put_in(*found)
        assert isinstance(result, Parts)
        return list(result.texts)

    def _element(self, node: Node) -> list[str]:
        argument = node.child_by_field_name("argument")
        binding = self.binding(strip(argument)) if argument is not None else None
        assert isinstance(binding, Elements)
        size = len(self.record.fields)
        if node.type == "pointer_expression":
            return [f"{binding.text}[{k}]" for k in range(size)]
        indices = node.child_by_field_name("indices")
        if indices is None or indices.named_child_count != 1:
            raise NotUnderstood
        index = indices.named_children[0]
        text = self.said(index)
        if not all(n.type in STEADY for n in walk(index)) or (self.inside and index.type != "number_literal"):
            made = self.fresh("at")
            self.emit(f"const long {made} = {text};")
            text = made
        first = f"{size} * (long){text}" if text.isidentifier() or text.isdigit() else f"{size} * (long)({text})"
        return [f"{binding.text}[{first}{f' + {k}' if k else ''}]" for k in range(size)]

    def said(self, node: Node) -> str:
        """A scalar expression in the words of the host."""
        if node.type in EFFECTS or (node.type == "type_identifier" and self.unit.text(node) == self.record.name) or self.typed(node):
            raise NotUnderstood
        if node.type == "field_expression":
            return self._member(node)
        if node.type == "identifier":
            return self._name(node)
        found = self.called(node)
        if found is not None:
            result = self.put_in(*found)
            if not isinstance(result, str):
                raise NotUnderstood
            return result
        if node.type == "call_expression" and not self._harmless(node):
            raise NotUnderstood
        return self._spliced(node)

    def _spliced(self, node: Node) -> str:
        text, place = [], node.start_byte
        lazy = node.type == "conditional_expression" or (node.type == "binary_expression" and self.unit.binary(node)[0] in ("&&", "||"))
        for number, child in enumerate(node.named_children):
            before, self.perhaps = self.perhaps, self.perhaps or (lazy and number > 0)
            text += [self.unit.code[place : child.start_byte].decode(), self.said(child)]
            place, self.perhaps = child.end_byte, before
        return "".join([*text, self.unit.code[place : node.end_byte].decode()])

    def _name(self, node: Node) -> str:
        binding = self.binding(node)
        if isinstance(binding, Parts | Elements):
            raise NotUnderstood
        text = self.unit.text(node)
        # A name of the file means the same at the call, unless the host has one that is spelled like it.
        if binding is None and self.inside and any(n.type == "identifier" and self.unit.text(n) == text for n in walk(self.host)):
            declared = {
                d.symbol for n in walk(self.host) if n.type == "identifier" and self.unit.text(n) == text if (d := self.unit.declaration(n))
            }
            own = self.unit.declaration(node)
            if declared - ({own.symbol} if own is not None else set()):
                raise NotUnderstood
        return binding if binding is not None else text

    def _member(self, node: Node) -> str:
        argument, name = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if argument is None or name is None:
            raise NotUnderstood
        arrow = self.unit.code[argument.end_byte : name.start_byte].decode().strip() == "->"
        binding = self.binding(strip(argument))
        place = list(self.record.fields).index(self.unit.text(name)) if self.unit.text(name) in self.record.fields else -1
        if arrow and isinstance(binding, Elements) and place >= 0:
            return f"{binding.text}[{place}]"
        if not self.typed(argument):
            return self._spliced(node)
        if arrow or place < 0:
            raise NotUnderstood
        texts = self.parts(argument)
        if not self.lasting(argument):
            texts = list(self._settled(texts).texts)
        return texts[place]

    def _harmless(self, call: Node) -> bool:
        """A call that changes nothing: of the library, a cast, or of a function of the file that only returns an expression."""
        unit, name = self.unit, self.unit.callee(call) or ""
        function = call.child_by_field_name("function")
        if function is not None and function.type in ("template_function", "primitive_type"):
            return unit.text(function).split("<")[0].strip() in ("static_cast", "float", "double", "int", "long", "std::max", "std::min")
        if function is not None and unit.text(function).replace(" ", "").startswith(("std::max<", "std::min<", "std::numeric_limits<")):
            return True
        if name in PURE and unit.library(call):
            return True
        own = unit.functions.get(name)
        body = own.child_by_field_name("body") if own is not None else None
        inner = statements(body) if body is not None else []
        if len(inner) != 1 or inner[0].type != "return_statement" or any(n.type in EFFECTS for n in walk(inner[0])):
            return False
        calls = [n for n in walk(inner[0]) if n.type == "call_expression"]
        return all((unit.callee(n) or "") in PURE and unit.library(n) for n in calls)

    # ------------------------------------------------------------ calls

    def put_in(self, function: Function, arguments: Sequence[Node], discarded: bool = False) -> Parts | str | None:
        """What a function returns, its statements written out ahead."""
        writes = any(p.written for p in function.parameters)
        if function in self.inside or (writes and not discarded) or len(arguments) != len(function.parameters):
            raise NotUnderstood
        changed = set(self.unit.assigned(function.node)) | {
            self.unit.text(n) for a in walk(function.node) if a.type == "assignment_expression" for n in walk(a.child_by_field_name("left"))
        }
        names: dict[str, Binding] = {}
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            names[parameter.symbol] = self._given(function, parameter, argument, parameter.name in changed)
        inner = replace(self, names=names, inside=(*self.inside, function))
        *before, last = function.body or (None,)
        for statement in before:
            if statement is None or self.perhaps:
                raise NotUnderstood
            inner.statement(statement)
        if last is not None and last.type != "return_statement" and function.result == "void":
            inner.statement(last)
            return None
        if last is None or last.type != "return_statement" or last.named_child_count != 1:
            raise NotUnderstood
        value = last.named_children[0]
        if discarded:
            if not (function.reference and inner.typed(value) and strip(value).type == "identifier"):
                raise NotUnderstood
            return None
        if function.result == self.record.name:
            return Parts(tuple(inner.parts(value)))
        made = self.fresh(function.name.removeprefix("kw_") if function.name.isidentifier() else "value")
        self.emit(f"const {function.result} {made} = {inner.said(value)};")
        return made

    def _given(self, function: Function, parameter: Parameter, argument: Node, changed: bool) -> Binding:
        writes = any(p.written for p in function.parameters)
        if parameter.type == self.record.name:
            texts = self.parts(argument)
            if parameter.written:
                if not self.lasting(argument):
                    raise NotUnderstood
                return Parts(tuple(texts))
            if not parameter.reference and (changed or writes):
                return self._settled(texts, "")
            return Parts(tuple(texts)) if self.lasting(argument) else self._settled(texts)
        if parameter.reference and writes:
            raise NotUnderstood
        argument = strip(argument)
        declaration = self.unit.declaration(argument) if argument.type == "identifier" else None
        text = self.said(argument)
        plain = (
            declaration is not None and declaration.form == "value" and declaration.type == parameter.type and declaration.kind != "global"
        )
        literal = argument.type == "number_literal" and {"f": "float"}.get(text[-1].lower(), "") == parameter.type and "x" not in text
        if (plain or literal) and not changed:
            return text
        made = self.fresh(parameter.name)
        self.emit(f"{'' if changed else 'const '}{parameter.type} {made} = {text};")
        return made

    def _settled(self, texts: Sequence[str], constant: str = "const ") -> Parts:
        if self.perhaps:
            raise NotUnderstood
        return self.kept(texts, "value", constant)

    def emit(self, line: str) -> None:
        if self.perhaps:
            raise NotUnderstood
        self.lines.append(line)

    def fresh(self, stem: str) -> str:
        number = 1
        while (name := f"kw_{stem}_{number}") in self.taken or name in self.unit.source:
            number += 1
        self.taken.add(name)
        return name
