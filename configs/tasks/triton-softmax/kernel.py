"""Row-wise softmax, one program a row, three passes over it in small blocks."""

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * n_cols
    out_row = out_ptr + row * n_cols

    # Largest value of the row.
    largest = float("-inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=float("-inf"))
        largest = tl.maximum(largest, tl.max(x, axis=0))

    # Sum of the exponentials.
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=float("-inf"))
        total += tl.sum(tl.exp(x - largest), axis=0)

    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=float("-inf"))
        tl.store(out_row + cols, tl.exp(x - largest) / total, mask=cols < n_cols)


def run_kernel(x, out, M, N):
    softmax_kernel[(M,)](x, out, N, BLOCK=256)
