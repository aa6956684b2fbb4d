"""Gravitational accelerations: what kernel.cpp must compute."""

import torch

outputs = ("accelerations",)
workloads = (
    {"name": "1200", "dims": {"N": 1200}},
    {"name": "333", "dims": {"N": 333}},
)
dims_range = {"N": (2, 1200)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N = dims["N"]
    positions, mass = torch.randn(N, 3, generator=g), torch.rand(N, generator=g) + 0.1
    return {"positions": positions, "mass": mass, "accelerations": torch.empty(N, 3), "softening": 0.1, "N": N}


def reference(
    positions: torch.Tensor, mass: torch.Tensor, accelerations: torch.Tensor, softening: float, N: int
) -> torch.Tensor:
    """positions: (N, 3), mass: (N,). Returns (N, 3)."""
    r = positions[None, :, :] - positions[:, None, :]
    d2 = (r * r).sum(-1) + softening**2
    return torch.einsum("ij,ijk->ik", mass / (d2 * d2.sqrt()), r)
