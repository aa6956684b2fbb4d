"""Inclusive prefix sum: what kernel.cpp must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "16000000", "dims": {"N": 16_000_000}},
    {"name": "100003", "dims": {"N": 100_003}},
)
dims_range = {"N": (100, 16_000_000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N = dims["N"]
    x = torch.rand(N, generator=g)
    return {"x": x, "out": torch.empty(N), "N": N}


def reference(x: torch.Tensor, out: torch.Tensor, N: int) -> torch.Tensor:
    """x: (N,). Returns the same shape."""
    return torch.cumsum(x, dim=0)
