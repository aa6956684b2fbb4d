"""Mean cross-entropy of M rows of N logits."""

import torch
import torch.nn.functional as F

outputs = ("out",)
workloads = ({"dims": {"M": 512, "N": 8000}}, {"dims": {"M": 301, "N": 259}})
gpu_workloads = ({"dims": {"M": 4096, "N": 32000}}, {"dims": {"M": 4099, "N": 1536}})
dims_range = {"M": (2, 4096), "N": (2, 32000)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name."""
    m, n = dims["M"], dims["N"]
    g = torch.Generator(device).manual_seed(seed)
    return {
        "x": torch.randn(m, n, generator=g, device=device),
        "target": torch.randint(0, n, (m,), generator=g, device=device),
        "out": torch.empty((), device=device),
        "M": m,
        "N": n,
    }


def reference(x: torch.Tensor, target: torch.Tensor, out: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """See above."""
    return F.cross_entropy(x, target)
