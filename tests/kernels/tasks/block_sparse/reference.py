import torch

workloads = [{"name": "large", "dims": {"M": 128, "K": 256}}, {"name": "small", "dims": {"M": 4, "K": 5}}]


def make_inputs(dims, seed):  # M x K blocks of 32 x 32, one in ten of which counts
    g = torch.Generator().manual_seed(seed)
    a, v = torch.randn(32 * dims["M"], 32 * dims["K"], generator=g), torch.randn(32 * dims["K"], generator=g)
    blocks = (torch.rand(dims["M"], dims["K"], generator=g) < 0.1).to(torch.int32)
    return {"a": a, "blocks": blocks, "v": v, "out": torch.empty(32 * dims["M"]), "M": dims["M"], "K": dims["K"]}


def reference(a, blocks, v, out, M, K):
    return (a * blocks.repeat_interleave(32, 0).repeat_interleave(32, 1)) @ v
