"""gelu(a @ b + bias) of bfloat16 matrices, accumulated in float32."""

import torch
import torch.nn.functional as F

outputs = ("out",)
workloads = (
    {"name": "4096^3", "dims": {"M": 4096, "N": 4096, "K": 4096}},
    {"name": "2048x8192x2048", "dims": {"M": 2048, "N": 8192, "K": 2048}},
)
dims_range = {"M": (256, 4096), "N": (256, 8192), "K": (256, 4096)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name; b is scaled so that sums stay small."""
    m, n, k = dims["M"], dims["N"], dims["K"]
    g = torch.Generator(device).manual_seed(seed)
    a = torch.randn(m, k, generator=g, device=device).bfloat16()
    b = (torch.randn(k, n, generator=g, device=device) / k**0.5).bfloat16()
    bias = torch.randn(n, generator=g, device=device).bfloat16()
    return {
        "a": a,
        "b": b,
        "bias": bias,
        "out": torch.empty(m, n, dtype=torch.bfloat16, device=device),
        "M": m,
        "N": n,
        "K": k,
    }


def reference(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, M: int, N: int, K: int
) -> torch.Tensor:
    """a: (M, K), b: (K, N), bias: (N,). Returns (M, N)."""
    return F.gelu(a @ b + bias)
