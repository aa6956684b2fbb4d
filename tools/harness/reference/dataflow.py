"""Which tensors a reference takes values from, and into which it writes: by its operations, whatever the values are.

A gate of zeros, a mask that is all true or a weight too small to move a sum hide from a look at values that a tensor is
read.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.reference.contract import Arg

UPDATING = {
    "abs_", "add_", "addcdiv_", "addcmul_", "bitwise_and_", "bitwise_not_", "bitwise_or_", "bitwise_xor_", "ceil_", "clamp_", "clamp_max_",
    "clamp_min_", "div_", "exp_", "floor_", "hardtanh_", "leaky_relu_", "lerp_", "log_", "logical_and_", "logical_not_", "logical_or_",
    "logical_xor_", "mul_", "neg_", "pow_", "relu_", "remainder_", "round_", "sigmoid_", "silu_", "sqrt_", "sub_", "tanh_", "threshold_",
    "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__",
}  # fmt: skip
"""Operations in place that make each element from what was there before. Of the others, such as `out[mask] = 1`,
values must tell."""
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
"""Operations in place on shapes and strides alone."""
METADATA_PREFIXES = ("new_", "sym_", "is_")
"""How the names of operations begin that ask a tensor for its shape and kind alone."""


class DataflowWatch(TorchDispatchMode):
    """Context in which the operations on these arguments are noted."""

    def __init__(self, args: list[Arg]):
        super().__init__()
        self.owners = {at: a.name for a in args if a.is_tensor and (at := storage_address(a.value))}
        self.read: set[str] = set()
        """Those from which values were taken before anything had been written there."""
        self.updated: set[str] = set()
        """Those of them that were changed in place, by what was there."""
        self.written: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(getattr(func, "_overloadpacket", None), "__name__", "")
        shaped = name in SHAPING or name.endswith("_like") or name.startswith(METADATA_PREFIXES)
        if not shaped and not getattr(func, "is_view", False):
            self._note(func, name, args, kwargs)
        return func(*args, **kwargs)

    def _note(self, func, name: str, args: tuple, kwargs: dict) -> None:
        schema = getattr(func, "_schema", None)
        declared = {} if schema is None else {argument.name: argument for argument in schema.arguments}
        given = dict(zip([*declared, *(f"more {at}" for at in range(len(args)))], args, strict=False)) | kwargs
        # By torch's own rule what is multiplied by a beta of 0 is not looked at.
        unread = {"self", "input"} if "beta" in declared and given.get("beta", 1) == 0 else set()
        written = set()
        for word, value in given.items():
            alias = declared[word].alias_info if word in declared else None
            writes = alias is not None and alias.is_write
            for owner in self._owned(value):
                if writes:
                    written.add(owner)
                if owner in self.written or word in unread:
                    continue
                if not writes or name in UPDATING:
                    self.read.add(owner)
                if writes and name in UPDATING:
                    self.updated.add(owner)
        self.written |= written

    def _owned(self, value) -> list[str]:
        if isinstance(value, torch.Tensor):
            at = storage_address(value)
            return [self.owners[at]] if at in self.owners else []
        return [owner for part in value for owner in self._owned(part)] if isinstance(value, (list, tuple)) else []


def storage_address(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins, which its views share; 0 where it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0
