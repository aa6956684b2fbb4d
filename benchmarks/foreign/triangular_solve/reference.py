"""Forward substitution: what kernel.cpp must compute."""

import torch

outputs = ("X",)
workloads = (
    {"name": "384x96", "dims": {"N": 384, "R": 96}},
    {"name": "131x17", "dims": {"N": 131, "R": 17}},
)
dims_range = {"N": (4, 384), "R": (1, 96)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, R = dims["N"], dims["R"]
    L, B = torch.randn(N, N, generator=g) / N, torch.randn(N, R, generator=g)
    return {"L": L, "B": B, "X": torch.empty(N, R), "N": N, "R": R}


def reference(L: torch.Tensor, B: torch.Tensor, X: torch.Tensor, N: int, R: int) -> torch.Tensor:
    """L: (N, N), of which what lies below the diagonal is used, B: (N, R). Returns (N, R)."""
    return torch.linalg.solve_triangular(L, B, upper=False, unitriangular=True)
