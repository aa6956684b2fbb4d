"""One step of the heat equation on a grid: what kernel.cpp must compute."""

import torch

outputs = ("unew",)
workloads = (
    {"name": "1500x1600", "dims": {"ny": 1500, "nx": 1600}},
    {"name": "301x259", "dims": {"ny": 301, "nx": 259}},
)
dims_range = {"ny": (3, 1500), "nx": (3, 1600)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    ny, nx = dims["ny"], dims["nx"]
    u = torch.randn(ny, nx, generator=g)
    return {"u": u, "unew": torch.empty_like(u), "r": 0.2, "ny": ny, "nx": nx}


def reference(u: torch.Tensor, unew: torch.Tensor, r: float, ny: int, nx: int) -> torch.Tensor:
    """u: (ny, nx). Returns the same shape."""
    new = u.clone()
    new[1:-1, 1:-1] += r * (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - 4 * u[1:-1, 1:-1])
    return new
