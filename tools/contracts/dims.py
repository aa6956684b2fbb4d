"""Sizes and scalars of workloads as people write them, and what a seed-style kernel's buffers follow from them.
Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from math import prod

from tools.artifacts import Dims, DType
from tools.errors import SettingsError
from tools.executors.protocol import Parameter

_LARGEST = {
    "float64": sys.float_info.max,
    "float32": (2 - 2**-23) * 2.0**127,
    "float16": (2 - 2**-10) * 2.0**15,
    "bfloat16": (2 - 2**-7) * 2.0**127,
}
"""Largest finite number of each floating type (IEEE 754; bfloat16: the upper half of float32)."""


def parse_workloads(text: str) -> tuple[Dims, ...]:
    """Dims of each workload; empty text gives none."""
    return tuple(parse_dims(part) for part in text.split(";")) if text.strip() else ()


def parse_dims(text: str) -> Dims:
    """`M=512 N=1000 eps=1e-5`, apart by spaces or commas, as ints and floats. SettingsError names the item."""
    dims: Dims = {}
    for item in text.replace(",", " ").split():
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise SettingsError(f"dims: {item!r} is not NAME=NUMBER; write e.g. M=512 N=1000 eps=1e-5")
        if name in dims:
            raise SettingsError(f"dims: {name!r} is given twice; keep one")
        dims[name] = _number(item, value)
    if not dims:
        raise SettingsError("dims: nothing is given; write e.g. M=512 N=1000")
    return dims


def _number(item: str, value: str) -> int | float:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        number = float(value)
    except ValueError:
        raise SettingsError(f"dims: {item!r} has no number behind the =; write e.g. N=1000 or eps=1e-5") from None
    if not math.isfinite(number):
        raise SettingsError(f"dims: {item!r} is not finite; write a number such as 1e-5")
    return number


def check_seed_dims(
    points: Sequence[Dims], parameters: Sequence[Parameter], elements: int, memory: int, kernel: str
) -> None:
    """Refuse, before anything is allocated, dims that lack a scalar or whose buffers and float64 copies cannot be
    held."""
    if not points:
        raise SettingsError(
            "dims: the reference has no make_inputs, so that the sizes must be given, e.g. --dims M=512 N=1000"
        )
    for point in points:
        missing = [p.name for p in parameters if not p.pointer and p.name not in point]
        nameless = [at for at, p in enumerate(parameters) if p.name in missing and p.name == f"arg{at}"]
        if nameless:
            raise SettingsError(
                f"{kernel}: parameter {nameless[0] + 1} of the kernel has no name; name it and give that name to --dims"
            )
        if missing:
            raise SettingsError(
                f"dims: {missing[0]!r}, a scalar that {kernel} takes, is not given; add {missing[0]}=NUMBER to --dims"
            )
        for parameter in parameters:
            integer = (parameter.dtype or "").startswith("int") and not parameter.pointer
            if integer and not isinstance(point[parameter.name], int):
                raise SettingsError(
                    f"dims: {parameter.name}={point[parameter.name]} must be an integer, as {kernel} takes it"
                )
            outside = (
                "" if parameter.pointer or parameter.dtype is None else beyond(point[parameter.name], parameter.dtype)
            )
            if outside:
                raise SettingsError(
                    f"dims: {parameter.name}={outside}, as {kernel} takes it; give another value or declare a "
                    f"wider type"
                )
        negative = [name for name, value in point.items() if isinstance(value, int) and value < 0]
        if negative:
            raise SettingsError(
                f"dims: {negative[0]}={point[negative[0]]} is negative, and an integer here is a size; give a "
                f"positive one"
            )
        count = pointer_elements(point, elements)
        if count < 1:
            raise SettingsError(
                "dims: no buffer size follows from them; give positive integer sizes such as M=512 N=1000, or "
                "--ptr-size"
            )
        needed = count * sum(item_bytes(p.dtype) + 8 for p in parameters if p.pointer and p.dtype)
        if needed > memory:
            written = " ".join(f"{name}={value}" for name, value in point.items())
            raise SettingsError(
                f"dims: workload {written} needs about {needed:,} bytes for its buffers and their float64 copies, but "
                f"{memory:,} are "
                "available; give smaller dims or --ptr-size"
            )


def beyond(value: int | float, dtype: DType) -> str:
    """Empty where a scalar of C type `dtype` can hold `value`, else "3000000000 does not fit int32 (-2147483648 to
    2147483647)"."""
    low: int | float
    high: int | float
    if dtype == "bool":
        low, high = 0, 1
    elif dtype in _LARGEST:
        low, high = -_LARGEST[dtype], _LARGEST[dtype]
    else:
        bits = 8 * item_bytes(dtype)
        low, high = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if low <= value <= high:
        return ""
    ends = f"{low:.6g} to {high:.6g}" if isinstance(high, float) else f"{low} to {high}"
    return f"{value} does not fit {dtype} ({ends})"


def pointer_elements(dims: dict[str, int | float], given: int) -> int:
    """Seed style: elements of every pointer buffer: `given`, or the product of the two largest integer dims."""
    sizes = sorted((v for v in dims.values() if isinstance(v, int)), reverse=True)
    return given or prod(sizes[:2])


def item_bytes(dtype: DType) -> int:
    """Bytes of one element."""
    return 1 if dtype == "bool" else int("".join(c for c in dtype if c.isdigit())) // 8
