"""Transpose of a matrix: what kernel.cpp must compute."""

import torch

outputs = ("B",)
workloads = (
    {"name": "2048x1500", "dims": {"rows": 2048, "cols": 1500}},
    {"name": "311x257", "dims": {"rows": 311, "cols": 257}},
)
dims_range = {"rows": (8, 2048), "cols": (8, 1500)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    rows, cols = dims["rows"], dims["cols"]
    A = torch.randn(rows, cols, generator=g)
    return {"A": A, "B": torch.empty(cols, rows), "rows": rows, "cols": cols}


def reference(A: torch.Tensor, B: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    """A: (rows, cols). Returns (cols, rows)."""
    return A.T.contiguous()
