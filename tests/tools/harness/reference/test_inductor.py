"""Which kernels the search behind a lifted one is offered beside torch.compile's own choice."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

TOOLS = Path(__file__).parents[4] / "tools"


@pytest.fixture(name="inductor")
def loaded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As the oracle imports it."""
    monkeypatch.setattr(sys, "path", [str(TOOLS), *sys.path])
    from harness.reference import inductor  # type: ignore[import-not-found]

    return inductor


@pytest.mark.parametrize(
    ("length", "contiguous", "whole"),
    [(4096, True, True), (65536, True, True), (65537, True, False), (4096, False, False), (512, True, True)],
)
def test_a_row_is_held_whole_where_a_block_has_the_registers_for_it(
    inductor: Any, length: int, contiguous: bool, whole: bool
) -> None:
    import sympy
    from torch._inductor.runtime.hints import ReductionHint
    from torch._inductor.virtualized import V

    hint = ReductionHint.INNER if contiguous else ReductionHint.OUTER_TINY
    features = SimpleNamespace(get_reduction_hint=lambda: hint, reduction_numel=sympy.Integer(length))
    sizes = SimpleNamespace(statically_known_leq=lambda one, other: bool(one <= other))
    with V.set_graph_handler(SimpleNamespace(sizevars=sizes)):  # type: ignore[arg-type]
        assert inductor.WholeRows.should_use_persistent_reduction(features, False) is whole


def test_only_what_follows_a_reduction_gets_a_kernel_of_its_own(inductor: Any) -> None:
    reduction, other = (SimpleNamespace(is_reduction=lambda found=found: found) for found in (True, False))
    fused = inductor.SeparatePasses.can_fuse_vertical
    assert [fused(None, one, two, 1) for one in (reduction, other) for two in (reduction, other)] == [
        True,
        False,
        True,
        True,
    ]
