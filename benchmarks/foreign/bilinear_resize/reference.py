"""Bilinear resize: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("dst",)
workloads = (
    {"name": "3x480x640x720x1080", "dims": {"C": 3, "H": 480, "W": 640, "OH": 720, "OW": 1080}},
    {"name": "1x131x97x75x203", "dims": {"C": 1, "H": 131, "W": 97, "OH": 75, "OW": 203}},
)
dims_range = {"C": (1, 3), "H": (2, 480), "W": (2, 640), "OH": (2, 720), "OW": (2, 1080)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    C, H, W, OH, OW = dims["C"], dims["H"], dims["W"], dims["OH"], dims["OW"]
    src, dst = torch.rand(C, H, W, generator=g), torch.empty(C, OH, OW)
    return {"src": src, "dst": dst, "C": C, "H": H, "W": W, "OH": OH, "OW": OW}


def reference(src: torch.Tensor, dst: torch.Tensor, C: int, H: int, W: int, OH: int, OW: int) -> torch.Tensor:
    """src: (C, H, W). Returns (C, OH, OW)."""
    return F.interpolate(src[None], size=(OH, OW), mode="bilinear", align_corners=False)[0]
