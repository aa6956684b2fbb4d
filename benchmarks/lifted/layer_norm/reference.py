"""Layer normalisation of M rows of N columns, with weight and bias."""

import torch
import torch.nn.functional as F

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
        "weight": torch.randn(n, generator=g, device=device),
        "bias": torch.randn(n, generator=g, device=device),
        "out": torch.empty(m, n, device=device),
        "M": m,
        "N": n,
    }


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, M: int, N: int
) -> torch.Tensor:
    """See above."""
    return F.layer_norm(x, (N,), weight, bias)
