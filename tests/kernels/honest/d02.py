import functools

import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor


@cute.kernel
def pick_kernel(table: cute.Tensor, index: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * 256 + thread
    width = cute.size(out, mode=[1])
    if at < cute.size(out):
        row = at // width
        last = index[cutlass.max(row - 1, 0)]
        source = index[row]
        if source == last:
            source = last
        out[row, at % width] = table[source, at % width]


@cute.jit
def pick(table: cute.Tensor, index: cute.Tensor, out: cute.Tensor):
    pick_kernel(table, index, out).launch(grid=[cute.ceil_div(cute.size(out), 256), 1, 1], block=[256, 1, 1])


@functools.cache
def compiled(v: int, d: int, n: int):
    table = make_fake_compact_tensor(cutlass.Float32, (v, d), stride_order=(1, 0), assumed_align=16)
    out = make_fake_compact_tensor(cutlass.Float32, (n, d), stride_order=(1, 0), assumed_align=16)
    return cute.compile(pick, table, make_fake_compact_tensor(cutlass.Int32, (n,), assumed_align=16), out)


def run_kernel(table, index, out, V, D, N):
    compiled(V, D, N)(*[from_dlpack(t, assumed_align=16) for t in (table, index, out)])
