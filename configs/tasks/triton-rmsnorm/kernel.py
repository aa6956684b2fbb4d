"""RMS normalisation of rows with a weight for each column, two passes in small blocks."""

import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, out_ptr, stride, n_cols, eps, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    x_ptr += pid.to(tl.int64) * stride
    out_ptr += pid.to(tl.int64) * stride

    acc = tl.zeros([BLOCK_N], dtype=tl.float32)
    for off in range(0, n_cols, BLOCK_N):
        cols = off + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)
        acc += x * x
    rstd = 1.0 / tl.sqrt(tl.sum(acc, axis=0) / n_cols + eps)

    for off in range(0, n_cols, BLOCK_N):
        cols = off + tl.arange(0, BLOCK_N)
        mask = cols < n_cols
        w = tl.load(w_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0)
        tl.store(out_ptr + cols, x * rstd * w, mask=mask)


def run_kernel(x, weight, out, M, N, eps):
    rmsnorm_kernel[(M,)](x, weight, out, x.stride(0), N, eps, BLOCK_N=128, num_warps=1)
