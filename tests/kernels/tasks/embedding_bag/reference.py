import torch

workloads = [
    {"name": "large", "dims": {"V": 262144, "D": 128, "B": 512}},
    {"name": "small", "dims": {"V": 500, "D": 20, "B": 16}},
]


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    table = torch.randn(dims["V"], dims["D"], generator=g)
    bags = torch.randint(0, dims["V"], (dims["B"], 32), generator=g, dtype=torch.int32)
    return {
        "table": table,
        "bags": bags,
        "out": torch.empty(dims["B"], dims["D"]),
        "V": dims["V"],
        "B": dims["B"],
        "D": dims["D"],
    }


def reference(table, bags, out, V, B, D):
    return table[bags.long()].sum(1)
