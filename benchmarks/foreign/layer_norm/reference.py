"""Layer normalisation: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("y",)
workloads = (
    {"name": "3000x1024", "dims": {"rows": 3000, "features": 1024}},
    {"name": "129x771", "dims": {"rows": 129, "features": 771}},
)
dims_range = {"rows": (16, 3000), "features": (16, 1024)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    rows, features = dims["rows"], dims["features"]
    x = torch.randn(rows, features, generator=g)
    gamma, beta = torch.rand(features, generator=g) + 0.5, torch.randn(features, generator=g)
    return {
        "x": x,
        "gamma": gamma,
        "beta": beta,
        "y": torch.empty_like(x),
        "eps": 1e-5,
        "rows": rows,
        "features": features,
    }


def reference(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, y: torch.Tensor, eps: float, rows: int, features: int
) -> torch.Tensor:
    """x: (rows, features), gamma and beta: (features,). Returns the shape of x."""
    return F.layer_norm(x, (features,), gamma, beta, eps)
