import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def tile_kernel(a, b, c, K, T: tl.constexpr, STEP: tl.constexpr):
    row, col = tl.program_id(0) * T, tl.program_id(1) * T
    total = tl.zeros((T, T), tl.float32)
    for start in range(0, K, STEP):
        total = tl.dot(a.load([row, start]), b.load([start, col]), total, input_precision="ieee")
    c.store([row, col], total)


@triton.jit
def product_kernel(a, b, c, M, N, K, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    cols = tl.program_id(1) * T + tl.arange(0, T)[None, :]
    total = tl.zeros((T, T), tl.float32)
    for start in range(0, K, T):
        down, across = start + tl.arange(0, T)[:, None], start + tl.arange(0, T)[None, :]
        left = tl.load(a + rows * K + across, mask=(rows < M) & (across < K), other=0.0)
        right = tl.load(b + down * N + cols, mask=(down < K) & (cols < N), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + rows * N + cols, total, mask=(rows < M) & (cols < N))


def run_kernel(a, b, c, M, N, K):
    if K % 4 or N % 4:
        product_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, c, M, N, K, T=16)
        return
    left, right = TensorDescriptor.from_tensor(a, [32, 32]), TensorDescriptor.from_tensor(b, [32, 32])
    whole = TensorDescriptor.from_tensor(c, [32, 32])
    tile_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](left, right, whole, K, T=32, STEP=32)
