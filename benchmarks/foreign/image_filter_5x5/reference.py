"""A 5x5 filter with replicated edges: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("result",)
workloads = (
    {"name": "720x1024", "dims": {"height": 720, "width": 1024}},
    {"name": "211x173", "dims": {"height": 211, "width": 173}},
)
dims_range = {"height": (2, 720), "width": (2, 1024)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    height, width = dims["height"], dims["width"]
    image, mask = torch.rand(height, width, generator=g), torch.randn(5, 5, generator=g)
    return {"image": image, "mask": mask, "result": torch.empty_like(image), "height": height, "width": width}


def reference(image: torch.Tensor, mask: torch.Tensor, result: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """image: (height, width), mask: (5, 5). Returns (height, width)."""
    padded = F.pad(image[None, None], (2, 2, 2, 2), mode="replicate")
    return F.conv2d(padded, mask[None, None])[0, 0]
