"""Mean of each row over the columns that a mask keeps."""

import torch

outputs = ("out",)
workloads = ({"dims": {"M": 2048, "N": 1504}}, {"dims": {"M": 301, "N": 259}})
gpu_workloads = ({"dims": {"M": 8192, "N": 4096}}, {"dims": {"M": 4099, "N": 1536}})
dims_range = {"M": (2, 8192), "N": (2, 4096)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name."""
    m, n = dims["M"], dims["N"]
    g = torch.Generator(device).manual_seed(seed)
    return {
        "x": torch.randn(m, n, generator=g, device=device),
        "mask": torch.rand(m, n, generator=g, device=device) > 0.5,
        "out": torch.empty(m, device=device),
        "M": m,
        "N": n,
    }


def reference(x: torch.Tensor, mask: torch.Tensor, out: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """See above."""
    return (x * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
