import torch

outputs = ("out",)
workloads = ({"dims": {"N": 262144, "B": 64}},)
dims_range = {"N": (64, 262144), "B": (3, 64)}


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 1 << 20, (dims["N"],), generator=g, dtype=torch.int32)
    return {"x": x, "out": torch.empty(dims["B"], dtype=torch.int32), "N": dims["N"], "B": dims["B"]}


def reference(x, out, N, B):
    return torch.bincount((x % B).long(), minlength=B).to(torch.int32)
