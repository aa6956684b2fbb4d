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
SAMPLE = 1 << 14
"""Elements from which the distribution of a larger tensor is computed."""
COMMON = 1 / 16
"""A value that takes this share of the elements is told apart from the others."""
LEAST_COUNTED = 32
"""Elements from which on common values are told apart."""
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
    """Return what of a tensor's content is read later, as tensors by name: the whole of a small one, else a sample, and
    of integers whether they rise along the last axis; empty for what has no figures."""
    torch = torch_module()
    if tensor.numel() == 0 or tensor.is_complex():
        return {}
    values, is_float = tensor.detach(), tensor.is_floating_point()
    if values.numel() * (1 if is_float else values.element_size()) <= CONTENT_BYTES:
        return {"whole": values.clone()}
    sample = values.reshape(-1)[:: math.ceil(values.numel() / SAMPLE)].clone()
    if is_float or values.dtype is torch.bool:
        return {"sample": sample}
    ends = torch.stack([values.min(), values.max()])
    return {"sample": torch.cat([sample, ends]), "rising": (values[..., 1:] >= values[..., :-1]).all()}


def read_summary(found) -> dict:
    """Return a `summary` as JSON; waits for the device.

    `levels` are common values with their shares, and the figures are of all others. The content is that of small
    integers, or of small floats of two values which of them have the larger one.
    """
    found = {name: one.cpu() for name, one in found.items()}
    whole = found.get("whole")
    if whole is not None and not whole.is_floating_point():
        return {"zlib": packed(whole)}
    if not found:
        return {}
    sample = (found["sample"] if whole is None else whole).reshape(-1).double()
    values, counts = sample.unique(return_counts=True)
    common = ((counts >= len(sample) * COMMON) | (len(values) == 2)) & (len(sample) >= LEAST_COUNTED)
    rest = sample[sample.isfinite() & ~torch_module().isin(sample, values[common])]
    levels = list(zip(values[common].tolist(), (counts[common].double() / len(sample)).tolist()))  # noqa: B905
    read = {"levels": levels, "rising": bool(found.get("rising", False)), "distinct": len(values) > len(sample) - 3}
    if len(rest):
        figures = {"min": rest.min(), "max": rest.max(), "mean": rest.mean(), "std": rest.std(correction=0)}
        read |= {name: float(one) for name, one in figures.items()}
    is_mask = whole is not None and len(levels) == len(values) == 2
    return read | ({"zlib": packed(whole.double() == values.max())} if is_mask else {})


def packed(tensor) -> str:
    """Return a tensor's bytes, compressed, as text."""
    data = tensor.contiguous().reshape(-1).view(torch_module().uint8).numpy().tobytes()
    return base64.b64encode(zlib.compress(data, 9)).decode()
