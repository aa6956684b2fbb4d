import torch

outputs = ("out",)
workloads = ({"dims": {"N": 262144}},)
dims_range = {"N": (64, 262144)}


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 100, (dims["N"],), generator=g, dtype=torch.int32)
    return {"x": x, "out": torch.empty_like(x), "N": dims["N"]}


def reference(x, out, N):
    return torch.cumsum(x, 0).to(torch.int32)
