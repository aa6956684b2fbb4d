"""Bias, then GELU: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("y",)
workloads = (
    {"name": "1024x1536", "dims": {"M": 1024, "N": 1536}},
    {"name": "77x513", "dims": {"M": 77, "N": 513}},
)
dims_range = {"M": (8, 1024), "N": (8, 1536)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    M, N = dims["M"], dims["N"]
    x, bias = torch.randn(M, N, generator=g), torch.randn(N, generator=g)
    return {"x": x, "bias": bias, "y": torch.empty_like(x), "M": M, "N": N}


def reference(x: torch.Tensor, bias: torch.Tensor, y: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """x: (M, N), bias: (N,). Returns the shape of x."""
    return F.gelu(x + bias)
