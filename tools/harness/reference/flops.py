"""Counts the operations that a reference's ATen calls amount to: matmul 2mnk, elementwise one per output, reductions one per input."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

PER_ELEMENT = {
    "_softmax": 5,
    "_log_softmax": 6,
    "native_layer_norm": 8,
    "native_group_norm": 8,
    "native_batch_norm": 8,
    "_fused_rms_norm": 5,
}
"""Composite operations: operations an input element."""
FREE = {
    "clone", "copy_", "_to_copy", "empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like",
    "fill_", "zero_", "arange", "contiguous", "detach", "lift_fresh", "cat", "stack", "_local_scalar_dense", "index", "index_select",
    "gather", "scatter_", "embedding", "flip", "roll", "constant_pad_nd", "resize_", "set_",
}  # fmt: skip
"""Operations that only move or make data."""


def _tensors(tree) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [t for part in tree for t in _tensors(part)]
    return []


class Counter(TorchDispatchMode):
    """Context in which the calls are counted."""

    def __init__(self):
        super().__init__()
        self.total = 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        name = packet.__name__
        if packet in flop_registry:
            self.total += float(flop_registry[packet](*args, **(kwargs or {}), out_val=out))
        elif name not in FREE and not getattr(func, "is_view", False):
            inputs = [t.numel() for t in _tensors(list(args))]
            outputs = [t.numel() for t in _tensors(out)]
            self.total += PER_ELEMENT.get(name, 1) * max([0, *inputs, *outputs])
        return out
