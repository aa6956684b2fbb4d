"""Distances between two sets of points: what kernel.cpp must compute."""

import torch

outputs = ("distance",)
workloads = (
    {"name": "1000x900x32", "dims": {"M": 1000, "N": 900, "D": 32}},
    {"name": "101x77x19", "dims": {"M": 101, "N": 77, "D": 19}},
)
dims_range = {"M": (4, 1000), "N": (4, 900), "D": (1, 32)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    M, N, D = dims["M"], dims["N"], dims["D"]
    X, Y = torch.randn(M, D, generator=g), torch.randn(N, D, generator=g)
    return {"X": X, "Y": Y, "distance": torch.empty(M, N), "M": M, "N": N, "D": D}


def reference(X: torch.Tensor, Y: torch.Tensor, distance: torch.Tensor, M: int, N: int, D: int) -> torch.Tensor:
    """X: (M, D), Y: (N, D). Returns (M, N)."""
    return torch.cdist(X, Y)
