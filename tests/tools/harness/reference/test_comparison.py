"""How far an output is from the float64 reference."""

from __future__ import annotations

import pytest
import torch

from tests.tools.harness.test_gpu_judging import module


@pytest.mark.parametrize(
    ("number", "wrong"),
    [(-1.8e-33, False), (4e-14, False), (1e-6, True)],
    ids=["what float64 rounds away", "below the tolerance", "a number"],
)
def test_beside_a_row_of_zeros_only_what_float64_rounds_away_is_right(number: float, wrong: bool) -> None:
    expected = module("reference.comparison").ExpectedOutput(
        "out", torch.zeros(2, 3, dtype=torch.float64), "float32", None
    )
    out = torch.zeros(2, 3)
    out[1, 2] = number
    assert (expected.error(out)["error"] > 0.05) is wrong
