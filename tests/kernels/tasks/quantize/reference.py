"""Rows of numbers in two types of 8 bits, each as large as the type allows; a row of zeros has no scale."""

import torch

outputs = ("small", "wide")
workloads = ({"dims": {"M": 2048, "N": 4096}},)
dims_range = {"M": (1, 2048), "N": (16, 4096)}


def make_inputs(dims, seed):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(dims["M"], dims["N"], generator=random)
    x[:, 0] *= 40
    x[dims["M"] // 2] = 0
    small, wide = (torch.empty_like(x, dtype=dtype) for dtype in (torch.float8_e4m3fn, torch.float8_e5m2))
    return {"x": x, "small": small, "wide": wide, "M": dims["M"], "N": dims["N"]}


def reference(x, small, wide, M, N):
    """x is float32 (M, N); returns float8_e4m3fn and float8_e5m2 of the same shape."""
    y = x / x.abs().amax(1, keepdim=True)
    return (y * 448).to(torch.float8_e4m3fn), (y * 57000).to(torch.float8_e5m2)
