"""Sizes that stand in a CUDA source as constants, set to other values; nothing else of it is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.recipe import Recipe
from tools.languages.cpp_source import CppEdit, CppSource

CONSTANT_NAME_PATTERNS = {
    "THREADS": r"(?:\w*THREADS\w*|BLOCK(?:_?SIZE|_?DIM)?|\w*Threads\w*|k?Block(?:Size|Dim)|threads|block_size)",
    "UNROLL": r"(?:\w*UNROLL\w*|\w*PER_THREAD|ITEMS|\w*Unroll\w*|\w*PerThread|unroll)",
    "TILE": r"(?:\w*TILE\w*|\w*Tile\w*|tile)",
    "RESIDENT": r"(?:RESIDENT|\w*MIN_BLOCKS\w*|\w*BLOCKS_PER_SM)",
}
"""What people call constants of one kind."""


class CudaConstants(Recipe):
    """`constexpr int THREADS = 128;`, `#define TILE 16`, and the blocks a multiprocessor that `__launch_bounds__`
    asks for."""

    name = "cuda_constants"
    language: ClassVar[str] = "cuda"
    knobs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "THREADS": ("256", "512", "1024", "128", "64"),
        "UNROLL": ("4", "8", "2", "1"),
        "TILE": ("32", "64", "16", "8"),
        "RESIDENT": ("2", "4", "1", "8"),
    }

    def edit(self, source: str, knobs: Mapping[str, str]) -> str:
        """`source` with its constants set to `knobs`; those that are there are in place, and are searched."""
        return source if CppSource(source, "cuda").has_syntax_errors else self.set_knobs(source, knobs)

    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        """None: whatever is no constant needs a model."""
        return iter(())

    def knob_value_pattern(self, knob: str) -> str:
        """See `Recipe.knob_value_pattern`."""
        typed = rf"\b(?:constexpr|const)\s+(?:int|unsigned|unsigned int|size_t)\s+{CONSTANT_NAME_PATTERNS[knob]}\s*=\s*"
        bound = r"|__launch_bounds__\(\s*\w+\s*,\s*" if knob == "RESIDENT" else ""
        return rf"({typed}|#[ \t]*define[ \t]+{CONSTANT_NAME_PATTERNS[knob]}[ \t]+{bound})(\d+)(\b)"
