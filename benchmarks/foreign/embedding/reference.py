"""Token and position embedding: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("out",)
workloads = (
    {"name": "32768x20000x512x256", "dims": {"T": 32_768, "V": 20_000, "L": 512, "D": 256}},
    {"name": "777x1000x100x99", "dims": {"T": 777, "V": 1000, "L": 100, "D": 99}},
)
dims_range = {"T": (16, 32_768), "V": (10, 20_000), "L": (1, 512), "D": (8, 256)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    T, V, L, D = dims["T"], dims["V"], dims["L"], dims["D"]
    ids = torch.randint(0, V, (T,), generator=g)
    table, positions = torch.randn(V, D, generator=g), torch.randn(L, D, generator=g)
    return {
        "ids": ids,
        "table": table,
        "positions": positions,
        "out": torch.empty(T, D),
        "scale": 16.0,
        "T": T,
        "L": L,
        "D": D,
    }


def reference(
    ids: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    out: torch.Tensor,
    scale: float,
    T: int,
    L: int,
    D: int,
) -> torch.Tensor:
    """ids: (T,) int64, table: (V, D), positions: (L, D). Returns (T, D)."""
    return F.embedding(ids, table) * scale + positions[torch.arange(T) % L]
