"""Max pooling: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("y",)
workloads = (
    {"name": "64x224x224", "dims": {"C": 64, "H": 224, "W": 224}},
    {"name": "5x57x43", "dims": {"C": 5, "H": 57, "W": 43}},
)
dims_range = {"C": (1, 64), "H": (2, 224), "W": (2, 224)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    C, H, W = dims["C"], dims["H"], dims["W"]
    x, y = torch.randn(C, H, W, generator=g), torch.empty(C, (H - 1) // 2 + 1, (W - 1) // 2 + 1)
    return {"x": x, "y": y, "C": C, "H": H, "W": W}


def reference(x: torch.Tensor, y: torch.Tensor, C: int, H: int, W: int) -> torch.Tensor:
    """x: (C, H, W). Returns (C, (H + 1) / 2, (W + 1) / 2), rounded down."""
    return F.max_pool2d(x[None], kernel_size=3, stride=2, padding=1)[0]
