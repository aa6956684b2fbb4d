"""Cross-entropy of each row of logits with its target, over a large vocabulary in small blocks."""

import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(logits_ptr, targets_ptr, loss_ptr, stride, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    base = logits_ptr + row * stride

    highest = -float("inf")
    for start in range(0, V, BLOCK_V):
        offs = start + tl.arange(0, BLOCK_V)
        logits = tl.load(base + offs, mask=offs < V, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(logits, axis=0))

    denominator = 0.0
    for start in range(0, V, BLOCK_V):
        offs = start + tl.arange(0, BLOCK_V)
        logits = tl.load(base + offs, mask=offs < V, other=-float("inf"))
        denominator += tl.sum(tl.exp(logits - highest), axis=0)

    target = tl.load(targets_ptr + row)
    wanted = tl.load(base + target)
    tl.store(loss_ptr + row, highest + tl.log(denominator) - wanted)


def run_kernel(logits, targets, loss, M, V):
    cross_entropy_kernel[(M,)](logits, targets, loss, logits.stride(0), V, BLOCK_V=256)
