"""Mean and variance of columns: what kernel.cpp must compute."""

import torch

outputs = ("mean", "variance")
workloads = (
    {"name": "3000x512", "dims": {"samples": 3000, "features": 512}},
    {"name": "501x77", "dims": {"samples": 501, "features": 77}},
)
dims_range = {"samples": (2, 3000), "features": (1, 512)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    samples, features = dims["samples"], dims["features"]
    data = torch.randn(samples, features, generator=g) + 3
    return {
        "data": data,
        "mean": torch.empty(features),
        "variance": torch.empty(features),
        "samples": samples,
        "features": features,
    }


def reference(
    data: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, samples: int, features: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """data: (samples, features). Returns two tensors of (features,)."""
    variance, mean = torch.var_mean(data, dim=0, correction=0)
    return mean, variance
