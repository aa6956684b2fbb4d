import torch

workloads = [
    {"name": "large", "dims": {"P": 16384, "D": 128, "B": 64}},
    {"name": "small", "dims": {"P": 64, "D": 20, "B": 4}},
]


def make_inputs(dims, seed):  # 16 tokens a page, 16 pages a sequence, of which its length says how many count
    g = torch.Generator().manual_seed(seed)
    pool = torch.randn(dims["P"], 16, dims["D"], generator=g)
    table = torch.randint(0, dims["P"], (dims["B"], 16), generator=g, dtype=torch.int32)
    lengths = torch.randint(1, 257, (dims["B"],), generator=g, dtype=torch.int32)
    return {
        "pool": pool,
        "table": table,
        "lengths": lengths,
        "out": torch.empty(dims["B"], dims["D"]),
        "B": dims["B"],
        "D": dims["D"],
    }


def reference(pool, table, lengths, out, B, D):
    tokens = pool[table.long()].reshape(B, 256, D)
    return (
        tokens.masked_fill((torch.arange(256, device=pool.device) >= lengths[:, None])[..., None], 0).sum(1)
        / lengths[:, None]
    )
