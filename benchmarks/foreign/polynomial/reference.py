"""Values of a polynomial: what kernel.cpp must compute."""

import torch

outputs = ("y",)
workloads = (
    {"name": "1500000x12", "dims": {"N": 1_500_000, "degree": 12}},
    {"name": "50021x12", "dims": {"N": 50_021, "degree": 12}},
)
dims_range = {"N": (100, 1_500_000), "degree": (1, 16)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, degree = dims["N"], dims["degree"]
    x, coefficient = 2 * torch.rand(N, generator=g) - 1, torch.randn(degree + 1, generator=g)
    return {"x": x, "coefficient": coefficient, "y": torch.empty(N), "N": N, "degree": degree}


def reference(x: torch.Tensor, coefficient: torch.Tensor, y: torch.Tensor, N: int, degree: int) -> torch.Tensor:
    """x: (N,), coefficient: (degree + 1,). Returns (N,)."""
    y = coefficient[degree].expand(N)
    for k in range(degree - 1, -1, -1):
        y = y * x + coefficient[k]
    return y
