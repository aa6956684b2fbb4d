"""Prices of European options: what kernel.cpp must compute."""

import torch

outputs = ("call", "put")
workloads = (
    {"name": "200000", "dims": {"N": 200_000}},
    {"name": "10007", "dims": {"N": 10_007}},
)
dims_range = {"N": (100, 200_000)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    N = dims["N"]
    spot = 80 + 40 * torch.rand(N, generator=g)
    strike = 80 + 40 * torch.rand(N, generator=g)
    years = 0.1 + 2 * torch.rand(N, generator=g)
    prices = {"call": torch.empty(N), "put": torch.empty(N)}
    return {"spot": spot, "strike": strike, "years": years, **prices, "rate": 0.03, "volatility": 0.25, "N": N}


def reference(
    spot: torch.Tensor,
    strike: torch.Tensor,
    years: torch.Tensor,
    call: torch.Tensor,
    put: torch.Tensor,
    rate: float,
    volatility: float,
    N: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """spot, strike, years: (N,). Returns two tensors of (N,)."""
    spread = volatility * years.sqrt()
    d1 = (torch.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    d2 = d1 - spread
    discounted = strike * torch.exp(-rate * years)
    cdf = torch.special.ndtr
    return spot * cdf(d1) - discounted * cdf(d2), discounted * cdf(-d2) - spot * cdf(-d1)
