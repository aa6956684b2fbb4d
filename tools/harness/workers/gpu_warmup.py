"""A kernel of the harness. It is compiled in the fork server and launched once in each process, so that Triton's
one-time work is done before timing."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    """Add 1 to each of BLOCK elements."""
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 1.0)


def compile_only(capability: int) -> None:
    """Compile the kernel without a GPU: this imports the compiler, hashes it, and asks ptxas for its version."""
    triton.compile(ASTSource(touch, {"x": "*fp32"}, constexprs={"BLOCK": 64}), target=GPUTarget("cuda", capability, 32))


def launch(tensor) -> None:
    """Launch the kernel on a tensor of 64 elements."""
    touch[(1,)](tensor, BLOCK=64)
