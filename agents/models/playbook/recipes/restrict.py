"""Tell the compiler what the contract says: buffers do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from tools.languages.cpp_source import ENTRY, CppEdit, walk


class RestrictPointers(Recipe):
    """`__restrict__` on the pointer parameters of `solve`."""

    name = "restrict_pointers"

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        function = unit.functions.get(ENTRY)
        declarator = function.child_by_field_name("declarator") if function is not None else None
        edits = []
        for node in walk(declarator):
            if node.type != "parameter_declaration":
                continue
            pointer = node.child_by_field_name("declarator")
            name = (
                pointer.child_by_field_name("declarator")
                if pointer is not None and pointer.type == "pointer_declarator"
                else None
            )
            if name is not None and name.type == "identifier" and "restrict" not in unit.text(node):
                edits.append(CppEdit(name.start_byte, name.start_byte, "__restrict__ "))
        if edits:
            yield edits
