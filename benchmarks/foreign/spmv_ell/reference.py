"""Sparse matrix times vector: what kernel.cpp must compute."""

import torch

outputs = ("y",)
workloads = (
    {"name": "200000x16", "dims": {"N": 200_000, "K": 16}},
    {"name": "10007x9", "dims": {"N": 10_007, "K": 9}},
)
dims_range = {"N": (100, 200_000), "K": (1, 16)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, K = dims["N"], dims["K"]
    column = torch.randint(0, N, (N, K), generator=g)
    value, x = torch.randn(N, K, generator=g), torch.randn(N, generator=g)
    return {"column": column, "value": value, "x": x, "y": torch.empty(N), "N": N, "K": K}


def reference(
    column: torch.Tensor, value: torch.Tensor, x: torch.Tensor, y: torch.Tensor, N: int, K: int
) -> torch.Tensor:
    """column: (N, K) int64 in [0, N), value: (N, K), x: (N,). Returns (N,)."""
    return (value * x[column]).sum(dim=-1)
