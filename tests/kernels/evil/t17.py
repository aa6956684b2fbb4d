import triton
import triton.language as tl


@triton.jit
def rank_kernel(x, out, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.load(x + rows, mask=rows < N, other=0)
    tl.store(out + rows, mine, mask=(rows < N) & (mine < 0))


def run_kernel(x, out, N):
    rank_kernel[(triton.cdiv(N, 64),)](x, out, N, BLOCK=64)
