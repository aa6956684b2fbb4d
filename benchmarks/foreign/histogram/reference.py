"""Counts of small integers: what kernel.cpp must compute."""

import torch

outputs = ("counts",)
workloads = (
    {"name": "16000000x256", "dims": {"N": 16_000_000, "B": 256}},
    {"name": "300007x100", "dims": {"N": 300_007, "B": 100}},
)
dims_range = {"N": (1000, 16_000_000), "B": (1, 256)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, B = dims["N"], dims["B"]
    values = torch.randint(0, B, (N,), dtype=torch.int32, generator=g)
    return {"values": values, "counts": torch.empty(B, dtype=torch.int32), "N": N, "B": B}


def reference(values: torch.Tensor, counts: torch.Tensor, N: int, B: int) -> torch.Tensor:
    """values: (N,) int32 in [0, B). Returns (B,) int32."""
    return torch.bincount(values, minlength=B).to(torch.int32)
