"""Small structs of the file itself that only look at memory (a pointer, sizes, `operator()`), taken apart: recipes read plain arguments."""

from __future__ import annotations

from agents.models.playbook.syntax import Edit, Unit
from agents.models.playbook.view_members import flattened
from agents.models.playbook.view_methods import inlined
from agents.models.playbook.views import uses, views


def taken_apart(unit: Unit) -> list[Edit]:
    """One call of a method replaced by what it returns; where none is left, one struct replaced by its members."""
    for view in views(unit):
        written_out = next((edit for use in uses(unit, view) if (edit := inlined(unit, view, use)) is not None), None)
        if written_out is not None:
            return [written_out]
        edits = flattened(unit, view)
        if edits:
            return edits
    return []
