"""Several neighbouring iterations of a loop carried out together: each scalar of the body becomes a small array of lanes, each simple
statement a loop over the lanes, and the loops inside are entered once for all lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.types import floating
from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipes.tile import counter_type
from tools.languages.cpp_source import Edit, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

WRITES = ("assignment_expression", "update_expression")
ENDS = {"strip": "end", "part": "last"}
"""First lane -> what stands behind the last."""


class Lanes:
    """Rewrites the body of `loop` for lanes, and of `rows` (the loop around it) for `count` rows, when given."""

    def __init__(self, unit: Unit, loop: Loop, rows: Loop | None, count: str, private: Sequence[str] = ()) -> None:
        """`private`: scalars declared outside that each iteration sets before it reads them."""
        self.unit, self.loop, self.rows = unit, loop, rows
        self.tile, self.count = "", count
        self.scalars: dict[str, str] = {}
        """Scalar of the body -> element text of its lane array."""
        self.fixed: set[str] = set()
        """Scalars of the body that are the same for all lanes."""
        self.still: set[str] = set()
        """Indices written out where they are used that do not move with the lanes."""
        self.arrays: list[str] = []
        self.private = private
        self.ragged = False
        self.start = "strip"
        self.stored = {unit.text(n).split("[")[0].strip() for n in _written_elements(unit, loop.body)}
        """Names of the buffers that the body stores to."""
        self.local = {unit.text(n) for n in _declared_names(loop.body)}

    def body(self, tile: str, start: str = "strip", ragged: bool = False) -> str | None:
        """Statements for the lanes from `<variable>_<start>` on, `tile` of them, or fewer when `ragged`; None where the body holds
        something else than scalars, assignments and counted loops."""
        self.tile, self.start, self.ragged = tile, start, ragged
        self.scalars.clear()
        self.fixed.clear()
        self.still.clear()
        self.arrays.clear()
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
            if self._is_uniform(node):
                parts += self._flush(simple)
                whole = self._uniform(node)
                if whole is None:
                    return None
                parts.append(whole)
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
        if any(self._moves(bound) for bound in (loop.lower, loop.upper, loop.step) if bound is not None):
            return None
        block = self._block(statements(loop.body))
        head = self.unit.code[node.start_byte : loop.body.start_byte].decode().rstrip()
        return f"{head} {{\n{shifted(block)}\n}}" if block is not None else None

    def _moves(self, node: Node) -> bool:
        """Whether something in `node` differs from lane to lane."""
        moving = {self.loop.variable, *self.scalars, *([self.rows.variable] if self.rows else [])} - self.still
        return any(n.type == "identifier" and self.unit.text(n) in moving for n in walk(node))

    def _is_uniform(self, node: Node) -> bool:
        """The statement does the same for all lanes, so that it is carried out once: an index, a condition, the end of a loop."""
        if node.type in ("break_statement", "continue_statement"):
            return True
        if node.type == "if_statement":
            condition = node.child_by_field_name("condition")
            return condition is not None and not self._moves(condition)
        if node.type == "declaration":
            declared = node.children_by_field_name("declarator")
            return bool(declared) and all(self._fixed(one) for one in declared)
        written = set(self.unit.assigned(node))
        return node.type == "expression_statement" and bool(written) and written <= self.fixed

    def _fixed(self, declarator: Node) -> bool:
        """A new scalar that no lane gives a value of its own."""
        name, value = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("value")
        if declarator.type != "init_declarator" or name is None or value is None or name.type != "identifier" or not self._steady(value):
            return False
        word = self.unit.text(name)
        for node in walk(self.loop.body):
            written = node.type in ("assignment_expression", "update_expression") and word in self.unit.assigned(node)
            if written and not (floating(self.unit, name) == "int" and self._steady(node, word) and self._under_steady(node, word)):
                return False
        self.fixed.add(word)
        return True

    def _under_steady(self, node: Node, name: str) -> bool:
        current = node.parent
        while current is not None and current != self.loop.body:
            condition = current.child_by_field_name("condition") if current.type in ("if_statement", "conditional_expression") else None
            if condition is not None and not self._steady(condition, name):
                return False
            current = current.parent
        return True

    def _steady(self, node: Node, name: str = "") -> bool:
        """Has one value for all lanes, provided that the scalar `name` has: it reads no lane, nothing stored, no scalar not known yet."""
        words = {self.unit.text(n) for n in walk(node) if n.type == "identifier"} - {name}
        return not words & self.stored and not words & (self.local - self.fixed) and not self._moves(node)

    def _uniform(self, node: Node) -> str | None:
        if node.type != "if_statement":
            return self._renamed(node)
        condition, then, other = (node.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
        if condition is None or then is None:
            return None
        block = self._block(statements(then))
        if block is None:
            return None
        text = f"if {self._renamed(condition)} {{\n{shifted(block)}\n}}"
        if other is None or not other.named_children:
            return text
        rest = self._block(statements(other.named_children[-1]))
        return f"{text} else {{\n{shifted(rest)}\n}}" if rest is not None else None

    def _simple(self, node: Node) -> list[str] | None:
        """The statement for one lane; [] when it needs none."""
        if node.type == "declaration":
            return self._declaration(node)
        if node.type in ("expression_statement", "if_statement") and not any(
            n.type in ("for_statement", "declaration", "break_statement", "continue_statement") for n in walk(node)
        ):
            return [self._renamed(node)]
        return None

    def _declaration(self, node: Node) -> list[str] | None:
        made = []
        for declarator in node.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            pointer = name is not None and (name.type == "pointer_declarator" or (value is not None and self._points(value)))
            name = name.child_by_field_name("declarator") if name is not None and name.type == "pointer_declarator" else name
            if name is None or name.type != "identifier" or (value is not None and value.type == "initializer_list"):
                return None
            if pointer and (value is None or not self._settled(name)):
                return None
            if value is not None and (pointer or floating(self.unit, name) == "int") and self._settled(name):
                # An index or a row: each use recomputes it from its lane.
                if not self._moves(value):
                    self.still.add(self.unit.text(name))
                self.scalars[self.unit.text(name)] = f"({self._renamed(value)})"
                continue
            text = self._renamed(value) if value is not None else ""
            if not self._array(name):
                return None
            if text:
                made.append(f"{self.scalars[self.unit.text(name)]} = {text};")
        return made

    def _points(self, value: Node) -> bool:
        """A pointer, or one that is moved by something."""
        value = strip(value)
        if value.type == "binary_expression":
            operator, left, right = self.unit.binary(value)
            return operator in ("+", "-") and (self._points(left) or self._points(right))
        declaration = self.unit.declaration(value) if value.type == "identifier" else None
        if declaration is None or declaration.form == "pointer":
            return declaration is not None
        return declaration.type == "auto" and declaration.initial is not None and self._points(declaration.initial)

    def _settled(self, name: Node) -> bool:
        """Declared once and never written again; no function or element is behind it that another statement could change."""
        word = self.unit.text(name)
        declaration = self.unit.declaration(name)
        initial = declaration.initial if declaration is not None else None
        if word in self.scalars or word in self.unit.assigned(self.loop.body) or initial is None:
            return False
        return not any(n.type in ("call_expression", "subscript_expression", "pointer_expression", "new_expression") for n in walk(initial))

    def _array(self, name: Node) -> bool:
        """An array of lanes for the scalar `name`, which must be of a known type and no such array yet."""
        word, kind = self.unit.text(name), floating(self.unit, name)
        if not kind or word in self.scalars or word in self.fixed:
            return False
        if kind == "int":
            declaration = self.unit.declaration(name)
            kind = declaration.type if declaration is not None else ""
            if not kind or kind == "auto":
                return False
        shape = f"[{self.count}][{self.tile}]" if self.rows else f"[{self.tile}]"
        self.arrays.append(f"{kind} {word}_lanes{shape};")
        self.scalars[word] = f"{word}_lanes" + "".join(f"[{v} - {v}_{start}]" for v, start in self._starts())
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
        lines = f"#pragma omp simd\n{self._header(self.loop, self.tile)} {{\n{shifted(body)}\n}}"
        if self.rows is not None:
            unroll = "" if self.ragged else "#pragma GCC unroll 16\n"
            lines = f"{unroll}{self._header(self.rows, self.count)} {{\n{shifted(lines)}\n}}"
        return [lines]

    def _starts(self) -> list[tuple[str, str]]:
        return [*([(self.rows.variable, "strip")] if self.rows is not None else []), (self.loop.variable, self.start)]

    def _header(self, loop: Loop, length: str) -> str:
        v = loop.variable
        start = self.start if loop is self.loop else "strip"
        end = f"{v}_{ENDS[start]}" if self.ragged else f"{v}_{start} + {length}"
        return f"for ({counter_type(self.unit, loop)} {v} = {v}_{start}; {v} < {end}; ++{v})"


def _written_elements(unit: Unit, body: Node) -> list[Node]:
    targets = [n.child_by_field_name("left" if n.type == "assignment_expression" else "argument") for n in walk(body) if n.type in WRITES]
    return [t for t in targets if t is not None and t.type != "identifier"]


def _declared_names(body: Node) -> list[Node]:
    found = []
    for node in walk(body):
        counter = node.parent is not None and node.parent.type == "for_statement"
        for declarator in node.children_by_field_name("declarator") if node.type == "declaration" and not counter else ():
            name = declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
            if name is not None and name.type == "identifier":
                found.append(name)
    return found


def shifted(text: str) -> str:
    return "  " + text.replace("\n", "\n  ")
