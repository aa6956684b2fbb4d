import torch

workloads = [{"name": "large", "dims": {"R": 2048, "C": 12288}}, {"name": "small", "dims": {"R": 64, "C": 500}}]


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    a, v = torch.randn(dims["R"], dims["C"], generator=g), torch.randn(dims["C"], generator=g)
    return {"a": a, "v": v, "out": torch.empty(dims["R"]), "R": dims["R"], "C": dims["C"]}


def reference(a, v, out, R, C):
    return torch.tril(a) @ v
