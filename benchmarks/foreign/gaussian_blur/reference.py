"""Separable Gaussian blur: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("dst",)
workloads = (
    {"name": "800x1024", "dims": {"H": 800, "W": 1024}},
    {"name": "131x203", "dims": {"H": 131, "W": 203}},
)
dims_range = {"H": (2, 800), "W": (2, 1024)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    H, W = dims["H"], dims["W"]
    src = torch.rand(H, W, generator=g)
    return {"src": src, "dst": torch.empty_like(src), "sigma": 1.5, "radius": 4, "H": H, "W": W}


def reference(src: torch.Tensor, dst: torch.Tensor, sigma: float, radius: int, H: int, W: int) -> torch.Tensor:
    """src: (H, W). Returns the same shape."""
    offsets = torch.arange(-radius, radius + 1, dtype=src.dtype)
    weights = torch.exp(-(offsets**2) / (2 * sigma**2))
    weights = weights / weights.sum()
    rows = F.conv2d(src[None, None], weights[None, None, None, :], padding=(0, radius))
    return F.conv2d(rows, weights[None, None, :, None], padding=(radius, 0))[0, 0]
