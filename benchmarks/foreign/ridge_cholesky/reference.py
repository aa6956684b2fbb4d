"""Cholesky factor of ridge regression's normal equations: what kernel.cpp must compute."""

import torch

outputs = ("L",)
workloads = (
    {"name": "512x200", "dims": {"samples": 512, "features": 200}},
    {"name": "257x61", "dims": {"samples": 257, "features": 61}},
)
dims_range = {"samples": (256, 512), "features": (4, 200)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    samples, features = dims["samples"], dims["features"]
    X = torch.randn(samples, features, generator=g)
    return {"X": X, "L": torch.empty(features, features), "ridge": 1.0, "samples": samples, "features": features}


def reference(X: torch.Tensor, L: torch.Tensor, ridge: float, samples: int, features: int) -> torch.Tensor:
    """X: (samples, features). Returns (features, features), lower triangular."""
    return torch.linalg.cholesky(X.T @ X + ridge * torch.eye(features, dtype=X.dtype))
