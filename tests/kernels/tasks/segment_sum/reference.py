import torch

workloads = [
    {"name": "large", "dims": {"N": 262144, "D": 128, "S": 64}},
    {"name": "small", "dims": {"N": 500, "D": 20, "S": 8}},
]


def make_inputs(dims, seed):  # a row of segment -1 belongs to none
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(dims["N"], dims["D"], generator=g)
    ids = torch.randint(0, dims["S"], (dims["N"],), generator=g, dtype=torch.int32)
    ids[torch.rand(dims["N"], generator=g) > 0.1] = -1
    return {
        "x": x,
        "ids": ids,
        "out": torch.empty(dims["S"], dims["D"]),
        "N": dims["N"],
        "S": dims["S"],
        "D": dims["D"],
    }


def reference(x, ids, out, N, S, D):
    kept = ids >= 0
    return torch.zeros(S, D, dtype=x.dtype, device=x.device).index_add(0, ids[kept].long(), x[kept])
