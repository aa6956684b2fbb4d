"""Unroll-and-jam: neighbouring iterations of a loop carried out together. Each scalar of the body becomes a small
array of lanes, each simple statement a loop over the lanes, and the loops inside are entered once for all lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import CountedLoop
from agents.models.playbook.analysis.types import arithmetic_type
from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.recipes.edits import counter_type, indent_lines, text_with_names
from tools.languages.cpp_source import statements, strip_parentheses, walk

if TYPE_CHECKING:
    from tree_sitter import Node

LAST_LANE_BY_FIRST = {"strip": "end", "part": "last"}
"""First lane -> what stands behind the last."""
COMPOUND_STATEMENTS = ("for_statement", "declaration", "break_statement", "continue_statement")


class UnsupportedBodyError(Exception):
    """The body holds something else than scalars, assignments and counted loops."""


class LaneRewriter:
    """Rewrites the body of `loop` for lanes, and of `rows` (the loop around it) for `count` rows, when given."""

    def __init__(
        self, unit: CppUnit, loop: CountedLoop, rows: CountedLoop | None, count: str, private: Sequence[str] = ()
    ) -> None:
        """`private`: scalars declared outside that each iteration sets before it reads them."""
        self.unit, self.loop, self.rows = unit, loop, rows
        self.tile, self.count = "", count
        self.scalars: dict[str, str] = {}
        """Scalar of the body -> element text of its lane array."""
        self.arrays: list[str] = []
        self.private = private
        self.is_ragged = False
        self.start = "strip"

    def body(self, tile: str, start: str = "strip", ragged: bool = False) -> str:
        """Statements for the lanes from `<variable>_<start>` on, `tile` of them, or fewer when `ragged`; raises
        UnsupportedBodyError."""
        self.tile, self.start, self.is_ragged = tile, start, ragged
        self.scalars.clear()
        self.arrays.clear()
        counters = {one.variable for one in (self.loop, self.rows, *self.unit.loops(self.loop.body)) if one is not None}
        for name in self.private:
            if name not in counters:
                self._add_lane_array(
                    next(n for n in walk(self.loop.body) if n.type == "identifier" and self.unit.text(n) == name)
                )
        text = self._rewrite_block(statements(self.loop.body))
        return "\n".join([*self.arrays, text])

    def _rewrite_block(self, nodes: list[Node]) -> str:
        parts: list[str] = []
        simple: list[str] = []
        for node in nodes:
            if node.type in ("compound_statement", "for_statement"):
                parts += self._take_statements(simple)
                parts.append(
                    self._rewrite_block(statements(node))
                    if node.type == "compound_statement"
                    else self._rewrite_inner_loop(node)
                )
            elif node.type == "declaration":
                simple += self._rewrite_declaration(node)
            elif node.type not in ("expression_statement", "if_statement") or any(
                n.type in COMPOUND_STATEMENTS for n in walk(node)
            ):
                raise UnsupportedBodyError
            else:
                simple.append(text_with_names(self.unit, node, self.scalars))
        return "\n".join(parts + self._take_statements(simple))

    def _rewrite_inner_loop(self, node: Node) -> str:
        loop = self.unit.loop(node)
        if loop is None or any(
            self._differs_between_lanes(bound) for bound in (loop.lower, loop.upper, loop.step) if bound is not None
        ):
            raise UnsupportedBodyError
        head = self.unit.code[node.start_byte : loop.body.start_byte].decode().rstrip()
        return f"{head} {{\n{indent_block(self._rewrite_block(statements(loop.body)))}\n}}"

    def _differs_between_lanes(self, node: Node) -> bool:
        """Whether something in `node` differs from lane to lane."""
        moving = {self.loop.variable, *self.scalars, *([self.rows.variable] if self.rows else [])}
        return any(n.type == "identifier" and self.unit.text(n) in moving for n in walk(node))

    def _rewrite_declaration(self, node: Node) -> list[str]:
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
            pointer = name.type == "pointer_declarator" or (value is not None and self._is_pointer(value))
            name = (name.child_by_field_name("declarator") or name) if name.type == "pointer_declarator" else name
            if name.type != "identifier" or (value is not None and value.type == "initializer_list"):
                raise UnsupportedBodyError
            settled = value is not None and self._is_constant(name)
            if pointer and not settled:
                raise UnsupportedBodyError
            if value is not None and settled and (pointer or arithmetic_type(self.unit, name) == "int"):
                self.scalars[self.unit.text(name)] = f"({text_with_names(self.unit, value, self.scalars)})"
                continue
            text = text_with_names(self.unit, value, self.scalars) if value is not None else ""
            self._add_lane_array(name)
            made += [f"{self.scalars[self.unit.text(name)]} = {text};"] if text else []
        return made

    def _is_pointer(self, value: Node) -> bool:
        """A pointer, or one that is moved by something."""
        value = strip_parentheses(value)
        if value.type == "binary_expression":
            operator, left, right = self.unit.split_binary(value)
            return operator in ("+", "-") and (self._is_pointer(left) or self._is_pointer(right))
        declaration = self.unit.declaration(value) if value.type == "identifier" else None
        if declaration is None or declaration.form == "pointer":
            return declaration is not None
        return declaration.type == "auto" and declaration.initial is not None and self._is_pointer(declaration.initial)

    def _is_constant(self, name: Node) -> bool:
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

    def _add_lane_array(self, name: Node) -> None:
        """An array of lanes for the scalar `name`, which must be of a known type and no such array yet."""
        word, kind = self.unit.text(name), widenable_scalar_type(self.unit, name)
        if not kind or word in self.scalars:
            raise UnsupportedBodyError
        self.arrays.append(f"{kind} {word}_lanes{f'[{self.count}]' if self.rows else ''}[{self.tile}];")
        row = f"[{self.rows.variable} - {self.rows.variable}_strip]" if self.rows is not None else ""
        self.scalars[word] = f"{word}_lanes{row}[{self.loop.variable} - {self.loop.variable}_{self.start}]"

    def _take_statements(self, simple: list[str]) -> list[str]:
        """The simple statements gathered so far, for every lane."""
        lines = [self._for_each_lane("\n".join(simple))] if simple else []
        simple.clear()
        return lines

    def _for_each_lane(self, text: str) -> str:
        """`text` for every lane of every row."""
        lines = f"#pragma omp simd\n{self._loop_header(self.loop, self.tile)} {{\n{indent_block(text)}\n}}"
        return self._for_each_row(lines, "" if self.is_ragged else "#pragma GCC unroll 16\n")

    def _for_each_row(self, lines: str, pragma: str) -> str:
        return (
            lines
            if self.rows is None
            else f"{pragma}{self._loop_header(self.rows, self.count)} {{\n{indent_block(lines)}\n}}"
        )

    def _loop_header(self, loop: CountedLoop, length: str) -> str:
        v = loop.variable
        start = self.start if loop is self.loop else "strip"
        end = f"{v}_{LAST_LANE_BY_FIRST[start]}" if self.is_ragged else f"{v}_{start} + {length}"
        return f"for ({counter_type(loop)} {v} = {v}_{start}; {v} < {end}; ++{v})"


def widenable_scalar_type(unit: CppUnit, name: Node) -> str:
    """The type of a scalar that an array can be made of; "" where it is not known."""
    kind = arithmetic_type(unit, name)
    if kind != "int":
        return kind
    declaration = unit.declaration(name)
    return declaration.type if declaration is not None and declaration.type != "auto" else ""


def indent_block(text: str) -> str:
    return indent_lines(text, "  ", True)
