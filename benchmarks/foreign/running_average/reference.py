"""Centred moving average: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("smooth",)
workloads = (
    {"name": "16x120000x12", "dims": {"C": 16, "T": 120_000, "h": 12}},
    {"name": "3x7001x5", "dims": {"C": 3, "T": 7001, "h": 5}},
)
dims_range = {"C": (1, 16), "T": (4, 120_000), "h": (1, 16)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    C, T, h = dims["C"], dims["T"], dims["h"]
    series = torch.randn(C, T, generator=g)
    return {"series": series, "smooth": torch.empty_like(series), "C": C, "T": T, "h": h}


def reference(series: torch.Tensor, smooth: torch.Tensor, C: int, T: int, h: int) -> torch.Tensor:
    """series: (C, T). Returns the same shape."""
    return F.avg_pool1d(series, 2 * h + 1, stride=1, padding=h, count_include_pad=False)
