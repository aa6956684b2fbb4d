"""A causal FIR filter: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("out",)
workloads = (
    {"name": "1000000x31", "dims": {"N": 1_000_000, "T": 31}},
    {"name": "50021x31", "dims": {"N": 50_021, "T": 31}},
)
dims_range = {"N": (100, 1_000_000), "T": (1, 64)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N, T = dims["N"], dims["T"]
    signal, taps = torch.randn(N, generator=g), torch.randn(T, generator=g)
    return {"signal": signal, "taps": taps, "out": torch.empty(N), "N": N, "T": T}


def reference(signal: torch.Tensor, taps: torch.Tensor, out: torch.Tensor, N: int, T: int) -> torch.Tensor:
    """signal: (N,), taps: (T,). Returns (N,)."""
    return F.conv1d(F.pad(signal, (T - 1, 0))[None, None], taps.flip(0)[None, None])[0, 0]
