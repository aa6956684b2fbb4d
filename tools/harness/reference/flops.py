"""Counts the operations of a reference's ATen calls: 2mnk for a matrix product, one per output element for elementwise
operators, one per input element for reductions; and finds the type of the values that its products take."""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from torch.utils.weak import WeakTensorKeyDictionary


def recurrent_operations(inputs, weight, recurrent_weight, *_, **__) -> int:
    """Return the operations of a recurrent layer's products, as a CPU's library computes it."""
    return 2 * inputs.numel() // inputs.shape[-1] * (weight.numel() + recurrent_weight.numel())


COUNTS = {**flop_registry, torch.ops.aten._int_mm: flop_registry[torch.ops.aten.mm]}
if hasattr(torch.ops.aten, "mkldnn_rnn_layer"):
    COUNTS[torch.ops.aten.mkldnn_rnn_layer] = recurrent_operations
"""Operator -> the function that counts its operations."""

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
NARROW_TYPES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8",
    torch.float8_e5m2: "float8",
    torch.int8: "int8",
    torch.uint8: "int8",
}
"""Element types that matrix units multiply, and whose values a conversion to a wider type keeps -> the roof's type."""
ROOF_TYPES = {torch.float32: "float32", torch.float64: "float64", **NARROW_TYPES}
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
        self.types = Counter[str]()
        """Type of the values that products take -> their operations; "" for all operators but products."""
        self._kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        """Tensor -> the narrower type that its values were converted from."""

    def main_type(self) -> str | None:
        """Return the type in which most operations are done; "" if most are no products, None if none was counted."""
        return max(self.types, key=self.types.__getitem__, default=None)

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
        inputs, outputs = _tensors(list(args)), _tensors(out)
        if func._schema.is_mutable:
            for changed in inputs:
                self._kept.pop(changed, None)
        moves_values = getattr(func, "is_view", False) or name in ("_to_copy", "clone", "_unsafe_view")
        if moves_values and inputs and outputs:
            held, made = self._kept.get(inputs[0], inputs[0].dtype), outputs[0].dtype
            if made.itemsize > held.itemsize and held in NARROW_TYPES and made != torch.float64:
                self._kept[outputs[0]] = held
        if packet in COUNTS:
            count = float(COUNTS[packet](*args, **(kwargs or {}), out_val=out))
            operands = inputs[1:3] if "add" in name else inputs[:2]
            held = {self._kept.get(one, one.dtype) for one in operands}
            kind = ROOF_TYPES.get(operands[0].dtype if len(held) > 1 else held.pop(), "other")
        elif name not in FREE_OPERATORS and not getattr(func, "is_view", False):
            largest = max([0, *(t.numel() for t in (*inputs, *outputs))])
            count, kind = PER_ELEMENT.get(name, 1) * largest, ""
        else:
            return out
        self.total += count
        self.types[kind] += count
        return out
