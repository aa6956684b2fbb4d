"""Shortest paths between all pairs: what kernel.cpp must compute."""

import torch

outputs = ("dist",)
workloads = (
    {"name": "240", "dims": {"N": 240}},
    {"name": "83", "dims": {"N": 83}},
)
dims_range = {"N": (4, 240)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N = dims["N"]
    weights = 0.1 + torch.rand(N, N, generator=g)
    weights.fill_diagonal_(0)
    return {"weights": weights, "dist": torch.empty(N, N), "N": N}


def reference(weights: torch.Tensor, dist: torch.Tensor, N: int) -> torch.Tensor:
    """weights: (N, N), none negative. Returns (N, N)."""
    paths = weights
    for k in range(N):
        paths = torch.minimum(paths, paths[:, k : k + 1] + paths[k])
    return paths
