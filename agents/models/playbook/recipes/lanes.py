"""Unroll-and-jam: neighbouring iterations of a loop carried out together. Each scalar of the body becomes a small
array of lanes, each simple statement a loop over the lanes, and the loops inside are entered once for all lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.types import floating
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipes.edits import counter_type, indented, renamed
from tools.languages.cpp_source import statements, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

ENDS = {"strip": "end", "part": "last"}
"""First lane -> what stands behind the last."""
COMPOUND = ("for_statement", "declaration", "break_statement", "continue_statement")


class NotSimple(Exception):
    """The body holds something else than scalars, assignments and counted loops."""


class Lanes:
    """Rewrites the body of `loop` for lanes, and of `rows` (the loop around it) for `count` rows, when given."""

    def __init__(self, unit: Unit, loop: Loop, rows: Loop | None, count: str, private: Sequence[str] = ()) -> None:
        """`private`: scalars declared outside that each iteration sets before it reads them."""
        self.unit, self.loop, self.rows = unit, loop, rows
        self.tile, self.count = "", count
        self.scalars: dict[str, str] = {}
        """Scalar of the body -> element text of its lane array."""
        self.arrays: list[str] = []
        self.private = private
        self.ragged = False
        self.start = "strip"

    def body(self, tile: str, start: str = "strip", ragged: bool = False) -> str:
        """Statements for the lanes from `<variable>_<start>` on, `tile` of them, or fewer when `ragged`; raises
        NotSimple."""
        self.tile, self.start, self.ragged = tile, start, ragged
        self.scalars.clear()
        self.arrays.clear()
        counters = {one.variable for one in (self.loop, self.rows, *self.unit.loops(self.loop.body)) if one is not None}
        for name in self.private:
            if name not in counters:
                self._array(
                    next(n for n in walk(self.loop.body) if n.type == "identifier" and self.unit.text(n) == name)
                )
        text = self._block(statements(self.loop.body))
        return "\n".join([*self.arrays, text])

    def _block(self, nodes: list[Node]) -> str:
        parts: list[str] = []
        simple: list[str] = []
        for node in nodes:
            if node.type in ("compound_statement", "for_statement"):
                parts += self._flush(simple)
                parts.append(self._block(statements(node)) if node.type == "compound_statement" else self._inner(node))
            elif node.type == "declaration":
                simple += self._declaration(node)
            elif node.type not in ("expression_statement", "if_statement") or any(
                n.type in COMPOUND for n in walk(node)
            ):
                raise NotSimple
            else:
                simple.append(renamed(self.unit, node, self.scalars))
        return "\n".join(parts + self._flush(simple))

    def _inner(self, node: Node) -> str:
        loop = self.unit.loop(node)
        if loop is None or any(
            self._moves(bound) for bound in (loop.lower, loop.upper, loop.step) if bound is not None
        ):
            raise NotSimple
        head = self.unit.code[node.start_byte : loop.body.start_byte].decode().rstrip()
        return f"{head} {{\n{shifted(self._block(statements(loop.body)))}\n}}"

    def _moves(self, node: Node) -> bool:
        """Whether something in `node` differs from lane to lane."""
        moving = {self.loop.variable, *self.scalars, *([self.rows.variable] if self.rows else [])}
        return any(n.type == "identifier" and self.unit.text(n) in moving for n in walk(node))

    def _declaration(self, node: Node) -> list[str]:
        """First values of the scalars that a declaration makes; an index or a row has none, each use recomputes it
        from its lane."""
        made = []
        for declarator in node.children_by_field_name("declarator"):
            name, value = declarator, None
            if declarator.type == "init_declarator":
                name, value = (
                    declarator.child_by_field_name("declarator") or declarator,
                    declarator.child_by_field_name("value"),
                )
            pointer = name.type == "pointer_declarator" or (value is not None and self._points(value))
            name = (name.child_by_field_name("declarator") or name) if name.type == "pointer_declarator" else name
            if name.type != "identifier" or (value is not None and value.type == "initializer_list"):
                raise NotSimple
            settled = value is not None and self._settled(name)
            if pointer and not settled:
                raise NotSimple
            if value is not None and settled and (pointer or floating(self.unit, name) == "int"):
                self.scalars[self.unit.text(name)] = f"({renamed(self.unit, value, self.scalars)})"
                continue
            text = renamed(self.unit, value, self.scalars) if value is not None else ""
            self._array(name)
            made += [f"{self.scalars[self.unit.text(name)]} = {text};"] if text else []
        return made

    def _points(self, value: Node) -> bool:
        """A pointer, or one that is moved by something."""
        value = strip_parentheses(value)
        if value.type == "binary_expression":
            operator, left, right = self.unit.split_binary(value)
            return operator in ("+", "-") and (self._points(left) or self._points(right))
        declaration = self.unit.declaration(value) if value.type == "identifier" else None
        if declaration is None or declaration.form == "pointer":
            return declaration is not None
        return declaration.type == "auto" and declaration.initial is not None and self._points(declaration.initial)

    def _settled(self, name: Node) -> bool:
        """Declared once and never written again; no function or element is behind it that another statement could
        change."""
        word = self.unit.text(name)
        declaration = self.unit.declaration(name)
        initial = declaration.initial if declaration is not None else None
        if word in self.scalars or word in self.unit.written_names(self.loop.body) or initial is None:
            return False
        return not any(
            n.type in ("call_expression", "subscript_expression", "pointer_expression", "new_expression")
            for n in walk(initial)
        )

    def _array(self, name: Node) -> None:
        """An array of lanes for the scalar `name`, which must be of a known type and no such array yet."""
        word, kind = self.unit.text(name), element_type(self.unit, name)
        if not kind or word in self.scalars:
            raise NotSimple
        self.arrays.append(f"{kind} {word}_lanes{f'[{self.count}]' if self.rows else ''}[{self.tile}];")
        row = f"[{self.rows.variable} - {self.rows.variable}_strip]" if self.rows is not None else ""
        self.scalars[word] = f"{word}_lanes{row}[{self.loop.variable} - {self.loop.variable}_{self.start}]"

    def _flush(self, simple: list[str]) -> list[str]:
        """The simple statements gathered so far, for every lane."""
        lines = [self._each("\n".join(simple))] if simple else []
        simple.clear()
        return lines

    def _each(self, text: str) -> str:
        """`text` for every lane of every row."""
        lines = f"#pragma omp simd\n{self._header(self.loop, self.tile)} {{\n{shifted(text)}\n}}"
        return self._rows(lines, "" if self.ragged else "#pragma GCC unroll 16\n")

    def _rows(self, lines: str, pragma: str) -> str:
        return lines if self.rows is None else f"{pragma}{self._header(self.rows, self.count)} {{\n{shifted(lines)}\n}}"

    def _header(self, loop: Loop, length: str) -> str:
        v = loop.variable
        start = self.start if loop is self.loop else "strip"
        end = f"{v}_{ENDS[start]}" if self.ragged else f"{v}_{start} + {length}"
        return f"for ({counter_type(loop)} {v} = {v}_{start}; {v} < {end}; ++{v})"


def element_type(unit: Unit, name: Node) -> str:
    """The type of a scalar that an array can be made of; "" where it is not known."""
    kind = floating(unit, name)
    if kind != "int":
        return kind
    declaration = unit.declaration(name)
    return declaration.type if declaration is not None and declaration.type != "auto" else ""


def shifted(text: str) -> str:
    return indented(text, "  ", True)
