"""Rows divided by their sums, and the sums."""

import torch

outputs = (
    "out",
    "total",
)
workloads = ({"dims": {"M": 2048, "N": 1504}}, {"dims": {"M": 301, "N": 259}})
gpu_workloads = ({"dims": {"M": 8192, "N": 4096}}, {"dims": {"M": 4099, "N": 1536}})
dims_range = {"M": (2, 8192), "N": (2, 4096)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name."""
    m, n = dims["M"], dims["N"]
    g = torch.Generator(device).manual_seed(seed)
    return {
        "x": torch.rand(m, n, generator=g, device=device),
        "out": torch.empty(m, n, device=device),
        "total": torch.empty(m, 1, device=device),
        "M": m,
        "N": n,
    }


def reference(
    x: torch.Tensor, out: torch.Tensor, total: torch.Tensor, M: int, N: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """See above."""
    total = x.sum(dim=1, keepdim=True)
    return x / total, total
