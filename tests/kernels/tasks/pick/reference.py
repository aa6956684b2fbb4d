import torch

outputs = ("out",)
workloads = ({"dims": {"V": 16384, "D": 64, "N": 32768}},)
dims_range = {"V": (16, 16384), "D": (1, 64), "N": (16, 32768)}


def make_inputs(dims, seed):
    V, D, N = dims["V"], dims["D"], dims["N"]
    g = torch.Generator().manual_seed(seed)
    table = torch.randn(V, D, generator=g)
    index = torch.randint(0, V, (N,), generator=g, dtype=torch.int32)
    return {"table": table, "index": index, "out": torch.empty(N, D), "V": V, "D": D, "N": N}


def reference(table, index, out, V, D, N):
    return table[index.long()]
