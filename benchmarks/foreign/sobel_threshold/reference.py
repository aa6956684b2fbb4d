"""Edges of an 8-bit image: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("edges",)
workloads = (
    {"name": "1080x1920", "dims": {"H": 1080, "W": 1920}},
    {"name": "201x333", "dims": {"H": 201, "W": 333}},
)
dims_range = {"H": (3, 1080), "W": (3, 1920)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    H, W = dims["H"], dims["W"]
    img = torch.randint(0, 256, (H, W), dtype=torch.uint8, generator=g)
    return {"img": img, "edges": torch.empty_like(img), "threshold": 300, "H": H, "W": W}


def reference(img: torch.Tensor, edges: torch.Tensor, threshold: int, H: int, W: int) -> torch.Tensor:
    """img: (H, W) uint8. Returns the same shape and dtype."""
    p = img.to(torch.int32)
    smooth = p[:-2] + 2 * p[1:-1] + p[2:]
    slope = p[2:] - p[:-2]
    gx = smooth[:, 2:] - smooth[:, :-2]
    gy = slope[:, :-2] + 2 * slope[:, 1:-1] + slope[:, 2:]
    inner = torch.where(gx.abs() + gy.abs() > threshold, 255, 0).to(torch.uint8)
    return F.pad(inner, (1, 1, 1, 1))
