"""Sums of rows by segment: what kernel.cpp must compute."""

import torch

outputs = ("sums",)
workloads = (
    {"name": "240000x64x1000", "dims": {"N": 240_000, "D": 64, "S": 1000}},
    {"name": "3001x33x101", "dims": {"N": 3001, "D": 33, "S": 101}},
)
dims_range = {"N": (100, 240_000), "D": (1, 64), "S": (1, 1000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, D, S = dims["N"], dims["D"], dims["S"]
    values, segment = torch.randn(N, D, generator=g), torch.randint(0, S, (N,), generator=g)
    return {"values": values, "segment": segment, "sums": torch.empty(S, D), "N": N, "D": D, "S": S}


def reference(values: torch.Tensor, segment: torch.Tensor, sums: torch.Tensor, N: int, D: int, S: int) -> torch.Tensor:
    """values: (N, D), segment: (N,) int64 in [0, S). Returns (S, D)."""
    return values.new_zeros(S, D).index_add(0, segment, values)
