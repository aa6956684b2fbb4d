"""Takes apart what make_inputs gives into the arguments of a kernel, and puts it together again for the reference."""

import copy
import dataclasses
import enum
import re
from collections.abc import Iterator

import torch

FIXED = (type(None), str, bytes, torch.dtype, torch.device, torch.memory_format, enum.Enum)
"""Types of values that the reference is given and no kernel is: they are the same in every call."""


def parts_of(value) -> dict | None:
    """Return the parts of a dict, list, tuple or dataclass by the end of their names; None for any other value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # What a constructor computed beside the fields belongs to this one input set as well.
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return fields | getattr(value, "__dict__", {})
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else None


def part_name(name: str, end) -> str:
    """Return the name of a part as an argument, `name_end`."""
    return re.sub(r"\W", "_", f"{name}_{end}")


def flatten(name: str, value) -> Iterator[tuple[str, object]]:
    """Yield (name, value) for each value that has no parts."""
    parts = parts_of(value)
    if parts is None:
        yield name, value
        return
    for end, part in parts.items():
        yield from flatten(part_name(name, end), part)


def put_together(name: str, value, leaves: dict):
    """Return a copy of `value` with the `leaves`, by the names that `flatten` gives, in place of its own."""
    parts = parts_of(value)
    if parts is None:
        return leaves.get(name, value)
    made = {end: put_together(part_name(name, end), part, leaves) for end, part in parts.items()}
    if isinstance(value, tuple):
        return value._make(made.values()) if hasattr(value, "_make") else type(value)(made.values())
    copied = copy.copy(value)
    if isinstance(value, list):
        copied[:] = made.values()
        return copied
    for end, part in made.items():
        if isinstance(value, dict) and end in value:
            copied[end] = part
        if dataclasses.is_dataclass(value):
            object.__setattr__(copied, end, part)
    return copied


def layout(value):
    """Return what a reference is given beside a kernel's arguments, to compare it: the types of what has parts, and the
    values that are fixed."""
    parts = parts_of(value)
    if parts is None:
        return value if isinstance(value, FIXED) else ()
    return type(value), {end: layout(part) for end, part in parts.items()}
