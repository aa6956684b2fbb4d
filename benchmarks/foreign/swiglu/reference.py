"""SwiGLU gate: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("out",)
workloads = (
    {"name": "1024x1024", "dims": {"M": 1024, "N": 1024}},
    {"name": "77x341", "dims": {"M": 77, "N": 341}},
)
dims_range = {"M": (8, 1024), "N": (8, 1024)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    M, N = dims["M"], dims["N"]
    x = torch.randn(M, 2 * N, generator=g)
    return {"x": x, "out": torch.empty(M, N), "M": M, "N": N}


def reference(x: torch.Tensor, out: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """x: (M, 2 N). Returns (M, N)."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up
