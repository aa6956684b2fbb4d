"""Attention over padded sequences: softmax(q k^T / sqrt(D) where the key is within its length) v, bfloat16, written
out."""

import torch

outputs = ("out",)
workloads = (
    {"name": "4x16x2048x64", "dims": {"B": 4, "H": 16, "L": 2048, "D": 64}},
    {"name": "8x8x1024x128", "dims": {"B": 8, "H": 8, "L": 1024, "D": 128}},
)
dims_range = {"B": (1, 8), "H": (1, 16), "L": (64, 2048), "D": (32, 128)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name; lengths lie between 1 and L."""
    b, h, n, d = (dims[name] for name in "BHLD")
    g = torch.Generator(device).manual_seed(seed)
    q, k, v = (torch.randn(b, h, n, d, generator=g, device=device).bfloat16() for _ in range(3))
    lengths = torch.randint(1, n + 1, (b,), generator=g, device=device, dtype=torch.int32)
    return {"q": q, "k": k, "v": v, "lengths": lengths, "out": torch.empty_like(q), "B": b, "H": h, "L": n, "D": d}


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    out: torch.Tensor,
    B: int,
    H: int,
    L: int,
    D: int,
) -> torch.Tensor:
    """q, k, v: (B, H, L, D), lengths: (B,) int32. Returns (B, H, L, D); rows of queries behind a length are computed
    too."""
    scores = (q @ k.transpose(-2, -1)).float() / D**0.5
    scores = scores.masked_fill(torch.arange(L, device=q.device) >= lengths[:, None, None, None], float("-inf"))
    return scores.softmax(-1).to(q.dtype) @ v
