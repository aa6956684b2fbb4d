"""Matrix product: what kernel.cpp must compute."""

import torch

outputs = ("c",)
workloads = (
    {"name": "320x320x320", "dims": {"M": 320, "N": 320, "K": 320}},
    {"name": "97x65x113", "dims": {"M": 97, "N": 65, "K": 113}},
)
dims_range = {"M": (8, 320), "N": (8, 320), "K": (8, 320)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    M, N, K = dims["M"], dims["N"], dims["K"]
    a, b = torch.randn(M, K, generator=g), torch.randn(K, N, generator=g)
    return {"a": a, "b": b, "c": torch.empty(M, N), "M": M, "N": N, "K": K}


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, M: int, N: int, K: int) -> torch.Tensor:
    """a: (M, K), b: (K, N). Returns (M, N)."""
    return a @ b
