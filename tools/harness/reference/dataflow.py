"""Records which tensors a reference reads and which it writes, from its operations, independent of the values.

A comparison of values misses some reads: a gate of zeros, a mask that is all true, or a weight too small to change a
sum.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.reference.contract import Arg

UPDATING = {
    "abs_", "add_", "addcdiv_", "addcmul_", "bitwise_and_", "bitwise_not_", "bitwise_or_", "bitwise_xor_", "ceil_",
    "clamp_", "clamp_max_", "clamp_min_", "div_", "exp_", "floor_", "hardtanh_", "leaky_relu_", "lerp_", "log_",
    "logical_and_", "logical_not_", "logical_or_", "logical_xor_", "mul_", "neg_", "pow_", "relu_", "remainder_",
    "round_", "sigmoid_", "silu_", "sqrt_", "sub_", "tanh_", "threshold_", "__iand__", "__ior__", "__ixor__",
    "__ilshift__", "__irshift__",
}  # fmt: skip
"""In-place operators that compute each element from its old value. For other in-place operators, such as `out[mask] =
1`, a comparison of values decides."""
SHAPING = {
    "resize_",
    "resize_as_",
    "set_",
    "t_",
    "transpose_",
    "squeeze_",
    "unsqueeze_",
    "as_strided_",
    "detach_",
    "swapaxes_",
    "swapdims_",
}
"""In-place operators that change shape and strides only."""
METADATA_PREFIXES = ("new_", "sym_", "is_")
"""Prefixes of operators that read a tensor's shape and type only."""


class DataflowWatch(TorchDispatchMode):
    """Context that records the operations on the given arguments."""

    def __init__(self, args: list[Arg]):
        super().__init__()
        self.owners = {at: a.name for a in args if a.is_tensor and (at := storage_address(a.value))}
        self.read: set[str] = set()
        """Arguments whose values are read before anything is written to them."""
        self.updated: set[str] = set()
        """Arguments in `read` that are changed in place from their old values."""
        self.written: set[str] = set()
        """Arguments that are written."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(getattr(func, "_overloadpacket", None), "__name__", "")
        shaped = name in SHAPING or name.endswith("_like") or name.startswith(METADATA_PREFIXES)
        if not shaped and not getattr(func, "is_view", False):
            self._record(func, name, args, kwargs)
        return func(*args, **kwargs)

    def _record(self, func, name: str, args: tuple, kwargs: dict) -> None:
        schema = getattr(func, "_schema", None)
        declared = {} if schema is None else {argument.name: argument for argument in schema.arguments}
        given = dict(zip([*declared, *(f"more {at}" for at in range(len(args)))], args, strict=False)) | kwargs
        # By torch's own rule, a tensor that is multiplied by a beta of 0 is not read.
        unread = {"self", "input"} if "beta" in declared and given.get("beta", 1) == 0 else set()
        written = set()
        for word, value in given.items():
            alias = declared[word].alias_info if word in declared else None
            writes = alias is not None and alias.is_write
            for owner in self._owners_of(value):
                if writes:
                    written.add(owner)
                if owner in self.written or word in unread:
                    continue
                if not writes or name in UPDATING:
                    self.read.add(owner)
                if writes and name in UPDATING:
                    self.updated.add(owner)
        self.written |= written

    def _owners_of(self, value) -> list[str]:
        if isinstance(value, torch.Tensor):
            at = storage_address(value)
            return [self.owners[at]] if at in self.owners else []
        return [owner for part in value for owner in self._owners_of(part)] if isinstance(value, (list, tuple)) else []


def storage_address(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage, which its views share; 0 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0
