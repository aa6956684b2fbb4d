"""Parse sizes and scalars of workloads, and derive buffer sizes of seed-style kernels from them (pure functions)."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from math import prod

from tools.artifacts import Dims, DType
from tools.cli.suggestions import suggest_or_list
from tools.errors import SettingsError
from tools.executors.protocol import Parameter

_LARGEST_FLOAT = {
    "float64": sys.float_info.max,
    "float32": (2 - 2**-23) * 2.0**127,
    "float16": (2 - 2**-10) * 2.0**15,
    "bfloat16": (2 - 2**-7) * 2.0**127,
}
"""Largest finite number of each floating-point type (IEEE 754; bfloat16 is the upper half of float32)."""


def parse_workloads(text: str) -> tuple[Dims, ...]:
    """Return the dims of each workload in `text`, which separates workloads by ";"; an empty text has none."""
    return tuple(parse_dims(part) for part in text.split(";")) if text.strip() else ()


def with_sizes(given: Sequence[Dims], sizes: str, known: Sequence[str]) -> list[Dims]:
    """Return the dims of a problem's workloads, or, with `sizes`, those that replace them: each the first with other
    numbers. SettingsError for a name that is not among `known`, or that a workload lacks."""
    found = [{**(given[0] if given else {}), **sizes_of_one} for sizes_of_one in parse_workloads(sizes)] or [*given]
    for name in (name for dims in found for name in sorted({*dims} - {*known}) + sorted({*known} - {*dims})):
        unknown = f"is not a size of the problem's workloads; {suggest_or_list(name, known)}"
        raise SettingsError(f"dims: {name!r} {'is missing; give it too' if name in known else unknown}")
    return found


def parse_dims(text: str) -> Dims:
    """Parse text such as `M=512 N=1000 eps=1e-5`, separated by spaces or commas, into ints and floats.

    Raises SettingsError, which names the item that cannot be read.
    """
    dims: Dims = {}
    for item in text.replace(",", " ").split():
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise SettingsError(f"dims: {item!r} is not NAME=NUMBER; write e.g. M=512 N=1000 eps=1e-5")
        if name in dims:
            raise SettingsError(f"dims: {name!r} is given twice; remove one")
        dims[name] = _parse_number(item, value)
    if not dims:
        raise SettingsError("dims: the text is empty; write e.g. M=512 N=1000")
    return dims


def _parse_number(item: str, value: str) -> int | float:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        number = float(value)
    except ValueError:
        raise SettingsError(f"dims: {item!r} has no number after the =; write e.g. N=1000 or eps=1e-5") from None
    if not math.isfinite(number):
        raise SettingsError(f"dims: {item!r} is not finite; write a number such as 1e-5")
    return number


def check_seed_dims(
    workload_dims: Sequence[Dims], parameters: Sequence[Parameter], elements: int, memory_bytes: int, kernel: str
) -> None:
    """Raise SettingsError for dims of a seed-style kernel that cannot be used, before any buffer is allocated.

    A scalar of the kernel may be missing or out of range of its type, a size may be negative, or the buffers with
    their float64 copies may need more than `memory_bytes`. `elements`: elements of each pointer, 0: from the dims.
    """
    if not workload_dims:
        raise SettingsError(
            "dims: the reference has no make_inputs, so the sizes must be given, e.g. --dims M=512 N=1000"
        )
    for dims in workload_dims:
        missing = [p.name for p in parameters if not p.pointer and p.name not in dims]
        unnamed = [at for at, p in enumerate(parameters) if p.name in missing and p.name == f"arg{at}"]
        if unnamed:
            raise SettingsError(
                f"{kernel}: parameter {unnamed[0] + 1} of the kernel has no name; name it and give that name to --dims"
            )
        if missing:
            raise SettingsError(
                f"dims: {missing[0]!r}, a scalar that {kernel} takes, is missing; add {missing[0]}=NUMBER to --dims"
            )
        for parameter in parameters:
            integer = (parameter.dtype or "").startswith("int") and not parameter.pointer
            if integer and not isinstance(dims[parameter.name], int):
                raise SettingsError(
                    f"dims: {parameter.name}={dims[parameter.name]} is not an integer, but {kernel} declares one"
                )
            outside = (
                ""
                if parameter.pointer or parameter.dtype is None
                else reason_out_of_range(dims[parameter.name], parameter.dtype)
            )
            if outside:
                raise SettingsError(
                    f"dims: {parameter.name}={outside}, the type that {kernel} declares; give another value or "
                    f"declare a wider type"
                )
        negative = [name for name, value in dims.items() if isinstance(value, int) and value < 0]
        if negative:
            raise SettingsError(
                f"dims: {negative[0]}={dims[negative[0]]} is negative, and an integer dim is a size; give a "
                f"positive number"
            )
        count = pointer_elements(dims, elements)
        if count < 1:
            raise SettingsError(
                "dims: they give no buffer size; give positive integer sizes such as M=512 N=1000, or --ptr-size"
            )
        needed_bytes = count * sum(item_bytes(p.dtype) + 8 for p in parameters if p.pointer and p.dtype)
        if needed_bytes > memory_bytes:
            dims_text = " ".join(f"{name}={value}" for name, value in dims.items())
            raise SettingsError(
                f"dims: workload {dims_text} needs about {needed_bytes:,} bytes for its buffers and their float64 "
                f"copies, but {memory_bytes:,} are available; give smaller dims or --ptr-size"
            )


def reason_out_of_range(value: int | float, dtype: DType) -> str:
    """Return why a scalar of C type `dtype` cannot hold `value`, or "" if it can.

    Example: "3000000000 does not fit int32 (-2147483648 to 2147483647)".
    """
    low: int | float
    high: int | float
    if dtype == "bool":
        low, high = 0, 1
    elif dtype in _LARGEST_FLOAT:
        low, high = -_LARGEST_FLOAT[dtype], _LARGEST_FLOAT[dtype]
    else:
        bits = 8 * item_bytes(dtype)
        low, high = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if low <= value <= high:
        return ""
    ends = f"{low:.6g} to {high:.6g}" if isinstance(high, float) else f"{low} to {high}"
    return f"{value} does not fit {dtype} ({ends})"


def pointer_elements(dims: dict[str, int | float], declared: int) -> int:
    """Return the elements of each pointer buffer of a seed-style kernel: `declared`, or if that is 0 the product of
    the two largest integer dims."""
    sizes = sorted((v for v in dims.values() if isinstance(v, int)), reverse=True)
    return declared or prod(sizes[:2])


def item_bytes(dtype: DType) -> int:
    """Return the bytes of one element of `dtype`."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1
