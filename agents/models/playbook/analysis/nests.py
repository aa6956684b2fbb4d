"""Where loops stand in a nest: the innermost ones, and the outermost of all functions that are reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import node_contains, walk

if TYPE_CHECKING:
    from tree_sitter import Node


def is_innermost(loop: Loop) -> bool:
    return not any(
        n.type in ("for_statement", "while_statement", "do_statement", "for_range_loop") for n in walk(loop.body)
    )


def outermost(unit: Unit) -> list[Loop]:
    """Loops that no other loop contains, in functions that are reached without passing through a loop."""
    found: list[Loop] = []
    inside = _called_in_loops(unit)
    for function in unit.reachable_functions:
        if unit.functions.get("solve") != function and function.start_byte in inside:
            continue
        taken: list[Node] = []
        for node in walk(function.child_by_field_name("body")):
            if node.type in ("for_statement", "while_statement", "do_statement") and not any(
                node_contains(t, node) for t in taken
            ):
                taken.append(node)
                if (loop := unit.loop(node)) is not None:
                    found.append(loop)
    return found


def _called_in_loops(unit: Unit) -> set[int]:
    """Start bytes of the functions that some loop calls, directly or through others."""
    reached: set[int] = set()
    waiting = [
        n
        for f in unit.reachable_functions
        for n in walk(f)
        if n.type in ("for_statement", "while_statement", "do_statement")
    ]
    while waiting:
        for call in walk(waiting.pop()):
            name = unit.called_function(call) if call.type == "call_expression" else None
            if name in unit.functions and unit.functions[name].start_byte not in reached:
                reached.add(unit.functions[name].start_byte)
                waiting.append(unit.functions[name])
    return reached
