"""How far an output is from the float64 reference."""

from __future__ import annotations

import pytest
import torch

from tests.tools.harness.test_gpu_judging import module
from tools.artifacts import DEFAULT_ERROR_FLOORS, DType


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_buffer_that_a_step_should_change_is_wrong_if_nothing_changes_it(dtype: torch.dtype) -> None:
    """Beside the content the step of an optimiser is small: an error of an eighth of it passed as rounding."""
    draw = torch.Generator().manual_seed(3)
    before = torch.randn(64, 128, generator=draw).to(dtype)
    step = torch.randn(64, 128, generator=draw, dtype=torch.float64) * (1e-6 if dtype is torch.float32 else 0.02)
    right = before.double() - step
    name = str(dtype).removeprefix("torch.")
    expected = module("reference.comparison").ExpectedOutput("w", right, name, None, before=before)
    assert expected.error(right.to(dtype))["error"] < 1e-9
    assert expected.error(before)["error"] > 0.3
    assert expected.error((before.double() - 0.5 * step).to(dtype))["error"] > 0.1


@pytest.mark.parametrize(("name", "unit"), [("float8_e4m3fn", 2.0**-3), ("float8_e5m2", 2.0**-2)])
def test_a_number_of_8_bits_may_be_off_by_half_a_unit_and_saturates(name: DType, unit: float) -> None:
    dtype = getattr(torch, name)
    right = torch.stack(
        [torch.linspace(-3, 3, 4, dtype=torch.float64) / 3, torch.tensor([1e9, -torch.inf, 1, torch.nan])]
    )
    expected = module("reference.comparison").ExpectedOutput("out", right, name, None)
    largest = torch.finfo(dtype).max
    out = right.clamp(-largest, largest).to(dtype)
    assert 0 < expected.error(out)["error"] <= unit / 2 == DEFAULT_ERROR_FLOORS[name]
    out[0, 3] = 1 + unit
    assert expected.error(out)["error"] > unit / 2
    rounded = module("reference.comparison").ExpectedOutput("out", right, name, None, rounded=True)
    assert rounded.error(out)["error"] <= unit / 2
    out[0, 3] = torch.nan
    assert "NaN where the reference has numbers" in expected.error(out)["problem"]
    out[0, 3] = 1
    for other in (largest, torch.nan) if name == "float8_e4m3fn" else (torch.nan,):
        out[1, 3] = other
        assert expected.error(out)["problem"] is None
    if name == "float8_e5m2":
        out[1, 0] = torch.inf
        assert expected.error(out)["problem"] is None
    out[1, 3] = 1
    assert "NaN or Inf not in the same places" in expected.error(out)["problem"]
