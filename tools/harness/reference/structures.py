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
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
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
    if isinstance(value, dict):
        return made
    if isinstance(value, (list, tuple)):
        return type(value)(*made.values()) if hasattr(value, "_asdict") else type(value)(made.values())
    copied = copy.copy(value)
    for field, part in made.items():
        object.__setattr__(copied, field, part)
    return copied
