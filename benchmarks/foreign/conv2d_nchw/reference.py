"""A 3x3 convolution layer: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("output",)
workloads = (
    {"name": "1x16x24x64x64", "dims": {"N": 1, "C": 16, "OC": 24, "H": 64, "W": 64}},
    {"name": "2x5x7x27x33", "dims": {"N": 2, "C": 5, "OC": 7, "H": 27, "W": 33}},
)
dims_range = {"C": (1, 16), "OC": (1, 24), "H": (3, 64), "W": (3, 64)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, C, OC, H, W = dims["N"], dims["C"], dims["OC"], dims["H"], dims["W"]
    inputs = {
        "input": torch.randn(N, C, H, W, generator=g),
        "weight": torch.randn(OC, C, 3, 3, generator=g),
        "bias": torch.randn(OC, generator=g),
    }
    return {**inputs, "output": torch.empty(N, OC, H, W), "N": N, "C": C, "OC": OC, "H": H, "W": W}


def reference(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    output: torch.Tensor,
    N: int,
    C: int,
    OC: int,
    H: int,
    W: int,
) -> torch.Tensor:
    """input: (N, C, H, W), weight: (OC, C, 3, 3), bias: (OC,). Returns (N, OC, H, W)."""
    return F.conv2d(input, weight, bias, padding=1)
