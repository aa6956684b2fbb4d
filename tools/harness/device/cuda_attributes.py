"""Prints what the CUDA driver reports of each GPU, as JSON: `python -I cuda_attributes.py [LIBRARY]`.

A program of its own, so that the caller's process never initialises CUDA; it makes no context and takes no memory of
the GPU.
"""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import uuid

LIBRARY = "libcuda.so.1"
ATTRIBUTE_CODES = {
    "multi_processor_count": 16,
    "warp_size": 10,
    "max_threads_per_block": 1,
    "max_threads_per_multi_processor": 39,
    "shared_memory_per_block": 8,
    "shared_memory_per_block_optin": 97,
    "shared_memory_per_multiprocessor": 81,
    "regs_per_block": 12,
    "regs_per_multiprocessor": 82,
    "L2_cache_size": 38,
    "memory_bus_width": 37,
    "major": 75,
    "minor": 76,
}
"""Torch's names of what is asked for -> numbers of the attributes in cuda.h."""
PATIENCE_S = 60.0


def read_attributes_in_child(library: str = LIBRARY) -> "list[dict[str, object]]":
    """What this program prints, run in a process of its own that sees every GPU; OSError, in one clause, where there
    is no answer."""
    seen = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    command = [sys.executable, "-I", "-S", __file__, library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=seen)
    except subprocess.TimeoutExpired:
        raise TimeoutError(
            f"the CUDA driver did not answer within {PATIENCE_S:g} s; see whether `nvidia-smi` does"
        ) from None
    if done.returncode:
        raise OSError(
            done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the CUDA driver does not answer"
        )
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def attributes_of_job_gpu() -> "dict[str, object]":
    """Of the GPU that jobs run on (HARNESS_GPU names it, else the first); empty where none answers."""
    with contextlib.suppress(OSError):
        found, wanted = read_attributes_in_child(), os.environ.get("HARNESS_GPU")
        return next((gpu for gpu in found if gpu["uuid"] == wanted), found[0] if found else {})
    return {}


def attributes(library: str) -> "list[dict[str, object]]":
    """Of each visible GPU uuid ("GPU-…"), name, total_memory in bytes and the attributes; OSError without a driver."""
    cuda = ctypes.CDLL(library)
    if status := cuda.cuInit(0):
        raise OSError(f"cuInit: error {status}")
    count, device, value, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name, raw = ctypes.create_string_buffer(96), (ctypes.c_ubyte * 16)()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found: list[dict[str, object]] = []
    for index in range(count.value):
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetUuid_v2(raw, device)
        cuda.cuDeviceGetName(name, len(name), device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
        facts: dict[str, object] = {"uuid": f"GPU-{uuid.UUID(bytes=bytes(raw))}", "total_memory": total.value}
        facts["name"] = name.value.decode(errors="replace")
        for key, code in ATTRIBUTE_CODES.items():
            if cuda.cuDeviceGetAttribute(ctypes.byref(value), code, device):
                raise OSError(f"it does not know attribute {code}")
            facts[key] = value.value
        found.append(facts)
    return found


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(attributes(*sys.argv[1:2] or [LIBRARY])) + "\n")
    except (OSError, AttributeError) as error:
        sys.exit(f"the CUDA driver does not answer: {error}")
