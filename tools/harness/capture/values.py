"""Describes the values of a call: layouts, contents of small integer tensors, distributions, and fingerprints.

Needs the torch that the user's program has imported; nothing here waits for a device.
"""

import base64
import dataclasses
import hashlib
import math
import sys
import zlib

CONTENT_BYTES = 1 << 16
"""Integer tensors of at most this size are recorded whole."""
COPIED_BYTES, BLOCK = 1 << 24, 1 << 10
"""A larger tensor is compared before and after a call by sums of blocks of so many elements, not bit by bit."""
SAMPLE = 1 << 20
"""Elements from which a distribution is computed."""
_ADDRESS_UNIT = 256


def torch_module():
    """Return the program's torch, or None before it imports it."""
    return sys.modules.get("torch")


def is_tensor(value) -> bool:
    """Whether the value is a tensor with an address."""
    torch = torch_module()
    return torch is not None and isinstance(value, torch.Tensor)


def is_traced(value) -> bool:
    """Whether a tensor has no values, because the program is being traced or compiled."""
    return value.device.type == "meta" or type(value).__name__ in ("FakeTensor", "FunctionalTensor", "ProxyTensor")


def describe(value, tensors: list) -> dict:
    """Return a value of a call as JSON and append its tensors to `tensors`, in the order of the tree."""
    if is_tensor(value):
        tensors.append(value)
        return tensor_layout(value)
    if value is None or isinstance(value, str):
        return {"kind": "fixed", "code": repr(value)}
    if isinstance(value, (bool, int, float)):
        return {"kind": "number", "type": number_type(value), "value": value}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"kind": kind, "items": [describe(one, tensors) for one in value]}
    named = None
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"kind": "dict", "items": {key: describe(one, tensors) for key, one in value.items()}}
    if isinstance(value, tuple):
        named = value._asdict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    if named is not None:
        type_name = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"kind": "struct", "type": type_name, "items": {k: describe(v, tensors) for k, v in named.items()}}
    torch = torch_module()
    if torch is not None and isinstance(value, torch.dtype):
        return {"kind": "fixed", "code": repr(value)}
    if torch is not None and isinstance(value, torch.device):
        return {"kind": "fixed", "code": f"torch.{value!r}"}
    return {"kind": "opaque", "type": f"{type(value).__module__}.{type(value).__qualname__}"}


def number_type(value) -> str:
    """Return bool, int or float."""
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"


def tensor_layout(tensor) -> dict:
    """Return dtype, shape, strides, storage offset and alignment of a tensor in bytes (at most 256)."""
    strided = str(tensor.layout) == "torch.strided"
    address = tensor.data_ptr() if strided else 0
    return {
        "kind": "tensor" if strided else "opaque",
        "type": str(tensor.layout),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": [int(extent) for extent in tensor.shape],
        "strides": [int(stride) for stride in tensor.stride()] if strided else [],
        "offset": int(tensor.storage_offset()) if strided else 0,
        "alignment": math.gcd(address, _ADDRESS_UNIT) if address else _ADDRESS_UNIT,
        "device": tensor.device.type,
    }


def argument_key(value, numbers: bool):
    """Return what tells calls of one class from those of others: layouts and whole numbers, but no contents and no
    floating-point numbers. Without `numbers` whole ones are left out, too."""
    if is_tensor(value):
        strides = value.stride() if str(value.layout) == "torch.strided" else ()
        return value.dtype, tuple(value.shape), strides, value.storage_offset() % 16 if strides else 0
    if isinstance(value, float) or (type(value) is int and not numbers):
        return type(value).__name__
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(argument_key(one, numbers) for one in value)
    if isinstance(value, dict):
        return tuple((key, argument_key(one, numbers)) for key, one in value.items())
    if value is None or isinstance(value, (bool, int, str)):
        return type(value).__name__, value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(argument_key(getattr(value, field.name), numbers) for field in dataclasses.fields(value))
    return str(value) if type(value).__module__ == "torch" else type(value).__qualname__


def share_of_rows(tensor, limit: int):
    """Return the tensor, or evenly spaced slices of its longest axis that hold about `limit` bytes."""
    excess = math.ceil(tensor.numel() * tensor.element_size() / limit)
    if excess <= 1:
        return tensor
    axis = max(range(tensor.dim()), key=lambda one: tensor.shape[one])
    return tensor[(slice(None),) * axis + (slice(None, None, excess),)]


def snapshot(tensor):
    """Return a copy of a tensor's bits; of a tensor above `COPIED_BYTES` the sums of blocks of them."""
    torch = torch_module()
    flat = tensor.detach().contiguous().reshape(-1)
    words = flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(flat.element_size(), torch.int64))
    if words.numel() * words.element_size() <= COPIED_BYTES:
        return words.clone()
    whole = words.numel() // BLOCK * BLOCK
    sums = words[:whole].view(-1, BLOCK).sum(1, dtype=torch.int64)
    return torch.cat([sums, words[whole:].sum(dtype=torch.int64).reshape(1)])


def summary(tensor, *, whole_floats: bool) -> dict:
    """Return the content of a small integer tensor, or else a tensor of figures in `figures`, to be read later.

    The figures are smallest, largest, mean, standard deviation, and the shares of zeros, NaN and infinities.
    """
    torch = torch_module()
    if tensor.numel() == 0 or tensor.is_complex():
        return {}
    values = tensor.detach()
    is_integer = not values.is_floating_point()
    if values.numel() * values.element_size() <= CONTENT_BYTES and (is_integer or whole_floats):
        return {"content": values.clone()}
    sample = share_of_rows(values, SAMPLE * values.element_size())
    wide = sample.to(torch.float64 if is_integer or values.dtype == torch.float64 else torch.float32)
    finite = torch.isfinite(wide)
    kept = torch.where(finite, wide, torch.zeros_like(wide))
    count = finite.sum().clamp(min=1)
    mean = kept.sum() / count
    deviation = (torch.where(finite, wide - mean, torch.zeros_like(wide)).square().sum() / count).sqrt()
    shares = [(sample == 0) if is_integer else (wide == 0), torch.isnan(wide), torch.isinf(wide)]
    figures = [kept.min(), kept.max(), mean, deviation, *(share.to(wide.dtype).mean() for share in shares)]
    return {"figures": torch.stack([one.to(torch.float64) for one in figures])}


def read_summary(pending: dict) -> dict:
    """Return a summary as JSON; waits for the device."""
    if "content" in pending:
        content = pending["content"].cpu().contiguous()
        data = content.reshape(-1).view(torch_module().uint8).numpy().tobytes()
        text = base64.b64encode(zlib.compress(data, 9)).decode()
        return {"sha256": hashlib.sha256(data).hexdigest(), "zlib": text}
    if "figures" in pending:
        names = ("min", "max", "mean", "std", "zeros", "nan", "inf")
        return dict(zip(names, pending["figures"].tolist()))  # noqa: B905
    return {}
