import functools

import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor


@cute.kernel
def rank_kernel(x: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * 64 + thread
    if at < cute.size(x):
        mine = x[at]
        count = cutlass.Int32(0)
        for j in range(cute.size(x)):
            if x[j] < mine:
                count += 1
        out[at] = count


@cute.jit
def rank(x: cute.Tensor, out: cute.Tensor):
    rank_kernel(x, out).launch(grid=[cute.ceil_div(cute.size(x), 64), 1, 1], block=[64, 1, 1])


@functools.cache
def compiled(n: int):
    flat = make_fake_compact_tensor(cutlass.Int32, (n,), assumed_align=16)
    return cute.compile(rank, flat, flat)


def run_kernel(x, out, N):
    compiled(N)(from_dlpack(x, assumed_align=16), from_dlpack(out, assumed_align=16))
