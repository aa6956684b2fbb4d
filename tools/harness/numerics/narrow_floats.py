"""Lets Triton's interpreter compute with bfloat16 and with floating-point numbers of 8 bits.

The interpreter keeps such numbers as the integers of their bits and computes with these integers. Here every operation
gets them in float32, and its result is rounded to the nearest number of the type. A conversion to a type of 8 bits
gives the largest number for one that is too large, as NVIDIA's GPUs do.
"""

import functools

import torch
import triton.language as tl
from triton.runtime import interpreter

NARROW_TYPES = {
    tl.bfloat16: torch.bfloat16,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
}
"""Type of Triton -> torch's type of the same bits."""
COMPUTING = ("binary_op", "unary_op", "ternary_op", "create_fma", "create_clampf", "create_rsqrt", "create_dot")
"""Methods of the interpreter's builder that compute with values; their result has the type of the last operand."""

LAUNCHES: list[str] = []
"""The kernels that the interpreter ran in this process."""


@functools.cache
def install() -> None:
    """Replace the methods of the interpreter that compute with values, for the rest of this process, and note the
    launches."""
    launch = interpreter.GridExecutor.__call__

    def noted(self, *args, **kwargs):
        LAUNCHES.append(self.fn.__name__)
        return launch(self, *args, **kwargs)

    interpreter.GridExecutor.__call__ = noted
    builder = interpreter.InterpreterBuilder
    for name in COMPUTING:
        setattr(builder, name, _computing_in_float32(getattr(builder, name)))
    convert = builder.cast_impl

    def cast(self, source, target, *rounding):
        kind, source = target.scalar, _in_float32(source)
        return _rounded(source.data, kind) if kind in NARROW_TYPES else convert(self, source, target)

    builder.cast_impl = builder.create_fp_to_fp = cast
    builder.create_atomic_rmw = _refusing_narrow(builder.create_atomic_rmw)
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _reducing_in_float32(kind.apply_impl)


def _is_narrow(operand) -> bool:
    return isinstance(operand, interpreter.TensorHandle) and operand.dtype.scalar in NARROW_TYPES


def _in_float32(operand):
    """Return a handle of narrow numbers as one of float32; anything else as it is."""
    if not _is_narrow(operand):
        return operand
    bits = torch.from_numpy(operand.data.copy())
    return interpreter.TensorHandle(bits.view(NARROW_TYPES[operand.dtype.scalar]).float().numpy(), tl.float32)


def _rounded(values, kind):
    """Return numbers as a handle of the narrow type `kind`."""
    wide, dtype = torch.from_numpy(values.astype("float32")), NARROW_TYPES[kind]
    if dtype.itemsize == 1:
        largest = torch.finfo(dtype).max
        wide = wide.clamp(-largest, largest)
    bits = wide.to(dtype).view(torch.uint8 if dtype.itemsize == 1 else torch.int16).numpy()
    return interpreter.TensorHandle(bits.view(f"uint{8 * dtype.itemsize}"), kind)


def _computing_in_float32(method):
    @functools.wraps(method)
    def compute(self, *operands):
        result = method(self, *map(_in_float32, operands))
        last = [one for one in operands if isinstance(one, interpreter.TensorHandle)][-1]
        # A comparison gives booleans.
        return (
            _rounded(result.data, last.dtype.scalar) if _is_narrow(last) and result.data.dtype.kind == "f" else result
        )

    return compute


def _reducing_in_float32(method):
    @functools.wraps(method)
    def reduce(self, given):
        found = method(
            self, tuple(_retyped(one, _in_float32(one.handle)) if _is_narrow(one.handle) else one for one in given)
        )
        found = found if isinstance(found, (list, tuple)) else (found,)
        kind = given[0].dtype
        return [
            _retyped(one, _rounded(one.handle.data, kind)) if kind in NARROW_TYPES and one.dtype == tl.float32 else one
            for one in found
        ]

    return reduce


def _retyped(tensor, handle):
    return tl.core.tensor(handle, tensor.type.with_element_ty(handle.dtype.scalar))


def _refusing_narrow(method):
    @functools.wraps(method)
    def update(self, operation, pointer, value, *rest):
        if _is_narrow(value):
            raise NotImplementedError(f"atomic operations on {value.dtype}")
        return method(self, operation, pointer, value, *rest)

    return update
