"""A recipe: a source-to-source edit with a name that a wiki page can give, and knobs."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from agents.models.playbook.analysis.unit import CppUnit, parse_unit
from agents.models.playbook.macros import expand_macros
from tools.languages.cpp_source import CppEdit, unused_name
from tools.registry import load_class

RECIPES = {
    "vector_exp": "agents.models.playbook.recipes.vector_math:VectorExp",
    "interchange": "agents.models.playbook.recipes.interchange:Interchange",
    "simd_reduction": "agents.models.playbook.recipes.simd:SimdReduction",
    "simd_loop": "agents.models.playbook.recipes.simd:SimdLoop",
    "parallel_outer": "agents.models.playbook.recipes.openmp:ParallelOuter",
    "triton_single_pass": "agents.models.playbook.triton.single_pass:SinglePass",
    "triton_launch": "agents.models.playbook.triton.launch:LaunchKnobs",
    "cuda_constants": "agents.models.playbook.recipes.cuda_constants:CudaConstants",
}
"""Name (a method page's `recipe`) -> class, in the order in which a kernel's recipes are applied. A new recipe is
one file and one line here: first what frees the compiler, then what changes the loops, last what says how the final
loops run."""
NAME_PREFIX = "kw_"
"""Of every name that a recipe inserts."""
MAX_SITES = 64


class Recipe(ABC):
    """One kind of edit. Deterministic; applying it again to its own result changes nothing."""

    name: ClassVar[str]
    language: ClassVar[str] = "cpp"
    knobs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Knob -> values worth trying, best guess first; a wiki page may say otherwise."""
    written: ClassVar[str] = r"\d+"
    """What a knob's value looks like in a source."""

    def applies(self, source: str) -> bool:
        """Whether the edit would change `source`."""
        return self.edit(source, {}) != source

    def edit(self, source: str, knobs: Mapping[str, str]) -> str:
        """`source` with every site rewritten, or unchanged where there is none, the result would not parse, or no
        end is in sight."""
        start = unit = parse_unit(expand_macros(source))
        if unit.has_syntax_errors:
            return source
        for _ in range(MAX_SITES):
            changed = self._after_next_site(unit, knobs)
            if changed is None:
                return unit.source if unit is not start else self.set_knobs(source, knobs)
            unit = changed
        return source

    def _after_next_site(self, unit: CppUnit, knobs: Mapping[str, str]) -> CppUnit | None:
        """The unit after one more site; None where there is none."""
        changed = (parse_unit(unit.apply(edits)) for edits in self.sites(unit, knobs) if edits)
        return next((one for one in changed if one.source != unit.source and not one.has_syntax_errors), None)

    @abstractmethod
    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        """The edits of each place that could be rewritten now; the first sound one is carried out, then the source
        is read again."""

    def value(self, knobs: Mapping[str, str], knob: str) -> str:
        """A knob's value, or its best guess."""
        return str(knobs.get(knob, self.knobs[knob][0]))

    def constant(self, unit: CppUnit, knob: str) -> str:
        """A new name for the constant that carries a numeric knob in the source, so that `set_knobs` finds it."""
        return unused_name(unit, f"{NAME_PREFIX}{self.name}_{knob}")

    def knob_value_pattern(self, knob: str) -> str:
        """Pattern of the place that carries a knob's value: what stands before it, the value, what stands behind it."""
        return rf"(\bconstexpr int {NAME_PREFIX}{self.name}_{knob}_\d+ = )({self.written})(;)"

    def present(self, source: str) -> dict[str, str]:
        """The knobs' values in a source where this recipe is applied already; empty elsewhere."""
        found = {knob: re.search(self.knob_value_pattern(knob), source, re.MULTILINE) for knob in self.knobs}
        return {knob: match[2] for knob, match in found.items() if match}

    def set_knobs(self, source: str, knobs: Mapping[str, str]) -> str:
        """`source`, where this recipe is applied already, with its constants set to `knobs`."""
        for knob, value in knobs.items():
            if knob in self.knobs and re.fullmatch(self.written, str(value)):
                source = re.sub(self.knob_value_pattern(knob), rf"\g<1>{value}\g<3>", source, flags=re.MULTILINE)
        return source


def load_recipe(name: str) -> Recipe:
    """The recipe that a page's `recipe` names; SettingsError when there is none."""
    return load_class(RECIPES, name, Recipe, key="recipe")()


def language_model_advice(language: str) -> str:
    """Who can change a kernel in `language` where no recipe applies, for the end of a sentence."""
    if language == "cpp":
        return (
            "a language model can also read lambdas, templates, classes, <algorithm> and pointers that walk: `models:` "
            "in the config"
        )
    return "a language model can go further: `models:` in the config"


def application_order(name: str) -> int:
    """Position of a recipe in the order of RECIPES; a third-party recipe comes last."""
    return list(RECIPES).index(name) if name in RECIPES else len(RECIPES)
