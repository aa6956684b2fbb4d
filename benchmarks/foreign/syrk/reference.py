"""Product of a matrix and its transpose: what kernel.cpp must compute."""

import torch

outputs = ("C",)
workloads = (
    {"name": "400x256", "dims": {"N": 400, "K": 256}},
    {"name": "123x77", "dims": {"N": 123, "K": 77}},
)
dims_range = {"N": (8, 400), "K": (8, 256)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, K = dims["N"], dims["K"]
    A = torch.randn(N, K, generator=g)
    return {"A": A, "C": torch.empty(N, N), "alpha": 0.5, "N": N, "K": K}


def reference(A: torch.Tensor, C: torch.Tensor, alpha: float, N: int, K: int) -> torch.Tensor:
    """A: (N, K). Returns (N, N)."""
    return alpha * (A @ A.T)
