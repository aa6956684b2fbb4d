import triton
import triton.language as tl


@triton.jit
def order_kernel(x, out, C, WIDTH: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, WIDTH)
    v = tl.load(x + row * C + cols, mask=cols < C, other=2147483647)
    after = tl.load(x + row * C + cols + 1, mask=cols + 1 < C, other=2147483647)
    if tl.sum((v > after).to(tl.int32), axis=0) > 0:
        v = tl.sort(v)
    tl.store(out + row * C + cols, v, mask=cols < C)


def run_kernel(x, out, R, C):
    order_kernel[(R,)](x, out, C, WIDTH=triton.next_power_of_2(C), num_warps=2)
