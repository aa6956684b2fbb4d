"""Calls kernels that are shared objects with `solve(...)`, in a process that has torch: with device pointers and
scalars in ABI order."""

import ctypes
import os

SCALARS = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}
HEAD = 16
"""Bytes of a function's code that are compared."""


class LaunchError(Exception):
    """The CUDA runtime's error of a launch that failed."""


class Native:
    """A loaded shared object; called with the values of `to_c_argument`, and a stream as the last one.

    The stream is torch's current one; where that is the default stream, whose handle is 0, it is `stream`, which waits
    for it and for which it waits. So a kernel cannot tell a captured call by its handle. By C's calling conventions a
    `solve` without a parameter for the stream ignores it.
    """

    def __init__(self, path: str, stream: ctypes.c_void_p | None = None):
        import torch

        self.current_stream, self.stream = torch._C._cuda_getCurrentRawStream, stream.value if stream else None
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self.solve, self.error = library.solve, library.kernelwright_error
        self.solve.restype, self.error.restype = None, ctypes.c_char_p

    def __call__(self, **arguments) -> None:
        self.solve(*arguments.values(), ctypes.c_void_p(self.current_stream(0) or self.stream))

    def raise_launch_error(self) -> None:
        """Raise LaunchError if a launch failed since the last call."""
        message = self.error()
        if message:
            raise LaunchError(message.decode(errors="replace"))


def to_c_argument(dtype: str, value):
    """Return a scalar, or a tensor's address, as a C argument."""
    return ctypes.c_void_p(value.data_ptr()) if hasattr(value, "data_ptr") else SCALARS[dtype](value)


def first_code_bytes(functions: dict) -> list[tuple[str, int, bytes]]:
    """Return (name, address, first bytes) of C functions that are resolved, because code in the same process could
    overwrite them."""
    found = []
    for name, function in functions.items():
        address = ctypes.cast(function, ctypes.c_void_p).value
        found.append((name, address, ctypes.string_at(address, HEAD)))
    return found


def first_rewritten_function(known: list[tuple[str, int, bytes]]) -> str:
    """Return the first overwritten function as the end of "the candidate …"; empty if there is none."""
    return next(
        (f"wrote over the driver's {name}" for name, at, code in known if ctypes.string_at(at, HEAD) != code), ""
    )
