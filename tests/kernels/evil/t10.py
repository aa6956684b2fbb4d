import triton
import triton.language as tl


@triton.jit
def product_kernel(a, b, c, M, N, K, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    cols = tl.program_id(1) * T + tl.arange(0, T)[None, :]
    total = tl.zeros((T, T), tl.float32)
    for start in range(0, K, T):
        down, across = start + tl.arange(0, T)[:, None], start + tl.arange(0, T)[None, :]
        left = tl.load(a + rows * K + across, mask=(rows < M) & (across < K), other=0.0)
        right = tl.load(b + down * N + cols, mask=(down < K) & (cols < N), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows * N + cols, total, mask=(rows < M) & (cols < N))


def run_kernel(a, b, c, M, N, K):
    product_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a, b, c, M, N, K, T=64)
