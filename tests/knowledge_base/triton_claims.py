"""Kernels about which the wiki says what Triton makes of them; test_compiler_claims.py compiles them."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def row_sum(x, out, n, STAGES: tl.constexpr):
    total = tl.zeros((1024,), dtype=tl.float32)
    for start in tl.loop_range(0, n, 1024, num_stages=STAGES):
        cols = start + tl.arange(0, 1024)
        total += tl.load(x + tl.program_id(0) * n + cols, mask=cols < n, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def add(x, out, SEM: tl.constexpr):
    at = tl.arange(0, 1024)
    tl.atomic_add(out + at, tl.load(x + tl.program_id(0) * 1024 + at), sem=SEM)


@triton.jit
def product(a, b, c, columns, depth, K_MAJOR: tl.constexpr):
    i, j = tl.program_id(0) * 128 + tl.arange(0, 128), tl.program_id(1) * 128 + tl.arange(0, 128)
    acc = tl.zeros((128, 128), dtype=tl.float32)
    for start in range(0, depth, 64):
        k = start + tl.arange(0, 64)
        right = b + j[None, :] * depth + k[:, None] if K_MAJOR else b + k[:, None] * columns + j[None, :]
        acc = tl.dot(tl.load(a + i[:, None] * depth + k[None, :]), tl.load(right), acc)
    tl.store(c + i[:, None] * columns + j[None, :], acc)


@triton.jit
def persistent(a, b, c, rows, columns, depth):
    left = tl.make_tensor_descriptor(a, shape=[rows, depth], strides=[depth, 1], block_shape=[128, 64])
    right = tl.make_tensor_descriptor(b, shape=[depth, columns], strides=[columns, 1], block_shape=[64, 128])
    result = tl.make_tensor_descriptor(c, shape=[rows, columns], strides=[columns, 1], block_shape=[128, 128])
    wide = tl.cdiv(columns, 128)
    for tile in tl.loop_range(
        tl.program_id(0), tl.cdiv(rows, 128) * wide, tl.num_programs(0), flatten=True, warp_specialize=True
    ):
        acc = tl.zeros((128, 128), dtype=tl.float32)
        for start in range(0, depth, 64):
            acc = tl.dot(left.load([tile // wide * 128, start]), right.load([start, tile % wide * 128]), acc)
        result.store([tile // wide * 128, tile % wide * 128], acc.to(tl.float16))
