"""Attention written out: softmax(q k^T / sqrt(D)) v of B heads, each with S rows of D columns."""

import torch

outputs = ("out",)
workloads = ({"dims": {"B": 32, "S": 2048, "D": 64}},)
dims_range = {"B": (1, 32), "S": (2, 2048), "D": (64, 64)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name."""
    b, s, d = dims["B"], dims["S"], dims["D"]
    g = torch.Generator(device).manual_seed(seed)
    q, k, v = (torch.randn(b, s, d, generator=g, device=device).half() for _ in range(3))
    return {"q": q, "k": k, "v": v, "out": torch.empty_like(q), "B": b, "S": s, "D": d}


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, B: int, S: int, D: int
) -> torch.Tensor:
    """q, k, v: (B, S, D). Returns the same shape."""
    return torch.softmax(q @ k.transpose(1, 2) / D**0.5, dim=-1) @ v
