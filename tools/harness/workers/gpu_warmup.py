"""A kernel of the harness's own: compiled in the fork server and launched once a process, so that what Triton does
once is done before."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 1.0)


def compile_only(capability: int) -> None:
    """Needs no GPU: imports the compiler, hashes it, asks ptxas for its version."""
    triton.compile(ASTSource(touch, {"x": "*fp32"}, constexprs={"BLOCK": 64}), target=GPUTarget("cuda", capability, 32))


def launch(tensor) -> None:
    touch[(1,)](tensor, BLOCK=64)
