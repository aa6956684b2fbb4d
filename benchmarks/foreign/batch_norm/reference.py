"""Batch normalisation at inference, then ReLU: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("y",)
workloads = (
    {"name": "16x64x3136", "dims": {"N": 16, "C": 64, "HW": 3136}},
    {"name": "3x17x361", "dims": {"N": 3, "C": 17, "HW": 361}},
)
dims_range = {"N": (1, 16), "C": (1, 64), "HW": (4, 3136)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, C, HW = dims["N"], dims["C"], dims["HW"]
    x, mean, var = (
        torch.randn(N, C, HW, generator=g),
        0.1 * torch.randn(C, generator=g),
        torch.rand(C, generator=g) + 0.5,
    )
    gamma, beta = torch.rand(C, generator=g) + 0.5, 0.1 * torch.randn(C, generator=g)
    inputs = {"x": x, "mean": mean, "var": var, "gamma": gamma, "beta": beta}
    return {**inputs, "y": torch.empty_like(x), "eps": 1e-5, "N": N, "C": C, "HW": HW}


def reference(
    x: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    y: torch.Tensor,
    eps: float,
    N: int,
    C: int,
    HW: int,
) -> torch.Tensor:
    """x: (N, C, HW), the rest: (C,). Returns the shape of x."""
    return F.relu(F.batch_norm(x, mean, var, gamma, beta, eps=eps))
