"""Kernels that are shared libraries with `solve(...)`, launched by a process that has torch: device pointers and
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
    """What the CUDA runtime says of a launch that did not come about."""


class Native:
    """A loaded library; called with what `to_c_argument` has made, on the default stream."""

    def __init__(self, path: str):
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self.solve, self.error = library.solve, library.kernelwright_error
        self.solve.restype, self.error.restype = None, ctypes.c_char_p

    def __call__(self, **arguments) -> None:
        self.solve(*arguments.values())

    def complaint(self) -> None:
        """Raise LaunchError where a launch since the last look failed."""
        said = self.error()
        if said:
            raise LaunchError(said.decode(errors="replace"))


def to_c_argument(dtype: str, value):
    """A scalar, or a tensor's address, as C takes it."""
    return ctypes.c_void_p(value.data_ptr()) if hasattr(value, "data_ptr") else SCALARS[dtype](value)


def machine_code_of(functions: dict) -> list[tuple[str, int, bytes]]:
    """(name, address, first bytes) of C functions that have been resolved: whoever shares the process could write
    over them."""
    found = []
    for name, function in functions.items():
        address = ctypes.cast(function, ctypes.c_void_p).value
        found.append((name, address, ctypes.string_at(address, HEAD)))
    return found


def first_rewritten_function(known: list[tuple[str, int, bytes]]) -> str:
    """Completes "the candidate …" where code is no longer what it was."""
    return next(
        (f"wrote over the driver's {name}" for name, at, code in known if ctypes.string_at(at, HEAD) != code), ""
    )
