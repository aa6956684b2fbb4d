"""The product of two matrices."""

import torch

workloads = [
    {"name": "n128", "dims": {"M": 128, "N": 128, "K": 128}},
    {"name": "small", "dims": {"M": 9, "N": 7, "K": 20}},
]


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(dims["M"], dims["K"], generator=g), torch.randn(dims["K"], dims["N"], generator=g)
    return {"a": a, "b": b, "out": torch.empty(dims["M"], dims["N"]), **dims}


def reference(a, b, out, M, N, K):
    return a @ b
