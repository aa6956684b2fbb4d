"""out = a @ b + bias of float16 matrices, accumulated in float32: what kernel.py must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "4096^3", "dims": {"M": 4096, "N": 4096, "K": 4096}, "weight": 1.0},
    {"name": "2048x8192x2048", "dims": {"M": 2048, "N": 8192, "K": 2048}, "weight": 1.0},
    {"name": "1000x3000x2000", "dims": {"M": 1000, "N": 3000, "K": 2000}, "weight": 1.0},
)
dims_range = {"M": (256, 4096), "N": (256, 4096), "K": (256, 4096)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments of run_kernel by name."""
    rows, columns, depth = dims["M"], dims["N"], dims["K"]
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn(rows, depth, generator=generator, device=device).to(torch.float16)
    # Scaled so that sums over a row stay within float16.
    b = (torch.randn(depth, columns, generator=generator, device=device) / depth**0.5).to(torch.float16)
    bias = torch.randn(columns, generator=generator, device=device).to(torch.float16)
    out = torch.empty(rows, columns, dtype=torch.float16, device=device)
    return {"a": a, "b": b, "bias": bias, "out": out, "M": rows, "N": columns, "K": depth}


def reference(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, M: int, N: int, K: int) -> torch.Tensor:
    """a: (M, K), b: (K, N), bias: (N,), all float16, or float64 for the oracle. Returns (M, N) in that dtype."""
    if a.dtype is torch.float16 and not a.is_cuda:
        # The CPU has no float16 products; float32 ones accumulate as the GPU's do.
        return torch.addmm(bias.float(), a.float(), b.float()).to(torch.float16)
    return torch.addmm(bias, a, b)
