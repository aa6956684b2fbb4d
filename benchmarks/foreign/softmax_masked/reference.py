"""Softmax over the valid part of each row: what kernel.cpp must compute."""

import torch

outputs = ("probabilities",)
workloads = (
    {"name": "1500x1024", "dims": {"B": 1500, "N": 1024}},
    {"name": "99x501", "dims": {"B": 99, "N": 501}},
)
dims_range = {"B": (4, 1500), "N": (4, 1024)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    B, N = dims["B"], dims["N"]
    scores, lengths = torch.randn(B, N, generator=g), torch.randint(1, N + 1, (B,), generator=g)
    return {"scores": scores, "lengths": lengths, "probabilities": torch.empty_like(scores), "B": B, "N": N}


def reference(scores: torch.Tensor, lengths: torch.Tensor, probabilities: torch.Tensor, B: int, N: int) -> torch.Tensor:
    """scores: (B, N), lengths: (B,) int64, at least 1. Returns (B, N)."""
    valid = torch.arange(N) < lengths[:, None]
    return torch.softmax(scores.masked_fill(~valid, float("-inf")), dim=-1)
