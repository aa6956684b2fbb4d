"""Products of many small square matrices: what kernel.cpp must compute."""

import torch

outputs = ("c",)
workloads = (
    {"name": "6000x16", "dims": {"batch": 6000, "S": 16}},
    {"name": "257x13", "dims": {"batch": 257, "S": 13}},
)
dims_range = {"batch": (1, 6000), "S": (3, 24)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    batch, S = dims["batch"], dims["S"]
    a, b = torch.randn(batch, S, S, generator=g), torch.randn(batch, S, S, generator=g)
    return {"a": a, "b": b, "c": torch.empty(batch, S, S), "batch": batch, "S": S}


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, batch: int, S: int) -> torch.Tensor:
    """a, b: (batch, S, S). Returns the same shape."""
    return torch.bmm(a, b)
