import triton
import triton.language as tl


@triton.jit
def order_kernel(x, out, C, WIDTH: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, WIDTH)
    rest = tl.load(x + row * C + cols, mask=cols < C, other=2147483647)
    for at in range(C):
        least = tl.min(rest, axis=0)
        first = tl.min(tl.where(rest == least, cols, WIDTH), axis=0)
        tl.store(out + row * C + at, least)
        rest = tl.where(cols == first, 2147483647, rest)


def run_kernel(x, out, R, C):
    order_kernel[(R,)](x, out, C, WIDTH=triton.next_power_of_2(C))
