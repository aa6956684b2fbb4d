"""Seven-point Laplacian: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("lap",)
workloads = (
    {"name": "256x200x200", "dims": {"nz": 256, "ny": 200, "nx": 200}},
    {"name": "31x45x67", "dims": {"nz": 31, "ny": 45, "nx": 67}},
)
dims_range = {"nz": (3, 256), "ny": (3, 200), "nx": (3, 200)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    nz, ny, nx = dims["nz"], dims["ny"], dims["nx"]
    f = torch.randn(nz, ny, nx, generator=g)
    return {"f": f, "lap": torch.empty_like(f), "h": 0.1, "nz": nz, "ny": ny, "nx": nx}


def reference(f: torch.Tensor, lap: torch.Tensor, h: float, nz: int, ny: int, nx: int) -> torch.Tensor:
    """f: (nz, ny, nx). Returns the same shape."""
    inner = f[1:-1, 1:-1, 1:-1]
    x = f[1:-1, 1:-1, 2:] + f[1:-1, 1:-1, :-2]
    y = f[1:-1, 2:, 1:-1] + f[1:-1, :-2, 1:-1]
    z = f[2:, 1:-1, 1:-1] + f[:-2, 1:-1, 1:-1]
    return F.pad((x + y + z - 6 * inner) / (h * h), (1, 1, 1, 1, 1, 1))
