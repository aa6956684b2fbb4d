"""The form in which every recipe reads a kernel: no macros of its own, plain functions, counted loops over indices, each once.

What is rewritten means the same; what is not understood stays as it was written.
"""

from __future__ import annotations

from functools import lru_cache

from agents.models.playbook.algorithms import written_out
from agents.models.playbook.bodies import bodies_put_in
from agents.models.playbook.callables import concrete_templates, inline_lambdas
from agents.models.playbook.guarded import folded
from agents.models.playbook.macros import expanded
from agents.models.playbook.methods import methods_set_free
from agents.models.playbook.structs import taken_apart
from agents.models.playbook.syntax import parsed
from agents.models.playbook.value_structs import numbers_apart
from agents.models.playbook.walking import counted_up
from agents.models.playbook.windows import counted_from_zero

MAX_ROUNDS = 200


@lru_cache(maxsize=16)
def normal(source: str) -> str:
    """`source` in normal form; as it was where the parser does not understand it, or no end is in sight."""
    unit = parsed(expanded(source))
    if unit.broken:
        return source
    for _ in range(MAX_ROUNDS):
        edits = (
            folded(unit)
            or concrete_templates(unit)
            or written_out(unit)
            or inline_lambdas(unit)
            or taken_apart(unit)
            or methods_set_free(unit)
            or numbers_apart(unit)
            or bodies_put_in(unit)
            or counted_up(unit)
            or counted_from_zero(unit)
        )
        if not edits:
            return unit.source
        changed = parsed(unit.apply(edits))
        if changed.broken or changed.source == unit.source:
            return unit.source
        unit = changed
    return source
