"""For each of N points the sum of 1 / sqrt(d^2 + 1) over its distances d to all points."""

import torch

outputs = ("out",)
workloads = ({"name": "n768", "dims": {"N": 768}, "weight": 1.0},)


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    points = dims["N"]
    x = torch.randn(points, 3, generator=torch.Generator().manual_seed(seed))
    return {"x": x, "out": torch.empty(points), "N": points}


def reference(x: torch.Tensor, out: torch.Tensor, N: int) -> torch.Tensor:
    """x: (N, 3) float32, or float64 for the oracle. Returns (N,)."""
    d = x[:, None, :] - x[None, :, :]
    return (1.0 / torch.sqrt((d * d).sum(-1) + 1.0)).sum(-1)
