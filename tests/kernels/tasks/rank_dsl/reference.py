import torch

outputs = ("out",)
workloads = ({"dims": {"N": 4096}},)
dims_range = {"N": (64, 4096)}


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 1 << 24, (dims["N"],), generator=g, dtype=torch.int32)
    return {"x": x, "out": torch.empty_like(x), "N": dims["N"]}


def reference(x, out, N):
    return torch.searchsorted(torch.sort(x).values, x).to(torch.int32)
