"""The lifted kernel as a method: its candidate is what torch.compile makes of the reference, whatever stood there
before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import Recipe
from tools.languages.cpp_source import CppEdit

METHOD = "inductor-lift"
"""Id of its page."""


class InductorLift(Recipe):
    """Applies to nothing where no lifted source is at hand."""

    name = "inductor_lift"
    language = ""

    def __init__(self, lifted: str = "") -> None:
        self.lifted = lifted

    def applies(self, source: str, knobs: Mapping[str, str] | None = None) -> bool:
        return self.edit(source, knobs or {}) != source

    def edit(self, source: str, knobs: Mapping[str, str]) -> str:
        return self.lifted or source

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        return iter(())
