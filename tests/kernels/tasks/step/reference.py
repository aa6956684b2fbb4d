"""A step of an optimiser, in place: parameters and both moments are read and written."""

import torch

inout = ("w", "m", "v")
workloads = ({"name": "n200k", "dims": {"N": 200000}, "weight": 1.0},)


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    random, size = torch.Generator().manual_seed(seed), dims["N"]
    w, m, g = (torch.randn(size, generator=random) * scale for scale in (1.0, 0.1, 1.0))
    v = torch.rand(size, generator=random) * 0.01
    return {"w": w, "m": m, "v": v, "g": g, "rate": 0.01, "N": size}


def reference(w: torch.Tensor, m: torch.Tensor, v: torch.Tensor, g: torch.Tensor, rate: float, N: int) -> None:
    """All (N,) float32. Changes w, m and v."""
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    w.sub_(rate * m / (v.sqrt() + 1e-8))
