"""RMS normalisation: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("out",)
workloads = (
    {"name": "2048x2048", "dims": {"M": 2048, "N": 2048}},
    {"name": "100x999", "dims": {"M": 100, "N": 999}},
)
dims_range = {"M": (16, 2048), "N": (16, 2048)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    M, N = dims["M"], dims["N"]
    x, weight = torch.randn(M, N, generator=g), torch.rand(N, generator=g) + 0.5
    return {"x": x, "weight": weight, "out": torch.empty_like(x), "eps": 1e-6, "M": M, "N": N}


def reference(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float, M: int, N: int) -> torch.Tensor:
    """x: (M, N), weight: (N,). Returns the shape of x."""
    return F.rms_norm(x, (N,), weight, eps)
