"""Prints what the CUDA driver reports of each GPU, as JSON: `python -I cuda_attributes.py [LIBRARY]`.

A program of its own, so that the caller's process never initialises CUDA; it makes no context and takes no memory of the GPU.
"""

from __future__ import annotations

import ctypes
import json
import sys
import uuid

UNITS_CODE, CACHE_CODE, MAJOR_CODE, MINOR_CODE = 16, 38, 75, 76
"""Numbers of the attributes in cuda.h."""


def attributes(library: str) -> list[dict[str, object]]:
    """uuid ("GPU-…"), units, last_level_cache in bytes and architecture ("sm_90") of each visible GPU; OSError without a driver."""
    cuda = ctypes.CDLL(library)
    if status := cuda.cuInit(0):
        raise OSError(f"cuInit: error {status}")
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found: list[dict[str, object]] = []
    for index in range(count.value):
        device = ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        raw = (ctypes.c_ubyte * 16)()
        cuda.cuDeviceGetUuid_v2(raw, device)
        units, cache, major, minor = (_attribute(cuda, device, number) for number in (UNITS_CODE, CACHE_CODE, MAJOR_CODE, MINOR_CODE))
        architecture = f"sm_{major}{minor}"
        found.append(
            {"uuid": f"GPU-{uuid.UUID(bytes=bytes(raw))}", "units": units, "last_level_cache": cache, "architecture": architecture}
        )
    return found


def _attribute(cuda: ctypes.CDLL, device: ctypes.c_int, number: int) -> int:
    value = ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(attributes(sys.argv[1] if len(sys.argv) > 1 else "libcuda.so.1")) + "\n")
    except (OSError, AttributeError) as error:
        sys.exit(f"the CUDA driver does not answer: {error}")
