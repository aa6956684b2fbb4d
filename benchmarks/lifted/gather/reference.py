"""M rows of a table of N rows, picked by index and scaled."""

import torch

outputs = ("out",)
workloads = ({"dims": {"M": 2048, "N": 1504}}, {"dims": {"M": 301, "N": 259}})
gpu_workloads = ({"dims": {"M": 8192, "N": 4096}}, {"dims": {"M": 4099, "N": 1536}})
dims_range = {"M": (2, 8192), "N": (2, 4096)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments by name."""
    m, n = dims["M"], dims["N"]
    g = torch.Generator(device).manual_seed(seed)
    return {
        "table": torch.randn(n, 512, generator=g, device=device),
        "index": torch.randint(0, n, (m,), generator=g, device=device),
        "scale": torch.randn(m, generator=g, device=device),
        "out": torch.empty(m, 512, device=device),
        "M": m,
        "N": n,
    }


def reference(
    table: torch.Tensor, index: torch.Tensor, scale: torch.Tensor, out: torch.Tensor, M: int, N: int
) -> torch.Tensor:
    """See above."""
    return table[index] * scale[:, None]
