"""Several neighbouring iterations of a loop carried out together: each scalar of the body becomes a small array of lanes, each simple
statement a loop over the lanes, and the loops inside are entered once for all lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.element_types import floating
from agents.models.playbook.syntax import Edit, Loop, Unit, statements, walk
from agents.models.playbook.tile import counter_type

if TYPE_CHECKING:
    from tree_sitter import Node


class Lanes:
    """Rewrites the body of `loop` for `tile` lanes, and of `rows` (the loop around it) for `count` rows, when given."""

    def __init__(self, unit: Unit, loop: Loop, tile: str, rows: Loop | None, count: str, private: Sequence[str] = ()) -> None:
        """`private`: scalars declared outside that each iteration sets before it reads them."""
        self.unit, self.loop, self.rows = unit, loop, rows
        self.tile, self.count = tile, count
        self.scalars: dict[str, str] = {}
        """Scalar of the body -> element text of its lane array."""
        self.arrays: list[str] = []
        self.private = private

    def body(self) -> str | None:
        """Statements for one full strip; None where the body holds something else than scalars, assignments and counted loops."""
        counters = {one.variable for one in (self.loop, self.rows, *self.unit.loops(self.loop.body)) if one is not None}
        for name in self.private:
            if name in counters:
                continue
            use = next(n for n in walk(self.loop.body) if n.type == "identifier" and self.unit.text(n) == name)
            if not self._array(use):
                return None
        text = self._block(statements(self.loop.body))
        return "\n".join([*self.arrays, text]) if text is not None else None

    def _block(self, nodes: list[Node]) -> str | None:
        parts: list[str] = []
        simple: list[str] = []
        for node in nodes:
            if node.type == "preproc_call":
                continue
            if node.type == "compound_statement":
                parts += self._flush(simple)
                block = self._block(statements(node))
                if block is None:
                    return None
                parts.append(block)
                continue
            if node.type == "for_statement":
                parts += self._flush(simple)
                inner = self._inner(node)
                if inner is None:
                    return None
                parts.append(inner)
                continue
            text = self._simple(node)
            if text is None:
                return None
            simple += text
        return "\n".join(parts + self._flush(simple))

    def _inner(self, node: Node) -> str | None:
        loop = self.unit.loop(node)
        if loop is None:
            return None
        moving = {self.loop.variable, *self.scalars, *([self.rows.variable] if self.rows else [])}
        if any(n.type == "identifier" and self.unit.text(n) in moving for b in (loop.lower, loop.upper, loop.step) if b for n in walk(b)):
            return None
        block = self._block(statements(loop.body))
        head = self.unit.code[node.start_byte : loop.body.start_byte].decode().rstrip()
        return f"{head} {{\n{_shift(block)}\n}}" if block is not None else None

    def _simple(self, node: Node) -> list[str] | None:
        """The statement for one lane; [] when it needs none."""
        if node.type == "declaration":
            return self._declaration(node)
        if node.type in ("expression_statement", "if_statement") and not any(
            n.type in ("for_statement", "declaration") for n in walk(node)
        ):
            return [self._renamed(node)]
        return None

    def _declaration(self, node: Node) -> list[str] | None:
        made = []
        for declarator in node.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            if name is None or name.type != "identifier" or (value is not None and value.type == "initializer_list"):
                return None
            text = self._renamed(value) if value is not None else ""
            if not self._array(name):
                return None
            if text:
                made.append(f"{self.scalars[self.unit.text(name)]} = {text};")
        return made

    def _array(self, name: Node) -> bool:
        """An array of lanes for the scalar `name`, which must be of a floating type and no such array yet."""
        word, kind = self.unit.text(name), floating(self.unit, name)
        if kind not in ("float", "double") or word in self.scalars:
            return False
        shape = f"[{self.count}][{self.tile}]" if self.rows else f"[{self.tile}]"
        self.arrays.append(f"{kind} {word}_lanes{shape};")
        self.scalars[word] = f"{word}_lanes" + "".join(f"[{v} - {v}_strip]" for v in self._variables())
        return True

    def _renamed(self, node: Node) -> str:
        """Text of `node` with scalars replaced by those of one lane."""
        edits = []
        for inner in walk(node):
            if inner.type != "identifier":
                continue
            name = self.unit.text(inner)
            if name in self.scalars:
                edits.append(Edit(inner.start_byte, inner.end_byte, self.scalars[name]))
        text = self.unit.code[node.start_byte : node.end_byte]
        for edit in sorted(edits, key=lambda e: e.start, reverse=True):
            text = text[: edit.start - node.start_byte] + edit.text.encode() + text[edit.end - node.start_byte :]
        return text.decode()

    def _flush(self, simple: list[str]) -> list[str]:
        if not simple:
            return []
        body = "\n".join(simple)
        simple.clear()
        lines = f"#pragma omp simd\n{self._header(self.loop, self.tile)} {{\n{_shift(body)}\n}}"
        if self.rows is not None:
            lines = f"#pragma GCC unroll 16\n{self._header(self.rows, self.count)} {{\n{_shift(lines)}\n}}"
        return [lines]

    def _variables(self) -> list[str]:
        return [*([self.rows.variable] if self.rows is not None else []), self.loop.variable]

    def _header(self, loop: Loop, length: str) -> str:
        v = loop.variable
        return f"for ({counter_type(self.unit, loop)} {v} = {v}_strip; {v} < {v}_strip + {length}; ++{v})"


def _shift(text: str) -> str:
    return "  " + text.replace("\n", "\n  ")
