"""y = W x with a decoder's 4-bit weights, two a byte along a row, and a float16 scale for each group of 128 columns."""

import torch

GROUP = 128
outputs = ("y",)
workloads = (
    {"name": "4096x14336", "dims": {"N": 4096, "K": 14336}},
    {"name": "28672x4096", "dims": {"N": 28672, "K": 4096}},
)
dims_range = {"N": (256, 28672), "K": (256, 14336)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name; K is a multiple of 256."""
    n, k = dims["N"], dims["K"]
    g = torch.Generator(device).manual_seed(seed)
    weight = torch.randint(0, 256, (n, k // 2), generator=g, device=device, dtype=torch.uint8)
    scale = (torch.rand(n, k // GROUP, generator=g, device=device) * 0.02).half()
    x = torch.randn(k, generator=g, device=device).half()
    return {
        "weight": weight,
        "scale": scale,
        "x": x,
        "y": torch.empty(n, dtype=torch.float16, device=device),
        "N": n,
        "K": k,
    }


def reference(
    weight: torch.Tensor, scale: torch.Tensor, x: torch.Tensor, y: torch.Tensor, N: int, K: int
) -> torch.Tensor:
    """weight: (N, K / 2) uint8, the low half of a byte is the even column; scale: (N, K / 128), x: (K,), float16.
    Returns (N,)."""
    low, high = (weight & 15).to(torch.int32) - 8, (weight >> 4).to(torch.int32) - 8
    values = torch.stack((low, high), -1).reshape(N, K // GROUP, GROUP)
    return ((values * scale[:, :, None].float()).reshape(N, K) * x.float()).sum(1).to(y.dtype)
