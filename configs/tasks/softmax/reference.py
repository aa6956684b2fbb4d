"""Row-wise softmax of an M x N matrix: what kernel.cpp must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "4096x1024", "dims": {"M": 4096, "N": 1024}, "weight": 1.0},
    {"name": "512x1000", "dims": {"M": 512, "N": 1000}, "weight": 1.0},
)
dims_range = {"M": (64, 4096), "N": (32, 4096)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    rows, columns = dims["M"], dims["N"]
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    return {"x": x, "out": torch.empty_like(x), "M": rows, "N": columns}


def reference(x: torch.Tensor, out: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """x: (M, N) float32, or float64 for the oracle. Returns the same shape and dtype."""
    return torch.softmax(x, dim=-1)
