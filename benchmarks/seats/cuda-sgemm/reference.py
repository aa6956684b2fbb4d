"""c = a @ b of float32 matrices: what kernel.cu must compute."""

import torch

outputs = ("c",)
workloads = (
    {"name": "2048^3", "dims": {"M": 2048, "N": 2048, "K": 2048}},
    {"name": "4096x1024x2048", "dims": {"M": 4096, "N": 1024, "K": 2048}},
)
dims_range = {"M": (64, 4096), "N": (64, 2048), "K": (16, 2048)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments of solve in order."""
    rows, columns, depth = dims["M"], dims["N"], dims["K"]
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn(rows, depth, generator=generator, device=device)
    b = torch.randn(depth, columns, generator=generator, device=device) / depth**0.5
    return {"a": a, "b": b, "c": torch.empty(rows, columns, device=device), "M": rows, "N": columns, "K": depth}


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, M: int, N: int, K: int) -> torch.Tensor:
    """a: (M, K), b: (K, N), both float32, or float64 for the oracle. Returns (M, N) in that dtype."""
    return a @ b
