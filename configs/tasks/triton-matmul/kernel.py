"""out = a @ b + bias in float16 with float32 accumulation: one 32 x 32 tile a program, row after row."""

import triton
import triton.language as tl


@triton.jit
def matmul_bias_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(a, b)

    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0)
    acc += bias[None, :].to(tl.float32)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc.to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N))


def run_kernel(a, b, bias, out, M, N, K):
    grid = (triton.cdiv(N, 32), triton.cdiv(M, 32))
    matmul_bias_kernel[grid](a, b, bias, out, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
