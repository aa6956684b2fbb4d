"""Prints the CUDA driver's attributes of each GPU as JSON: `python -I cuda_attributes.py [LIBRARY]`.

It is a program of its own, so that the caller's process never initialises CUDA. It creates no context and uses no
memory of the GPU.
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
"""Torch's name of an attribute -> its number in cuda.h."""
PATIENCE_S = 60.0
"""Seconds within which the driver must answer."""


def read_attributes_in_child(library: str = LIBRARY) -> "list[dict[str, object]]":
    """Return the output of this program, run in a process that sees every GPU; raise OSError, with a clause as its
    text, if the driver does not answer."""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    command = [sys.executable, "-I", "-S", __file__, library]
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(
            f"the CUDA driver did not answer within {PATIENCE_S:g} s; see whether `nvidia-smi` does"
        ) from None
    if completed.returncode:
        raise OSError(
            completed.stderr.strip().splitlines()[-1] if completed.stderr.strip() else "the CUDA driver does not answer"
        )
    gpus: list[dict[str, object]] = json.loads(completed.stdout)
    return gpus


def attributes_of_job_gpu() -> "dict[str, object]":
    """Return the attributes of the GPU that jobs run on (HARNESS_GPU names it, else the first); empty if no driver
    answers."""
    with contextlib.suppress(OSError):
        gpus, uuid = read_attributes_in_child(), os.environ.get("HARNESS_GPU")
        return next((gpu for gpu in gpus if gpu["uuid"] == uuid), gpus[0] if gpus else {})
    return {}


def attributes(library: str) -> "list[dict[str, object]]":
    """Return uuid ("GPU-…"), name, total_memory in bytes and the attributes of each visible GPU; raise OSError without
    a driver."""
    cuda = ctypes.CDLL(library)
    if status := cuda.cuInit(0):
        raise OSError(f"cuInit: error {status}")
    count, device, value, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name, raw = ctypes.create_string_buffer(96), (ctypes.c_ubyte * 16)()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    gpus: list[dict[str, object]] = []
    for index in range(count.value):
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetUuid_v2(raw, device)
        cuda.cuDeviceGetName(name, len(name), device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
        facts: dict[str, object] = {"uuid": f"GPU-{uuid.UUID(bytes=bytes(raw))}", "total_memory": total.value}
        facts["name"] = name.value.decode(errors="replace")
        for key, code in ATTRIBUTE_CODES.items():
            if cuda.cuDeviceGetAttribute(ctypes.byref(value), code, device):
                raise OSError(f"the driver does not know attribute {code}")
            facts[key] = value.value
        gpus.append(facts)
    return gpus


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(attributes(*sys.argv[1:2] or [LIBRARY])) + "\n")
    except (OSError, AttributeError) as error:
        sys.exit(f"the CUDA driver does not answer: {error}")
