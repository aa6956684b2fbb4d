import torch
import triton
import triton.language as tl


@triton.jit
def near_kernel(x, out, N, TILES, ACROSS, BLOCK: tl.constexpr, STEP: tl.constexpr):
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        rows = tile // ACROSS * BLOCK + tl.arange(0, BLOCK)
        cols = tile % ACROSS * STEP + tl.arange(0, STEP)
        square = tl.full((BLOCK, STEP), 1.0, tl.float32)
        for k in tl.static_range(3):
            mine = tl.load(x + rows * 3 + k, mask=rows < N, other=0.0)
            other = tl.load(x + cols * 3 + k, mask=cols < N, other=0.0)
            d = mine[:, None] - other[None, :]
            square += d * d
        total = tl.sum(tl.where(cols[None, :] < N, 1.0 / tl.sqrt_rn(square), 0.0), axis=1)
        tl.atomic_add(out + rows, total, mask=rows < N)


def run_kernel(x, out, N):
    out.fill_(0.0)
    down, across = triton.cdiv(N, 64), triton.cdiv(N, 64)
    units = 2 * torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
    near_kernel[(min(units, down * across),)](x, out, N, down * across, across, BLOCK=64, STEP=64)
