"""Products of complex vectors: what kernel.cpp must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "4000000", "dims": {"N": 4_000_000}},
    {"name": "50021", "dims": {"N": 50_021}},
)
dims_range = {"N": (100, 4_000_000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N = dims["N"]
    a, b, c = (torch.randn(N, 2, generator=g) for _ in range(3))
    return {"a": a, "b": b, "c": c, "out": torch.empty(N, 2), "N": N}


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, out: torch.Tensor, N: int) -> torch.Tensor:
    """a, b, c: (N, 2), real and imaginary parts. Returns (N, 2)."""
    u, v, w = torch.view_as_complex(a), torch.view_as_complex(b), torch.view_as_complex(c)
    return torch.view_as_real(u * v * w.conj())
