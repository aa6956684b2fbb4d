"""Counts of a million integers in B bins, which the plain kernel keeps in memory."""

import torch

outputs = ("out",)
workloads = ({"name": "n1m", "dims": {"N": 1048576, "B": 61}, "weight": 1.0},)


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    values, bins = dims["N"], dims["B"]
    x = torch.randint(0, 1 << 20, (values,), dtype=torch.int32, generator=torch.Generator().manual_seed(seed))
    return {"x": x, "out": torch.zeros(bins, dtype=torch.int32), "N": values, "B": bins}


def reference(x: torch.Tensor, out: torch.Tensor, N: int, B: int) -> torch.Tensor:
    """x: (N,) int32. Returns (B,) int32."""
    return torch.bincount(x % B, minlength=B).to(torch.int32)
