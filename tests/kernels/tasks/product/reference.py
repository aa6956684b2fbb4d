import torch

outputs = ("c",)
workloads = ({"dims": {"M": 512, "N": 512, "K": 512}},)
dims_range = {"M": (16, 512), "N": (16, 512), "K": (16, 512)}


def make_inputs(dims, seed):
    M, N, K = dims["M"], dims["N"], dims["K"]
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(M, K, generator=g), torch.randn(K, N, generator=g)
    return {"a": a, "b": b, "c": torch.empty(M, N), "M": M, "N": N, "K": K}


def reference(a, b, c, M, N, K):
    return a @ b
