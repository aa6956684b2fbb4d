"""Lower bounds on the time of a kernel: the memory roof for data that must come from memory, a launch for any call.

A roof that was measured while other processes used the machine is too low, and an honest kernel can beat it. So the
roofs are measured again before a time is called impossible; if other processes disturb that measurement too, no kernel
is refused. Before that the needed bytes are counted for exactly the inputs that were timed, because ragged, sparse and
paged kernels can need less data with these than with the probed inputs. If the frozen baseline, which agrees with the
reference, beats a count, then the count is wrong and gives no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tools.artifacts import Artifact, Measurement, Passed, Record, Trial
from tools.executors.protocol import NeededBytesResult
from tools.roofline import roofline
from tools.roofline.hardware import Roof, RoofMetric

MIN_ROOF_TIME_SHARE = 0.95
"""Share of the memory roof's time below which a time is impossible. The slack covers the roof's measuring error."""
MAX_REMEASUREMENTS = 2
"""Number of times that the roofs are measured again before a time below them refuses a kernel."""


class LowerBound(NamedTuple):
    """The least time of one call, and how certain it is."""

    seconds: float
    what: str
    """The roof that gives the bound."""
    doubt: str
    """The reason why the device may be faster; empty without one."""
    watched: bool
    """Whether the load of other processes during the measurement is known, or the roof is cited."""


class DataFloor(Artifact):
    """The time to move a workload's data. A better algorithm can need fewer operations, but not fewer bytes."""

    workload: str
    unique_bytes: int
    """Bytes of the inputs that the outputs depend on, and of the outputs, each counted once."""
    roof_s: float | None = None
    """`roofline.memory_floor_seconds` of these bytes; None if no bandwidth is known."""


class PhysicalLimits(Artifact):
    """The lower bounds that hold on one device."""

    floors: tuple[DataFloor, ...] = ()
    last_level_cache: int = 0
    """Bytes; 0 means unknown, and then no memory roof applies."""
    launch_s: float | None = None
    """Seconds of the shortest possible call on this device; None if not measured."""
    doubts: dict[RoofMetric, str] = {}
    """Roof -> the reason why it may be higher than measured; only roofs with such a reason."""
    unwatched: tuple[RoofMetric, ...] = ()
    """Roofs whose measurement could not see the load of other processes."""
    counted: dict[str, int] = {}
    """Workload -> the bytes that it needs with the timed inputs, where these are fewer than `unique_bytes`."""
    refuted: tuple[str, ...] = ()
    """Workloads whose bound the frozen baseline itself beats: the memory roof does not apply to them."""
    records: tuple[str, ...] = ()
    """Ids of the records of the roofs, of their confirmation, and of the byte counts."""

    def lower_bound(self, workload: str) -> LowerBound:
        """Return the least time of one call of `workload`."""
        roof_s, metric = self._roof_s(workload), self._binding_roof(workload)
        seconds, what = (
            (MIN_ROOF_TIME_SHARE * roof_s, "the memory roof")
            if roof_s is not None
            else (self.launch_s or 0.0, "a launch")
        )
        return LowerBound(seconds, what, self.doubts.get(metric, ""), metric not in self.unwatched)

    def _binding_roof(self, workload: str) -> RoofMetric:
        return "memory_bandwidth" if self.exceeds_cache(workload) else "launch_latency"

    def exceeds_cache(self, workload: str) -> bool:
        """Whether the memory roof applies to the workload, because its data exceed the cache."""
        return self._roof_s(workload) is not None

    def _roof_s(self, workload: str) -> float | None:
        floor = next((floor for floor in self.floors if floor.workload == workload), None)
        if floor is None or workload in self.refuted:
            return None
        return floor.roof_s if 0 < 2 * self.last_level_cache < floor.unique_bytes else None

    def impossible_measurements(self, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
        """Return the measurements whose candidate is faster than the lower bound, the certain ones first."""
        found = [one for one in measurements if one.candidate_s < self.lower_bound(one.workload).seconds]
        return tuple(sorted(found, key=lambda one: bool(self.lower_bound(one.workload).doubt)))

    def workloads_refuted_by(self, baseline_s: Mapping[str, float]) -> tuple[str, ...]:
        """Return the workloads whose bound the frozen baseline beats with its own seconds a call."""
        return tuple(
            name
            for name, taken in baseline_s.items()
            if self.exceeds_cache(name) and taken < self.lower_bound(name).seconds
        )


def limits_from_roofs(unique_bytes: Mapping[str, int], last_level_cache: int, roofs: Sequence[Roof]) -> PhysicalLimits:
    """Return the limits that follow from `roofs` (all measured ones, since one can confirm another) and from
    `unique_bytes` (workload -> bytes)."""
    launch = roofline.best_roof(roofs, "launch_latency")
    binding = [roof for roof in (roofline.best_roof(roofs, "memory_bandwidth"), launch) if roof is not None]
    sure = [other for roof in binding if (other := roofline.confirming_roof(roofs, roof.metric)) is not None]
    doubts = {roof.metric: said for roof in binding if (said := roofline.reason_roof_may_be_low(roofs, roof.metric))}
    return PhysicalLimits(
        floors=tuple(
            DataFloor(workload=name, unique_bytes=size, roof_s=roofline.memory_floor_seconds(size, roofs))
            for name, size in unique_bytes.items()
        ),
        last_level_cache=last_level_cache,
        launch_s=launch.value if launch else None,
        doubts=doubts,
        unwatched=tuple(roof.metric for roof in binding if roof.origin == "measured" and roof.others is None),
        records=tuple(dict.fromkeys(roof.source for roof in (*binding, *sure) if roof.origin == "measured")),
    )


def limits_for_trial(
    trial: Trial | None,
    unique_bytes: Mapping[str, int],
    last_level_cache: int,
    roofs: Sequence[Roof],
    again: Callable[[], Sequence[Roof]],
    needed: Callable[[Passed, Sequence[str]], Record],
    baseline_s: Callable[[], Mapping[str, float]] = dict,
) -> PhysicalLimits:
    """Return the limits for `trial`, measuring more only where a time of it looks impossible.

    If a time is below the memory roof, `needed` counts the bytes of these workloads with the timed inputs. While a time
    is still too short, `again` measures the roofs once more, and the best roof counts. Limits that the frozen baseline
    itself beats (`baseline_s`: workload -> its seconds a call) are refuted. The repeated measurements are records.
    """
    found = limits_from_roofs(unique_bytes, last_level_cache, roofs)
    if not isinstance(trial, Passed) or not (short := found.impossible_measurements(trial.measurements)):
        return found
    records: tuple[str, ...] = ()
    counted: dict[str, int] = {}
    if streaming := [one.workload for one in short if found.exceeds_cache(one.workload)]:
        record = needed(trial, streaming)
        seen = NeededBytesResult.model_validate(record.payload).unique_bytes
        records, counted = (record.id,), {name: size for name, size in seen.items() if size < unique_bytes[name]}
        found = limits_from_roofs({**unique_bytes, **counted}, last_level_cache, roofs)
    for _ in range(MAX_REMEASUREMENTS):
        if not found.impossible_measurements(trial.measurements):
            break
        roofs = (*roofs, *again())
        found = limits_from_roofs({**unique_bytes, **counted}, last_level_cache, roofs)
    wrong = found.workloads_refuted_by(baseline_s()) if found.impossible_measurements(trial.measurements) else ()
    return found.model_copy(update={"counted": counted, "refuted": wrong, "records": (*found.records, *records)})
