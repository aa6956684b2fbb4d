"""Counts the operations that a reference's ATen calls amount to: matmul 2mnk, elementwise one per output, reductions
one per input."""

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
CREATING_OPERATORS = {
    "clone", "copy_", "_to_copy", "empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like",
    "fill_", "zero_", "arange", "contiguous", "detach", "lift_fresh", "_local_scalar_dense", "resize_", "set_",
}  # fmt: skip
"""Operations that only make data or copy it as it is."""
FREE_OPERATORS = CREATING_OPERATORS | {
    "cat", "stack", "index", "index_select", "gather", "scatter_", "embedding", "flip", "roll", "constant_pad_nd"
}  # fmt: skip
"""Those, and what only moves data."""
MAX_LISTED_OPERATIONS = 100


def products(names) -> tuple[str, ...]:
    """What may stand for those of the operations that are products, convolutions or attention, `aten.mm`: the same
    with and without an addend, and attention by any of torch's ways."""
    known = {
        packet.__name__: count
        for packet, count in flop_registry.items()
        if isinstance(packet, torch._ops.OpOverloadPacket)
    }
    # Attention that a CPU computes by its parts has its own softmax.
    told = {"_safe_softmax": "_scaled_dot_product_flash_attention"}
    own = {told.get(name, name.removesuffix("_for_cpu")) for name in names} & known.keys()
    pairs = [{"mm", "addmm"}, {"bmm", "baddbmm"}]
    found = own | {o for pair in pairs if pair & own for o in pair}
    found |= {o for o in known for name in own if "attention" in name and known[o] is known[name]}
    return tuple(sorted(f"aten.{name}" for name in found))


def _tensors(tree) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [t for part in tree for t in _tensors(part)]
    return []


class FlopCounter(TorchDispatchMode):
    """Context in which the calls are counted."""

    def __init__(self):
        super().__init__()
        self.total = 0.0
        self.names: list[str] = []
        """Of the operations, the first MOST in their order; views and copies are none."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        packet = getattr(torch.ops.aten, name.removesuffix("_for_cpu"), func._overloadpacket)
        if (
            name not in CREATING_OPERATORS
            and not getattr(func, "is_view", False)
            and len(self.names) < MAX_LISTED_OPERATIONS
        ):
            self.names.append(name)
        if packet in flop_registry:
            self.total += float(flop_registry[packet](*args, **(kwargs or {}), out_val=out))
        elif name not in FREE_OPERATORS and not getattr(func, "is_view", False):
            inputs = [t.numel() for t in _tensors(list(args))]
            outputs = [t.numel() for t in _tensors(out)]
            self.total += PER_ELEMENT.get(name, 1) * max([0, *inputs, *outputs])
        return out
