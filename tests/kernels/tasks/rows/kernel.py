import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * N + cols, mask=cols < N, other=0.0)
        total += v * v
    tl.store(out + row, tl.sum(total, axis=0))


def run_kernel(x, out, M, N):
    rows_kernel[(M,)](x, out, N, BLOCK=128, num_warps=1)
