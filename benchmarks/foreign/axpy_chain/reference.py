"""A chain of axpy steps on vectors of N elements: what kernel.cpp must compute."""

import torch

outputs = ("z",)
workloads = (
    {"name": "6000000", "dims": {"N": 6_000_000}},
    {"name": "100003", "dims": {"N": 100_003}},
)
dims_range = {"N": (1000, 6_000_000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N = dims["N"]
    x, y = torch.randn(N, generator=g), torch.randn(N, generator=g)
    return {"x": x, "y": y, "z": torch.empty(N), "alpha": 0.75, "beta": -1.25, "N": N}


def reference(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, alpha: float, beta: float, N: int) -> torch.Tensor:
    """x, y: (N,). Returns (N,)."""
    return beta * (alpha * x + y) + x * y
