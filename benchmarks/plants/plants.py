"""Triton and library kernels for the planted causes: each is launched once between the profiler's marks, in the
order of causes.json."""

import torch
import triton
import triton.language as tl


@triton.jit
def column_reads(o, a, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(a + (at % 8192) * (n // 8192) + at // 8192))


@triton.jit
def one_warp_rows(o, a, width, BLOCK: tl.constexpr):
    row, held = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(a + row * width + held)
    e = tl.exp(x - tl.max(x))
    tl.store(o + row * width + held, e / tl.sum(e) + 0.1 * x)


@triton.jit
def few_programs(o, a, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(tl.program_id(0) * BLOCK, n, BLOCK * tl.num_programs(0)):
        total += tl.load(a + k + tl.arange(0, BLOCK))
    tl.store(o + tl.program_id(0), tl.sum(total))


@triton.jit
def ordinary_units(o, a, b, n, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, 32)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for at in range(0, n, 32):
        left, right = tl.load(a + r[:, None] * n + at + k[None, :]), tl.load(b + (at + k)[:, None] * n + c[None, :])
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(o + r[:, None] * n + c[None, :], total)


@triton.jit
def good_rmsnorm(o, a, w, width, BLOCK: tl.constexpr):
    row, held = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(a + row * width + held).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / width + 1e-6)
    tl.store(o + row * width + held, x * scale * tl.load(w + held))


def calls(size):
    n = size * 4096
    a, o, w = (torch.rand(count, device="cuda") for count in (n, max(n, size * size), 4096))
    x = torch.rand(size, size, device="cuda")
    y = torch.rand(2 * size, 2 * size, device="cuda", dtype=torch.bfloat16)
    column_reads[(n // 1024,)](o, a, n, 1024)
    one_warp_rows[(n // 16384,)](o, a, 16384, 16384, num_warps=1)
    few_programs[(16,)](o, a, n, 1024)
    ordinary_units[(size // 64, size // 64)](o, x, x, size, 64)
    good_rmsnorm[(size,)](o, a, w, 4096, 4096, num_warps=8)
    torch.mm(y, y)


for marked in (False, True):
    torch.cuda.synchronize()
    if marked:
        torch.cuda.cudart().cudaProfilerStart()
    for size in (2048, 8192):
        calls(size)
    torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStop()
