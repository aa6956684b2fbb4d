"""Describes the values of a call: layouts, contents of small integer tensors, distributions, and fingerprints.

Needs the torch that the user's program has imported; nothing here waits for a device.
"""

import base64
import dataclasses
import math
import sys
import zlib

CONTENT_BYTES = 1 << 16
"""Integer tensors of at most this size are recorded whole."""
COMPARED = 1 << 22
"""Bytes of a tensor that is compared byte by byte before and after a call."""
SAMPLE = 1 << 20
"""Elements from which a distribution is computed."""
ALIGNMENT = 16


def torch_module():
    """Return the program's torch, or None before it imports it."""
    return sys.modules.get("torch")


def is_traced(value) -> bool:
    """Whether a tensor has no values, because the program is being traced or compiled."""
    return value.device.type == "meta" or type(value).__name__ in ("FakeTensor", "FunctionalTensor", "ProxyTensor")


def describe(value, tensors: list) -> dict:
    """Return a value of a call as JSON and append its tensors to `tensors`, in the order of the tree."""
    torch = torch_module()
    if torch is not None and isinstance(value, torch.Tensor) and value.layout is torch.strided:
        tensors.append(value)
        return tensor_layout(value)
    if isinstance(value, (bool, int, float)):
        return {"kind": "number", "value": value}
    if value is None or isinstance(value, (str, *((torch.dtype, torch.device) if torch is not None else ()))):
        return {"kind": "fixed", "code": repr(value).replace("device(", "torch.device(", type(value) is not str)}
    if hasattr(value, "_asdict"):
        kind, parts = "struct", value._asdict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind, parts = "struct", {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, (list, tuple)):
        kind, parts = ("list" if isinstance(value, list) else "tuple"), dict(enumerate(value))
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        kind, parts = "dict", value
    else:
        kind, parts = "opaque", {}
    items = {str(key): describe(one, tensors) for key, one in parts.items()}
    return {"kind": kind, "type": type(value).__qualname__, "items": items}


def tensor_layout(tensor) -> dict:
    """Return dtype, shape, strides, and the alignment of a tensor in bytes, at most `ALIGNMENT`."""
    return {
        "kind": "tensor",
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": [int(extent) for extent in tensor.shape],
        "strides": [int(stride) for stride in tensor.stride()],
        "contiguous": tensor.is_contiguous(),
        "alignment": math.gcd(tensor.data_ptr(), ALIGNMENT),
    }


def snapshot(tensor):
    """Return a tensor's bytes, or of a larger one than `COMPARED` the sums of blocks of them."""
    torch = torch_module()
    content = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    block = math.ceil(content.numel() / COMPARED) or 1
    whole = content.numel() // block * block
    return torch.cat([content[:whole].view(-1, block).sum(1, dtype=torch.int64), content[whole:]])


def summary(tensor):
    """Return a copy of a small integer tensor, or else smallest, largest, mean value and standard deviation of what is
    finite, as a tensor to be read later; None for what has no such figures."""
    torch = torch_module()
    if tensor.numel() == 0 or tensor.is_complex():
        return None
    values = tensor.detach()
    if not values.is_floating_point() and values.numel() * values.element_size() <= CONTENT_BYTES:
        return values.clone()
    sample = values.reshape(-1)[:: math.ceil(values.numel() / SAMPLE)].to(torch.float64)
    finite = torch.nan_to_num(sample, 0.0, 0.0, 0.0)
    return torch.stack([finite.min(), finite.max(), finite.mean(), finite.std(correction=0)])


def read_summary(found) -> dict:
    """Return a `summary` as JSON; waits for the device."""
    if found is None:
        return {}
    if found.is_floating_point():
        return dict(zip(("min", "max", "mean", "std"), found.tolist()))  # noqa: B905
    data = found.cpu().contiguous().reshape(-1).view(torch_module().uint8).numpy().tobytes()
    return {"zlib": base64.b64encode(zlib.compress(data, 9)).decode()}
