"""C++ source as the recipes see it: with declarations and counted loops, each read once."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.declarations import Declaration, declaration_of, declared_in
from agents.models.playbook.analysis.loops import Loop, read_loop
from tools.languages.cpp_source import OPAQUE_NODE_TYPES, CppSource, walk

if TYPE_CHECKING:
    from tree_sitter import Node


class Unit(CppSource):
    """One parsed source file. `parsed` remembers the last ones."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._loops: dict[int, Loop | None] = {}

    def loops(self, node: Node) -> list[Loop]:
        """Loops inside `node` (or `node` itself) that count up, in document order, outer before inner."""
        return [
            loop
            for found in walk(node, skip=OPAQUE_NODE_TYPES)
            if found.type == "for_statement" and (loop := self.loop(found))
        ]

    @cached_property
    def reached(self) -> list[Loop]:
        """Counted loops of all functions that `solve` reaches."""
        return [loop for function in self.reachable_functions for loop in self.loops(function)]

    def loop(self, node: Node) -> Loop | None:
        """`node` as a loop that counts up, which recipes may rewrite; None when it is none."""
        found = self.counted(node)
        return None if found is None or found.down else found

    def counted(self, node: Node) -> Loop | None:
        """`node` as a counted loop, or None when it is not one."""
        if node.id not in self._loops:
            self._loops[node.id] = read_loop(self, node)
        return self._loops[node.id]

    def declaration(self, name: Node) -> Declaration | None:
        """What the identifier `name` refers to; None for macros and unknown names."""
        return declaration_of(self, name)

    def parameters(self, function: Node) -> list[Declaration]:
        """Named parameters of a function definition, in order."""
        return list(declared_in(self, function))


@lru_cache(maxsize=64)
def parsed(source: str) -> Unit:
    """The unit of a source text: one plan asks every recipe about the same text, and drafts share their first steps."""
    return Unit(source)
