"""For each query the number of entries of an ascending table that are smaller."""

import torch

workloads = [{"name": "q2k", "dims": {"Q": 2000, "T": 4000}}, {"name": "small", "dims": {"Q": 50, "T": 100}}]


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    table = torch.randint(0, 1 << 30, (dims["T"],), generator=g, dtype=torch.int32).sort().values
    queries = torch.randint(0, 1 << 30, (dims["Q"],), generator=g, dtype=torch.int32)
    out = torch.zeros(dims["Q"], dtype=torch.int32)
    return {"table": table, "queries": queries, "out": out, "Q": dims["Q"], "T": dims["T"]}


def reference(table, queries, out, Q, T):
    return torch.searchsorted(table, queries).to(torch.int32)
