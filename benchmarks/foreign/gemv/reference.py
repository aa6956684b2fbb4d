"""Matrix-vector product: what kernel.cpp must compute."""

import torch

outputs = ("y",)
workloads = (
    {"name": "4000x3000", "dims": {"M": 4000, "N": 3000}},
    {"name": "257x513", "dims": {"M": 257, "N": 513}},
)
dims_range = {"M": (16, 4000), "N": (16, 3000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    M, N = dims["M"], dims["N"]
    A, x, b = torch.randn(M, N, generator=g), torch.randn(N, generator=g), torch.randn(M, generator=g)
    return {"A": A, "x": x, "b": b, "y": torch.empty(M), "alpha": 1.5, "beta": 0.5, "M": M, "N": N}


def reference(
    A: torch.Tensor, x: torch.Tensor, b: torch.Tensor, y: torch.Tensor, alpha: float, beta: float, M: int, N: int
) -> torch.Tensor:
    """A: (M, N), x: (N,), b: (M,). Returns (M,)."""
    return torch.addmv(b, A, x, alpha=alpha, beta=beta)
