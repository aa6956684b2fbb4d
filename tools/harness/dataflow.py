"""Which tensors a reference takes values from, and into which it writes: by its operations, whatever the values are.

A gate of zeros, a mask that is all true or a weight too small to move a sum hide from a look at values that a tensor is read.
"""

import torch
from contract import Arg
from torch.utils._python_dispatch import TorchDispatchMode

OVERWRITING = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_"}
"""Operations in place that do not look at what was there before."""
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


class Watch(TorchDispatchMode):
    """Context in which the operations on these arguments are noted."""

    def __init__(self, args: list[Arg]):
        super().__init__()
        self.owners = {at: a.name for a in args if a.is_tensor and (at := place(a.value))}
        self.read: set[str] = set()
        """Those from which values were taken before anything had been written there."""
        self.written: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(getattr(func, "_overloadpacket", None), "__name__", "")
        shaped = name in SHAPING or name.endswith("_like") or name.startswith(("new_", "sym_"))
        if not shaped and not getattr(func, "is_view", False):
            self._note(func, name, args, kwargs)
        return func(*args, **kwargs)

    def _note(self, func, name: str, args: tuple, kwargs: dict) -> None:
        schema = getattr(func, "_schema", None)
        declared = {} if schema is None else {argument.name: argument for argument in schema.arguments}
        given = [*zip([*declared, *([""] * len(args))], args, strict=False), *kwargs.items()]
        for word, value in given:
            argument = declared.get(word)
            alias = argument.alias_info if argument is not None else None
            writes = alias is not None and alias.is_write
            for owner in self._owned(value):
                # `out=` and copy_ do not care for what was there.
                whole = writes and (argument.kwarg_only or name in OVERWRITING)
                if not whole and owner not in self.written:
                    self.read.add(owner)
                if writes:
                    self.written.add(owner)

    def _owned(self, value) -> list[str]:
        if isinstance(value, torch.Tensor):
            at = place(value)
            return [self.owners[at]] if at in self.owners else []
        return [owner for part in value for owner in self._owned(part)] if isinstance(value, (list, tuple)) else []


def place(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins, which its views share; 0 where it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0
