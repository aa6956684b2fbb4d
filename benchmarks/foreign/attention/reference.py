"""Causal attention of one head: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("out",)
workloads = (
    {"name": "512x64", "dims": {"L": 512, "D": 64}},
    {"name": "117x40", "dims": {"L": 117, "D": 40}},
)
dims_range = {"L": (2, 512), "D": (8, 64)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    L, D = dims["L"], dims["D"]
    Q, K, V = (torch.randn(L, D, generator=g) for _ in range(3))
    return {"Q": Q, "K": K, "V": V, "out": torch.empty(L, D), "L": L, "D": D}


def reference(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, out: torch.Tensor, L: int, D: int) -> torch.Tensor:
    """Q, K, V: (L, D). Returns (L, D)."""
    return F.scaled_dot_product_attention(Q[None], K[None], V[None], is_causal=True)[0]
