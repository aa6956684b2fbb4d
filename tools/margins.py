"""What a candidate does to each workload by itself, however much it gains over all (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tools.artifacts import Measurement
from tools.statistics import seems_slower, slower_than

Held = tuple[Measurement, float]
"""A workload as measured, and the share by which it may become slower."""


def held(measured: Iterable[Measurement], margins: Mapping[str, float], margin: float) -> tuple[Held, ...]:
    """Each workload with its own margin, or `margin` where it has none."""
    return tuple((m, margins.get(m.workload, margin)) for m in measured)


def broken(workloads: Iterable[Held]) -> Held | None:
    """The first workload that surely became slower, by the estimate more than it may."""
    return next(((m, margin) for m, margin in workloads if slower_than(m.speedup, margin)), None)


def unsettled(workloads: Iterable[Held]) -> Held | None:
    """The first workload that became slower than it may by the estimate, which the noise may have done as well."""
    return next(((m, margin) for m, margin in workloads if seems_slower(m.speedup, margin) and not slower_than(m.speedup, margin)), None)
