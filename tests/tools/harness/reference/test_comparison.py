"""How far an output is from the float64 reference."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.tools.harness.test_gpu_judging import module
from tools.artifacts import DType


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


EIGHT_BITS = pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
NARROW = """import torch
outputs = ("y",)

def make_inputs(dims, seed):
    x = torch.randn(16, 256, generator=torch.Generator().manual_seed(seed))
    x[0, :4] = torch.tensor([1e6, -1e6, torch.inf, torch.nan])
    x[1] *= torch.linspace(1e-7, 1, 256)
    return {"x": x, "y": torch.empty(16, 256, dtype=torch.DTYPE)}

def reference(x, y):
    ANSWER
"""
ANSWERS = {
    "not rounded": "return x / 1.7",
    "rounded": "return (x / 1.7).to(y.dtype)",
    "rounded and moved": "return torch.cat([(x / 1.7).to(torch.DTYPE).view(256, 16)[:128], (x / 1.7).to(torch.DTYPE)"
    ".view(256, 16)[128:]]).reshape(16, 256)",
    "rows into a buffer": "y = torch.empty(16, 256, dtype=torch.DTYPE)\n    for at in range(16): y[at] = x[at] / 1.7\n"
    "    return y",
    "in place": "y[:] = (x / 1.7).to(torch.DTYPE)",
    "by index": "y[torch.arange(16)] = (x / 1.7).to(torch.DTYPE)",
}


@EIGHT_BITS
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_number_of_8_bits_may_be_off_by_half_a_unit_however_the_reference_rounds(name: DType, answer: str) -> None:
    """Zeros below a share of the row, and numbers that were rounded to fewer bits, passed as rounding."""
    comparison, dtype = module("reference.comparison"), getattr(torch, name)
    contract = sys.modules["harness.reference.contract"].Contract(
        NARROW.replace("ANSWER", answer).replace("DTYPE", name)
    )
    args = contract.build({}, 1, [], 0)
    for a, role in zip(args, ("input", "output"), strict=True):
        a.role = role
    (expected,), _ = comparison.expected_outputs(contract, args)
    (native,) = comparison.native_outputs(contract, args)
    exact, largest = args[0].value.double() / 1.7, torch.finfo(dtype).max
    good = (args[0].value * (1 / torch.tensor(1.7))).clamp(-largest, largest).to(dtype)
    for right in (native, good, good.float()):
        assert expected.error(right)["problem"] is None and expected.error(right)["error"] < 1e-6
    mantissa, exponent = torch.frexp(good.double())
    fewer_bits = torch.ldexp((mantissa / torch.finfo(dtype).eps).round() * torch.finfo(dtype).eps, exponent)
    for wrong in (fewer_bits, torch.where(exact.abs() < 0.05, 0.0, good.double()), good.double().clamp(-1.75, 1.75)):
        out = torch.where(exact.abs() < 9, wrong, good.double()).to(dtype)
        assert expected.error(out)["error"] > 0.02


@EIGHT_BITS
def test_only_a_number_that_is_too_large_may_be_saturated(name: DType) -> None:
    dtype = getattr(torch, name)
    largest = torch.finfo(dtype).max
    right = torch.tensor([1e9, -torch.inf, 1, torch.nan, -0.99 * largest], dtype=torch.float64)
    expected = module("reference.comparison").ExpectedOutput("out", right, name, None)
    beyond = torch.nan if name == "float8_e4m3fn" else torch.inf
    good = torch.tensor([largest, -largest, 1, torch.nan, -largest]).to(dtype)

    def found(at: int, value: float) -> dict[str, object]:
        out = good.clone()
        out[at] = value
        return expected.error(out)

    for at, value in ((0, largest), (0, beyond), (1, -beyond)):
        assert not found(at, value)["problem"] and found(at, value)["error"] == 0
    for at, value in ((0, -largest), (0, 0.8 * largest), (4, -0.8 * largest)):
        assert not found(at, value)["problem"] and found(at, value)["error"] > 0.02
    for at, value in ((2, torch.nan), (3, largest), (3, 1), (4, -beyond)):
        assert "NaN" in found(at, value)["problem"]
    if name == "float8_e5m2":
        assert found(0, -torch.inf)["problem"] and found(0, torch.nan)["problem"]


def test_a_whole_unit_counts_where_only_the_rounded_number_is_known() -> None:
    right = torch.linspace(-3, 3, 7, dtype=torch.float64)
    known, rounded = (
        module("reference.comparison").ExpectedOutput("out", right, "float8_e4m3fn", None, rounded=one)
        for one in (False, True)
    )
    neighbour = (right * 1.1).to(torch.float8_e4m3fn)
    assert known.error(neighbour)["error"] > 0.02 and rounded.error(neighbour)["error"] == 0
