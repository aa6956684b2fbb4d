import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(x, parts, N, BLOCK: tl.constexpr, STEP: tl.constexpr, SHARES: tl.constexpr):
    rows, share = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    mine = tl.load(x + rows, mask=rows < N, other=0)
    count = tl.zeros_like(mine)
    for start in range(share * STEP, N, SHARES * STEP):
        cols = start + tl.arange(0, STEP)
        other = tl.load(x + cols, mask=cols < N, other=2147483647)
        count += tl.sum((other[None, :] < mine[:, None]).to(tl.int32), axis=1)
    tl.store(parts + share * N + rows, count, mask=rows < N)


@triton.jit
def sum_kernel(parts, out, N, BLOCK: tl.constexpr, SHARES: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = tl.zeros((BLOCK,), tl.int32)
    for share in range(SHARES):
        count += tl.load(parts + share * N + rows, mask=rows < N, other=0)
    tl.store(out + rows, count, mask=rows < N)


def run_kernel(x, out, N):
    parts = torch.empty((1 << 24,), dtype=torch.int32, device=x.device)
    part_kernel[(triton.cdiv(N, 64), 16)](x, parts, N, BLOCK=64, STEP=64, SHARES=16)
    sum_kernel[(triton.cdiv(N, 128),)](parts, out, N, BLOCK=128, SHARES=16)
