"""C++ with a choice to make: a kernel that says `ROUNDS` is one of two pinned kernels, as an autotuned Triton kernel
is of its configs."""

from __future__ import annotations

from tools.languages.base import UNTUNED_PHRASE, PinnedKernel
from tools.languages.cpp import Cpp

CHOICES = ("400", "1")


class Choosing(Cpp):
    """For task.yaml's `language`; its tasks are C++ ones."""

    def frozen(self, source: str, reference: str) -> tuple[str, str, tuple[str, ...]]:
        return source.replace("ROUNDS", CHOICES[0]), reference, (f"`solve` is pinned to the first {UNTUNED_PHRASE}.",)

    def pinned_kernels(self, source: str) -> tuple[PinnedKernel, ...]:
        return tuple(PinnedKernel(label=f"{c} rounds", source=source.replace("ROUNDS", c)) for c in CHOICES)
