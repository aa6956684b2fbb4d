import triton
import triton.language as tl


@triton.jit
def clear(out, B, BINS: tl.constexpr):
    bins = tl.arange(0, BINS)
    tl.store(out + bins, tl.zeros_like(bins), mask=bins < B)


@triton.jit
def count_kernel(x, out, N, B, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < N, other=0) % B
    bins = tl.arange(0, BINS)
    tl.atomic_add(out + bins, tl.histogram(value, BINS, mask=at < N), mask=bins < B)


def run_kernel(x, out, N, B):
    clear[(1,)](out, B, BINS=64)
    count_kernel[(triton.cdiv(N, 1024),)](x, out, N, B, BLOCK=1024, BINS=64)
