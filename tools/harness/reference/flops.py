"""Counts the operations of a reference's ATen calls: 2mnk for a matrix product, one per output element for elementwise
operators, one per input element for reductions."""

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
"""Composite operators: operations per input element."""
CREATING_OPERATORS = {
    "clone", "copy_", "_to_copy", "empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like",
    "full", "full_like", "fill_", "zero_", "arange", "contiguous", "detach", "lift_fresh", "_local_scalar_dense",
    "resize_", "set_",
}  # fmt: skip
"""Operators that only create or copy data."""
FREE_OPERATORS = CREATING_OPERATORS | {
    "cat", "stack", "index", "index_select", "gather", "scatter_", "embedding", "flip", "roll", "constant_pad_nd"
}  # fmt: skip
"""Operators that only create, copy or move data."""
MAX_LISTED_OPERATIONS = 100
"""Longest list of a reference's operators."""


def products(names) -> tuple[str, ...]:
    """Return the library operators ("aten.mm") that may replace the products, convolutions and attention among `names`:
    with and without an addend, and attention by any of torch's implementations."""
    known = {
        packet.__name__: count
        for packet, count in flop_registry.items()
        if isinstance(packet, torch._ops.OpOverloadPacket)
    }
    # On a CPU, attention that is computed in parts has a softmax operator of its own.
    attention_operators = {"_safe_softmax": "_scaled_dot_product_flash_attention"}
    used = {attention_operators.get(name, name.removesuffix("_for_cpu")) for name in names} & known.keys()
    pairs = [{"mm", "addmm"}, {"bmm", "baddbmm"}]
    found = used | {o for pair in pairs if pair & used for o in pair}
    found |= {o for o in known for name in used if "attention" in name and known[o] is known[name]}
    return tuple(sorted(f"aten.{name}" for name in found))


def _tensors(tree) -> list[torch.Tensor]:
    """Return the tensors in a nested list."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [t for part in tree for t in _tensors(part)]
    return []


class FlopCounter(TorchDispatchMode):
    """Context that counts the operations of all torch calls and lists their operators."""

    def __init__(self):
        super().__init__()
        self.total = 0.0
        self.names: list[str] = []
        """The first MAX_LISTED_OPERATIONS operators in their order, without views and copies."""

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
