"""Root mean square of the first `lengths[r]` columns of each row, float32: a sibling of masked-mean, to see what its
run left behind."""

import torch

outputs = ("out",)
workloads = ({"name": "8192x4096", "dims": {"R": 8192, "C": 4096}},)
dims_range = {"R": (64, 8192), "C": (64, 16384)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name; lengths are drawn between 1 and the width, half of them below a quarter of it."""
    rows, columns = dims["R"], dims["C"]
    g = torch.Generator(device).manual_seed(seed)
    x = torch.randn(rows, columns, generator=g, device=device)
    lengths = (torch.rand(rows, generator=g, device=device).square() * columns).to(torch.int32).clamp(min=1)
    return {"x": x, "lengths": lengths, "out": torch.empty(rows, device=device), "R": rows, "C": columns}


def reference(x: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor, R: int, C: int) -> torch.Tensor:
    """x: (R, C), lengths: (R,) int32. Returns (R,)."""
    inside = torch.arange(C, device=x.device) < lengths[:, None]
    return (torch.where(inside, x, 0).square().sum(1) / lengths).sqrt()
