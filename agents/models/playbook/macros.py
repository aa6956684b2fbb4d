"""Function-like macros of the file itself, replaced where they are used: `A(i, j)` hides an element that recipes
must see."""

from __future__ import annotations

import re
from functools import lru_cache

from agents.models.playbook.analysis.unit import CppUnit, parse_unit
from tools.languages.cpp_source import CppEdit, walk

MAX_EXPANSION_ROUNDS = 8
"""Of macros that use macros."""
MACRO_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w ,]*)\)[ \t]+(.+)$", re.MULTILINE)
NOT_AN_EXPRESSION = re.compile(r"#|\\$|//|/\*|[;{}]|\b(?:do|while|for|if|return)\b")


@lru_cache(maxsize=16)
def expand_macros(source: str) -> str:
    """`source` as the preprocessor would leave it where it calls its own macros; as it was where nothing can be
    replaced safely."""
    found = {
        name: (re.findall(r"\w+", listed), text.strip()) for name, listed, text in MACRO_DEFINITION.findall(source)
    }
    # What is defined twice, taken back or under a condition may mean two things; the text of an expression alone can
    # stand in its place.
    times = re.findall(r"#[ \t]*(?:define|undef)[ \t]+(\w+)", source)
    macros = {
        name: one for name, one in found.items() if times.count(name) == 1 and not NOT_AN_EXPRESSION.search(one[1])
    }
    if not macros or re.search(r"^[ \t]*#[ \t]*if", source, re.MULTILINE):
        return source
    unit = parse_unit(source)
    for _ in range(MAX_EXPANSION_ROUNDS):
        edits = _macro_edits(unit, macros)
        if not edits:
            break
        unit = parse_unit(unit.apply(edits))
    return source if unit.has_syntax_errors else unit.source


def _macro_edits(unit: CppUnit, macros: dict[str, tuple[list[str], str]]) -> list[CppEdit]:
    """Outermost calls of macros; those inside their arguments wait for the next round."""
    edits: list[CppEdit] = []
    for node in walk(unit.root):
        callee = node.child_by_field_name("function") if node.type == "call_expression" else None
        parameters, text = macros.get(unit.text(callee), ([], "")) if callee is not None else ([], "")
        arguments = [unit.text(a) for a in unit.arguments(node)]
        if not text or len(arguments) != len(parameters) or (edits and node.start_byte < edits[-1].end):
            continue
        values = dict(zip(parameters, arguments, strict=True))
        put = re.sub(r"\b[A-Za-z_]\w*\b", lambda word, values=values: values.get(word[0], word[0]), text)  # type: ignore[misc]
        edits.append(CppEdit(node.start_byte, node.end_byte, put))
    return edits
