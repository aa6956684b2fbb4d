import triton
import triton.language as tl


@triton.jit
def reduce_kernel(x, out, N, B, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < N, other=0) % B, mask=at < N)
    bins = tl.arange(0, BINS)
    tl.store(out + bins, tl.zeros_like(bins), mask=bins < B)


@triton.jit
def count_kernel(x, out, N, B, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.arange(0, BINS)
    tl.atomic_add(out + bins, tl.histogram(tl.load(x + at, mask=at < N, other=0), BINS, mask=at < N), mask=bins < B)


def run_kernel(x, out, N, B):
    reduce_kernel[(triton.cdiv(N, 8192),)](x, out, N, B, BLOCK=8192, BINS=64)
    count_kernel[(triton.cdiv(N, 8192),)](x, out, N, B, BLOCK=8192, BINS=64)
