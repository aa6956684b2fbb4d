"""Luma of 8-bit pixels: what kernel.cpp must compute."""

import torch

outputs = ("gray",)
workloads = (
    {"name": "4320x7680", "dims": {"H": 4320, "W": 7680}},
    {"name": "333x517", "dims": {"H": 333, "W": 517}},
)
dims_range = {"H": (2, 4320), "W": (2, 7680)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    H, W = dims["H"], dims["W"]
    rgb = torch.randint(0, 256, (H, W, 3), dtype=torch.uint8, generator=g)
    return {"rgb": rgb, "gray": torch.empty(H, W, dtype=torch.uint8), "H": H, "W": W}


def reference(rgb: torch.Tensor, gray: torch.Tensor, H: int, W: int) -> torch.Tensor:
    """rgb: (H, W, 3) uint8. Returns (H, W) uint8."""
    r, g, b = rgb.to(torch.int32).unbind(-1)
    return ((77 * r + 150 * g + 29 * b) >> 8).to(torch.uint8)
