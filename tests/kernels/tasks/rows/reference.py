import torch

outputs = ("out",)
workloads = ({"dims": {"M": 1024, "N": 4096}},)
dims_range = {"M": (1, 1024), "N": (16, 4096)}


def make_inputs(dims, seed):
    x = torch.randn(dims["M"], dims["N"], generator=torch.Generator().manual_seed(seed))
    return {"x": x, "out": torch.empty(dims["M"]), "M": dims["M"], "N": dims["N"]}


def reference(x, out, M, N):
    return (x * x).sum(-1)
