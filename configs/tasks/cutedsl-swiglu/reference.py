"""The gate of a feed-forward layer, silu(gate) * up: what kernel.py must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "4096x4096", "dims": {"M": 4096, "N": 4096}, "weight": 1.0},
    {"name": "1024x11008", "dims": {"M": 1024, "N": 11008}, "weight": 1.0},
)
dims_range = {"M": (16, 4096), "N": (128, 4096)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments of run_kernel by name."""
    rows, columns = dims["M"], dims["N"]
    generator = torch.Generator(device).manual_seed(seed)
    gate, up = (torch.randn(rows, columns, generator=generator, device=device).to(torch.bfloat16) for _ in range(2))
    return {"gate": gate, "up": up, "out": torch.empty_like(gate), "M": rows, "N": columns}


def reference(gate: torch.Tensor, up: torch.Tensor, out: torch.Tensor, M: int, N: int) -> torch.Tensor:
    """gate, up: (M, N) bfloat16, or float64 for the oracle. Returns their shape and dtype."""
    return torch.nn.functional.silu(gate) * up
