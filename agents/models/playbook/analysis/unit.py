"""C++ source as the recipes see it: with declarations and counted loops, each read once."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.declarations import Declaration, declared_in, find_declaration
from agents.models.playbook.analysis.loops import LOOP_STATEMENTS, CountedLoop, read_loop
from tools.languages.cpp_source import OPAQUE_NODE_TYPES, CppSource, walk

if TYPE_CHECKING:
    from tree_sitter import Node


class CppUnit(CppSource):
    """One parsed source file. `parsed` remembers the last ones."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._loops: dict[int, CountedLoop | None] = {}

    def loops(self, node: Node) -> list[CountedLoop]:
        """Loops inside `node` (or `node` itself) that count up, in document order, outer before inner."""
        return [
            loop
            for found in walk(node, skip=OPAQUE_NODE_TYPES)
            if found.type == "for_statement" and (loop := self.loop(found))
        ]

    @cached_property
    def reached(self) -> list[CountedLoop]:
        """Counted loops of all functions that `solve` reaches."""
        return [loop for function in self.reachable_functions for loop in self.loops(function)]

    @cached_property
    def outermost_loops(self) -> list[CountedLoop]:
        """Counted loops that no other loop contains or calls, in all functions that `solve` reaches."""
        inside = self._called_in_loops()
        found: list[CountedLoop] = []
        for function in self.reachable_functions:
            end = function.end_byte if function.start_byte in inside else 0
            for node in walk(function):
                if node.type in LOOP_STATEMENTS and node.start_byte >= end:
                    end = node.end_byte
                    found += [loop] if (loop := self.loop(node)) is not None else []
        return found

    def _called_in_loops(self) -> set[int]:
        """Start bytes of the functions that some loop calls, directly or through others."""
        called: set[int] = set()
        waiting = [n for f in self.reachable_functions for n in walk(f) if n.type in LOOP_STATEMENTS]
        while waiting:
            for call in walk(waiting.pop()):
                function = (
                    self.functions.get(self.called_function(call) or "") if call.type == "call_expression" else None
                )
                if function is not None and function.start_byte not in called:
                    called.add(function.start_byte)
                    waiting.append(function)
        return called

    def loop(self, node: Node) -> CountedLoop | None:
        """`node` as a loop that counts up, which recipes may rewrite; None when it is none."""
        found = self.counted(node)
        return None if found is None or found.counts_down else found

    def counted(self, node: Node) -> CountedLoop | None:
        """`node` as a counted loop, or None when it is not one."""
        if node.id not in self._loops:
            self._loops[node.id] = read_loop(self, node)
        return self._loops[node.id]

    def declaration(self, name: Node) -> Declaration | None:
        """What the identifier `name` refers to; None for macros and unknown names."""
        return find_declaration(self, name)

    def parameters(self, function: Node) -> list[Declaration]:
        """Named parameters of a function definition, in order."""
        return list(declared_in(self, function))


@lru_cache(maxsize=64)
def parse_unit(source: str) -> CppUnit:
    """The unit of a source text: one plan asks every recipe about the same text, and drafts share their first steps."""
    return CppUnit(source)
