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
LEVELS = 4
"""Different values that are counted, from the least on."""
SORTED = 1 << 22
"""Integers of which it is found whether all are different, the first ones."""


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
    """Return what is known of a tensor's content, as tensors by name to be read later; empty for what has no figures.

    It is a copy of small integers; else the figures of what is finite, the shares of the infinities and of the least
    few values, and whether integers rise along the last axis, or are all different. Small floats come with which of
    them have the largest value, which is the whole content where there are two.
    """
    torch = torch_module()
    if tensor.numel() == 0 or tensor.is_complex():
        return {}
    values, is_float = tensor.detach(), tensor.is_floating_point()
    is_small = values.numel() * (1 if is_float else values.element_size()) <= CONTENT_BYTES
    if is_small and not is_float:
        return {"zlib": values.clone()}
    sample = values.reshape(-1)[:: math.ceil(values.numel() / SAMPLE)].to(torch.float64)
    finite = sample.isfinite()
    count, zero = finite.sum().clamp(min=1), sample.new_zeros(())
    mean = torch.where(finite, sample, zero).sum() / count
    low, high = (torch.where(finite, sample, end) for end in (torch.inf, -torch.inf))
    found = {
        "min": torch.nan_to_num(low.min(), posinf=0.0),
        "max": torch.nan_to_num(high.max(), neginf=0.0),
        "mean": mean,
        "std": (torch.where(finite, sample - mean, zero).square().sum() / count).sqrt(),
        "finite": finite.double().mean(),
        "infinite": torch.stack([(sample == end).double().mean() for end in (-torch.inf, torch.inf)]),
    }
    if values.numel() >= 8 * LEVELS:
        levels = [low.min()]
        while len(levels) < LEVELS:
            levels.append(torch.where(low > levels[-1], low, torch.inf).min())
        found["levels"] = torch.stack(
            [torch.stack([one.double(), (low == one).sum().double() / count]) for one in levels]
        )
    if is_float:
        return found | ({"zlib": sample == sample.max()} if is_small else {})
    if values.dim() and values.dtype is not torch.bool:
        found["rising"] = (values[..., 1:] >= values[..., :-1]).all()
        found["distinct"] = values.reshape(-1)[:SORTED].sort().values.diff().ne(0).all()
    return found


def read_summary(found) -> dict:
    """Return a `summary` as JSON; waits for the device."""
    read = {name: one.tolist() for name, one in found.items() if name != "zlib"}
    if "levels" in read:
        read["levels"] = [pair for pair in read["levels"] if pair[1] > 0 and math.isfinite(pair[0])]
    ends = [share for share in read.get("infinite", ()) if share]
    shares = [share * read["finite"] for _, share in read.get("levels", ())] + ends
    if "zlib" in found and (not read or (len(shares) == 2 and sum(shares) > 1 - 1e-9)):
        data = found["zlib"].cpu().contiguous().reshape(-1).view(torch_module().uint8).numpy().tobytes()
        read["zlib"] = base64.b64encode(zlib.compress(data, 9)).decode()
    return read
