"""c = a @ b of bfloat16 matrices, accumulated in float32, at two sizes that want different tiles."""

import torch

outputs = ("c",)
workloads = (
    {"name": "4096^3", "dims": {"M": 4096, "N": 4096, "K": 4096}},
    {"name": "512x4096x4096", "dims": {"M": 512, "N": 4096, "K": 4096}, "weight": 2.0},
)
dims_range = {"M": (256, 4096), "N": (256, 4096), "K": (256, 4096)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments of solve in order."""
    rows, columns, depth = dims["M"], dims["N"], dims["K"]
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn(rows, depth, generator=generator, device=device).to(torch.bfloat16)
    b = (torch.randn(depth, columns, generator=generator, device=device) / depth**0.5).to(torch.bfloat16)
    return {
        "a": a,
        "b": b,
        "c": torch.empty(rows, columns, dtype=torch.bfloat16, device=device),
        "M": rows,
        "N": columns,
        "K": depth,
    }


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, M: int, N: int, K: int) -> torch.Tensor:
    """a: (M, K), b: (K, N), both bfloat16, or float64 for the oracle. Returns (M, N) in that dtype."""
    return a @ b
