"""Follows the numbers that a reference rounds to 8 bits, so that the oracle knows them as they were before."""

import contextlib

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary


def is_eight_bit_float(dtype: torch.dtype) -> bool:
    """Whether this is a floating-point type of 8 bits, with which torch computes little."""
    return dtype.is_floating_point and dtype.itemsize == 1


class RoundingWatch(TorchDispatchMode):
    """Context that repeats in float64 each operation that makes or moves numbers of 8 bits, in a call with `args`.

    What is copied from such numbers into an output of another type arrives there as it was before.
    """

    def __init__(self, args: list):
        super().__init__()
        self.addresses = {a.value.untyped_storage().data_ptr() for a in args if a.is_written}
        self.exact = WeakTensorKeyDictionary({a.value: a.value.to(torch.float64) for a in args if _is_narrow(a.value)})
        """Tensor of 8-bit numbers -> what they were before they were rounded."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        into = args[0] if args and isinstance(args[0], torch.Tensor) and args[0].dtype is torch.float64 else None
        if into is not None and into.untyped_storage().data_ptr() in self.addresses:
            args = _pytree.tree_map(lambda one: self.exact.get(one, one) if _is_narrow(one) else one, args)
        found = func(*args, **kwargs)
        if any(_is_narrow(one) for one in _pytree.tree_leaves(found)):
            # What cannot be followed is known as it was rounded.
            with contextlib.suppress(Exception):
                self._repeat(func, args, kwargs, found)
        return found

    def _repeat(self, func, args: tuple, kwargs: dict, found) -> None:
        wide, options = _pytree.tree_map(self._widened, (args, kwargs))
        again = func(*wide, **options)
        for one, exact in zip(_pytree.tree_leaves(found), _pytree.tree_leaves(again), strict=True):
            if _is_narrow(one) and exact.shape == one.shape:
                self.exact[one] = exact

    def _widened(self, one):
        if isinstance(one, torch.dtype):
            return torch.float64 if is_eight_bit_float(one) else one
        return self.exact[one] if _is_narrow(one) else one

    def before_rounding(self, rounded: torch.Tensor) -> torch.Tensor | None:
        """Return what a tensor of 8-bit numbers was before it was rounded, in float64; None where it is not known."""
        exact = self.exact.get(rounded) if _is_narrow(rounded) else None
        if exact is None:
            return None
        again, seen = exact.to(rounded.dtype).to(torch.float64), rounded.to(torch.float64)
        too_large = exact.abs() > torch.finfo(rounded.dtype).max
        return exact if bool(((again == seen) | too_large | (exact.isnan() & seen.isnan())).all()) else None


def _is_narrow(one) -> bool:
    return isinstance(one, torch.Tensor) and is_eight_bit_float(one.dtype)
