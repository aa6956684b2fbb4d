"""RMS normalisation of M rows of N columns with a weight for each column: what kernel.cu must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "8192x4096", "dims": {"M": 8192, "N": 4096, "eps": 1e-5}, "weight": 1.0},
    {"name": "4096x8192", "dims": {"M": 4096, "N": 8192, "eps": 1e-5}, "weight": 1.0},
    {"name": "16384x1536", "dims": {"M": 16384, "N": 1536, "eps": 1e-5}, "weight": 1.0},
)
dims_range = {"M": (1024, 16384), "N": (128, 8192)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments of solve in order."""
    rows, columns = dims["M"], dims["N"]
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator, device=device)
    weight = torch.randn(columns, generator=generator, device=device)
    return {"x": x, "weight": weight, "out": torch.empty_like(x), "M": rows, "N": columns, "eps": dims["eps"]}


def reference(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, M: int, N: int, eps: float) -> torch.Tensor:
    """x: (M, N), weight: (N,), both float32, or float64 for the oracle. Returns the shape and dtype of x."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
