"""How often a call moves its data: the bytes that a profiler counted against those that the workload needs. Pure."""

from __future__ import annotations

import math

from tools.artifacts import DType, Profile, Quantity, Role
from tools.executors.protocol import ProbedWorkload

ITEM_BYTES: dict[DType, int] = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
}
"""Dtype -> bytes of an element; other dtypes have one byte."""
MIN_REREAD_SHARE = 0.5
"""Least share of a launch's reads that earlier launches have written for the launch to count as one that rereads."""


def add_traffic(profile: Profile, workload: ProbedWorkload) -> Profile:
    """Return the profile with ratios of its counted bytes to the bytes that the workload needs, and with the launches
    that read again what earlier ones have written; unchanged without counters."""

    def bytes_of(*roles: Role) -> int:
        return sum(math.prod(a.shape) * ITEM_BYTES.get(a.dtype, 1) for a in workload.arguments if a.role in roles)

    inputs, outputs = bytes_of("input", "inout"), bytes_of("output", "inout")
    wholes = {
        "ncu.global_bytes.ld": ("roofline.loads_over_inputs", inputs),
        "ncu.dram_bytes": ("roofline.dram_over_unique", workload.unique_bytes),
    }
    found = {
        name: Quantity(value=profile.metrics[counted].value / whole, unit="ratio")
        for counted, (name, whole) in wholes.items()
        if counted in profile.metrics and whole
    }
    return profile.model_copy(update={"metrics": profile.metrics | found | _rereads(profile, inputs, outputs)})


def _rereads(profile: Profile, inputs: int, outputs: int) -> dict[str, Quantity]:
    """Metrics of the launches that read again what earlier ones have written; empty without counters.

    Each launch was counted with empty caches, so its reads from device memory are all data that it uses. What it reads
    beyond inputs that no launch has read is an intermediate result, of which there is as much as the launches write
    beyond the outputs.
    """
    moved = [
        tuple(
            max((launch.metrics[name].value for name in names if name in launch.metrics), default=0.0)
            for names in (("dram__bytes_read.sum",), ("dram__bytes_write.sum", "ncu.global_bytes.st"))
        )
        for launch in profile.launches
    ]
    intermediate = sum(stores for _, stores in moved) - outputs
    read = written = amount = share = 0.0
    found: dict[str, Quantity] = {}
    for launch, (loads, stores) in zip(profile.launches, moved, strict=True):
        again = min(loads - max(inputs - read, 0.0), written, intermediate)
        if again > 0 and again >= MIN_REREAD_SHARE * loads:
            found[f"roofline.reread_by.{launch.name}"] = Quantity(value=again, unit="byte")
            amount, share = amount + again, share + launch.share
        read, written = read + loads, written + stores
    if profile.launches:
        found["roofline.reread_bytes"] = Quantity(value=amount, unit="byte")
        found["roofline.reread_time_share"] = Quantity(value=share, unit="fraction")
    return found
