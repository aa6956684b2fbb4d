"""Dot product and Euclidean norm: what kernel.cpp must compute."""

import torch

outputs = ("dot", "norm")
workloads = (
    {"name": "8000000", "dims": {"N": 8_000_000}},
    {"name": "200001", "dims": {"N": 200_001}},
)
dims_range = {"N": (1000, 8_000_000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N = dims["N"]
    x, y = torch.rand(N, generator=g), torch.rand(N, generator=g)
    return {"x": x, "y": y, "dot": torch.empty(1), "norm": torch.empty(1), "N": N}


def reference(
    x: torch.Tensor, y: torch.Tensor, dot: torch.Tensor, norm: torch.Tensor, N: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """x, y: (N,). Returns two tensors of one element."""
    return torch.dot(x, y).reshape(1), torch.linalg.vector_norm(x).reshape(1)
