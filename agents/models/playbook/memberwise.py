"""Statements over a small struct as statements over its members."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agents.models.playbook.member_values import Elements, MemberValues, Parts
from agents.models.playbook.records import NotUnderstood
from agents.models.playbook.syntax import Edit
from agents.models.playbook.tree import strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node


class Members(MemberValues):
    """Writes out the statements of one function; NotUnderstood as soon as one cannot be."""

    # ------------------------------------------------------------ statements of the host

    def rewritten(self, node: Node) -> list[Edit]:
        """The edits for a statement of the host and all in it."""
        if not self._mentions(node):
            return []
        if node.type in ("compound_statement", "else_clause"):
            return [edit for child in node.named_children for edit in self.rewritten(child)]
        body = node.child_by_field_name("body")
        if node.type in ("for_statement", "while_statement", "do_statement") and body is not None:
            if any(self._mentions(c) for c in node.named_children if c != body):
                raise NotUnderstood
            return self.rewritten(body)
        if node.type == "if_statement":
            return self._branched(node)
        if node.type not in ("declaration", "expression_statement", "return_statement") or node.parent is None:
            raise NotUnderstood
        self.lines = []
        self.statement(node)
        text = f"\n{self.unit.indent(node)}".join(self.lines)
        return [Edit(node.start_byte, node.end_byte, text if node.parent.type == "compound_statement" else f"{{ {text} }}")]

    def _branched(self, node: Node) -> list[Edit]:
        condition = node.child_by_field_name("condition")
        if condition is None or condition.named_child_count != 1 or condition.named_children[0].type == "declaration":
            raise NotUnderstood
        edits = [edit for c in node.named_children if c != condition for edit in self.rewritten(c)]
        if self._mentions(condition):
            self.lines = []
            text = self.said(condition)
            if self.lines and (node.parent is None or node.parent.type != "compound_statement"):
                raise NotUnderstood
            ahead = "".join(f"{line}\n{self.unit.indent(node)}" for line in self.lines)
            edits.append(Edit(condition.start_byte, condition.end_byte, text))
            edits.append(Edit(node.start_byte, node.start_byte, ahead))
        return edits

    def _mentions(self, node: Node) -> bool:
        """Whether the struct, an object of it or a function of it is named."""
        functions = {f.name for f in self.functions}
        for one in walk(node):
            if one.type == "type_identifier" and self.unit.text(one) == self.record.name:
                return True
            if one.type == "identifier" and (self.unit.text(one) in functions or self.binding(one) is not None):
                return True
        return False

    # ------------------------------------------------------------ statements

    def statement(self, node: Node) -> None:
        if node.type == "declaration":
            self._declaration(node)
        elif node.type == "expression_statement" and node.named_child_count == 1:
            self._expression(strip(node.named_children[0]))
        elif node.type == "return_statement" and node.named_child_count == 1 and not self.inside:
            self.lines.append(f"return {self.said(node.named_children[0])};")
        else:
            raise NotUnderstood

    def _declaration(self, node: Node) -> None:
        kind = node.child_by_field_name("type")
        declarators = node.children_by_field_name("declarator")
        qualifiers = [self.unit.text(c) for c in node.named_children if c != kind and c not in declarators]
        if kind is None or not set(qualifiers) <= {"const", "constexpr"}:
            raise NotUnderstood
        constant = "const " if qualifiers else ""
        for declarator in declarators:
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            name = declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
            if name is None or (declarator.type == "init_declarator" and value is None):
                raise NotUnderstood
            mine = self.unit.text(kind) == self.record.name
            if mine or (self.unit.text(kind) == "auto" and value is not None and (self.typed(value) or self._pointed(value) is not None)):
                self._object(name, value, constant)
            else:
                self._scalar(name, value, f"{constant}{self.unit.text(kind)}")

    def _scalar(self, name: Node, value: Node | None, kind: str) -> None:
        if value is not None and value.type == "argument_list":
            raise NotUnderstood
        text = self.said(value) if value is not None else ""
        said = self.unit.text(name)
        if self.inside:
            if name.type != "identifier" or "auto" in kind:
                raise NotUnderstood
            said = self.fresh(said)
            self.names[f"{self.unit.text(name)}@{name.start_byte}"] = said
        self.lines.append(f"{kind} {said} = {text};" if value is not None else f"{kind} {said};")

    def _object(self, name: Node, value: Node | None, constant: str) -> None:
        inner = name.named_children[-1] if name.type in ("pointer_declarator", "reference_declarator") else name
        between = [self.unit.text(c) for c in name.named_children if c != inner]
        if inner.type != "identifier" or not set(between) <= {"__restrict__", "__restrict"} or (name != inner and value is None):
            raise NotUnderstood
        symbol, stem = f"{self.unit.text(inner)}@{inner.start_byte}", self.unit.text(inner)
        pointed = self._pointed(value) if value is not None else None
        if pointed is not None:
            if name.type == "reference_declarator" or (name.type == "identifier" and constant):
                raise NotUnderstood
            constant = "const " if constant or "const" in pointed[0] else ""
            made = self.fresh(stem)
            self.lines.append(f"{constant}{self.record.element}* {made} = {pointed[1]};")
            self.names[symbol] = Elements(made, bool(constant))
        elif name.type == "pointer_declarator":
            raise NotUnderstood
        elif name.type == "reference_declarator" and value is not None and self.lasting(value):
            self.names[symbol] = self._referred(value, constant, stem)
        else:
            if name.type == "reference_declarator" and not constant:
                raise NotUnderstood
            self.names[symbol] = self.kept(self.parts(value) if value is not None else None, stem, constant)

    def _pointed(self, value: Node) -> tuple[str, str] | None:
        """(type as written, text) of a pointer to objects: a buffer of numbers taken for one, or another such pointer."""
        value = strip(value)
        binding = self.binding(value)
        if isinstance(binding, Elements):
            return "const" if binding.constant else "", binding.text
        kind, inner = value.child_by_field_name("type"), value.child_by_field_name("value")
        if value.type == "call_expression":
            function, arguments = value.child_by_field_name("function"), self.unit.arguments(value)
            if function is None or not re.match(r"(?:reinterpret_cast|const_cast)\s*<", self.unit.text(function)) or len(arguments) != 1:
                return None
            listed = function.child_by_field_name("arguments")
            kind, inner = (listed.named_children[0] if listed is not None else None), arguments[0]
        elif value.type != "cast_expression":
            return None
        told = self.unit.text(kind).replace(" ", "") if kind is not None else ""
        if inner is None or told not in (f"{self.record.name}*", f"const{self.record.name}*", f"{self.record.name}const*"):
            return None
        declaration = self.unit.declaration(inner) if inner.type == "identifier" else None
        if declaration is None or declaration.form != "pointer" or self.binding(inner) is not None or self.inside:
            raise NotUnderstood
        before, aliases = self.unit.text(declaration.node).split("*")[0], self.unit.aliases
        same = aliases.get(declaration.type, declaration.type) == aliases.get(self.record.element, self.record.element)
        if not same or "volatile" in before or ("const" in before and "const" not in told):
            raise NotUnderstood
        return told, self.unit.text(inner)

    def _referred(self, value: Node, constant: str, stem: str) -> Parts:
        value = strip(value)
        if value.type == "identifier":
            return Parts(tuple(self.parts(value)))
        made, first = self.fresh(stem), self.parts(value)[0]
        self.lines.append(f"{constant}{self.record.element}* {made} = &{first};")
        return Parts(tuple(f"{made}[{k}]" for k in range(len(self.record.fields))))

    def _expression(self, node: Node) -> None:
        if node.type == "assignment_expression":
            operator, left, right = self.unit.binary(node)
            if operator == "=" and self.typed(left):
                target = self.parts(left)
                texts = self.parts(right)
                if any(n.type != "number_literal" for n in right.named_children) or right.type != "initializer_list":
                    texts = list(self.kept(texts, "value", "const ").texts)
                self.lines += [f"{t} = {text};" for t, text in zip(target, texts, strict=True)]
                return
            found = self.called(node)
            if found is not None:
                self.put_in(*found, discarded=True)
                return
            if self.inside and left.type == "identifier" and not isinstance(self.binding(left), str):
                raise NotUnderstood
            if self.inside and left.type not in ("identifier", "field_expression"):
                raise NotUnderstood
            target_text = self.said(left)
            self.lines.append(f"{target_text} {operator} {self.said(right)};")
            return
        found = self.called(node) if node.type == "call_expression" else None
        if found is None:
            raise NotUnderstood
        self.put_in(*found, discarded=True)
