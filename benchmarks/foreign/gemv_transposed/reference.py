"""Product of a transposed matrix and a vector: what kernel.cpp must compute."""

import torch

outputs = ("y",)
workloads = (
    {"name": "3000x2000", "dims": {"M": 3000, "N": 2000}},
    {"name": "301x203", "dims": {"M": 301, "N": 203}},
)
dims_range = {"M": (16, 3000), "N": (16, 2000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    M, N = dims["M"], dims["N"]
    A, x = torch.randn(M, N, generator=g), torch.randn(M, generator=g)
    return {"A": A, "x": x, "y": torch.empty(N), "M": M, "N": N}


def reference(A: torch.Tensor, x: torch.Tensor, y: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """A: (M, N), x: (M,). Returns (N,)."""
    return A.T @ x
