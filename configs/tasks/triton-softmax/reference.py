"""Row-wise softmax of an M x N matrix: what kernel.py must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "8192x4096", "dims": {"M": 8192, "N": 4096}, "weight": 1.0},
    {"name": "4096x8192", "dims": {"M": 4096, "N": 8192}, "weight": 1.0},
    {"name": "16384x1000", "dims": {"M": 16384, "N": 1000}, "weight": 1.0},
)
dims_range = {"M": (1024, 16384), "N": (128, 8192)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments of run_kernel by name."""
    rows, columns = dims["M"], dims["N"]
    x = torch.randn(rows, columns, generator=torch.Generator(device).manual_seed(seed), device=device)
    return {"x": x, "out": torch.empty_like(x), "M": rows, "N": columns}


def reference(x: torch.Tensor, out: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """x: (M, N) float32, or float64 for the oracle. Returns the same shape and dtype."""
    return torch.softmax(x, dim=-1)
