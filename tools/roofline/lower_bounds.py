"""What no kernel can undercut: data that must come from memory takes the time of its bandwidth, any call that of a
launch.

A roof that was measured while others used the machine lies too low, and an honest kernel may stand above it. So the
roofs are measured again before a time is called impossible, and where others used it then too, nobody is accused.
Before that it is counted what of its data a workload needs with the very inputs that were timed: ragged, sparse and
paged work may need less of these than of those that were probed. A count that the frozen baseline undercuts, which
agrees with the reference, is wrong itself and forbids nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tools.artifacts import Artifact, Measurement, Passed, Record, Trial
from tools.executors.protocol import NeededResult
from tools.roofline import roofline
from tools.roofline.hardware import Roof, RoofMetric

ROOF_SHARE = 0.95
"""Of the time that memory takes at its roof: in less the data cannot have been moved. The slack is for the roof's
own measuring error."""
AGAIN = 2
"""Times that the roofs are measured once more before a time that they do not allow is held against a kernel."""


class Least(NamedTuple):
    """What a call takes at least, and how sure that is."""

    seconds: float
    what: str
    """The roof that says so."""
    doubt: str
    """Why the device may do more; empty where nothing speaks for it."""
    watched: bool
    """It was seen who else used the machine while the roof was measured, or it is cited."""


class Floor(Artifact):
    """The least time that a workload can take: that of moving its data. A better algorithm may well do fewer
    operations, never that."""

    workload: str
    unique_bytes: int
    """What the outputs depend on of the inputs, and the outputs, each once."""
    roof_s: float | None = None
    """`roofline.memory_floor` of them, seconds; None: no bandwidth is known."""


class Physics(Artifact):
    """What is possible on one device."""

    floors: tuple[Floor, ...] = ()
    last_level_cache: int = 0
    """Bytes; 0: unknown, and then no roof is applied."""
    launch_s: float | None = None
    """The least time of any call on this device; None: not measured."""
    doubts: dict[RoofMetric, str] = {}
    """Roof -> why the device may do more than was measured; only those of which something speaks for it."""
    unwatched: tuple[RoofMetric, ...] = ()
    """Roofs that were measured where nobody could say who else used the machine."""
    counted: dict[str, int] = {}
    """Workload -> fewer bytes than in `unique_bytes`, which it was found to need with the inputs that were timed."""
    refuted: tuple[str, ...] = ()
    """Workloads whose floor the frozen baseline undercuts itself: the memory roof is not applied to them."""
    records: tuple[str, ...] = ()
    """Those that hold the roofs, what bears them out, and what was counted."""

    def least(self, workload: str) -> Least:
        """What a call of `workload` takes at least."""
        roof_s, metric = self._roof_s(workload), self._binding(workload)
        seconds, what = (
            (ROOF_SHARE * roof_s, "the memory roof") if roof_s is not None else (self.launch_s or 0.0, "a launch")
        )
        return Least(seconds, what, self.doubts.get(metric, ""), metric not in self.unwatched)

    def _binding(self, workload: str) -> RoofMetric:
        return "memory_bandwidth" if self.streams(workload) else "launch_latency"

    def streams(self, workload: str) -> bool:
        """Whether the memory roof applies to it: its data cannot stay in the cache."""
        return self._roof_s(workload) is not None

    def _roof_s(self, workload: str) -> float | None:
        floor = next((floor for floor in self.floors if floor.workload == workload), None)
        if floor is None or workload in self.refuted:
            return None
        return floor.roof_s if 0 < 2 * self.last_level_cache < floor.unique_bytes else None

    def undercut(self, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
        """Those whose candidate took less than its workload can, beyond doubt first."""
        found = [one for one in measurements if one.candidate_s < self.least(one.workload).seconds]
        return tuple(sorted(found, key=lambda one: bool(self.least(one.workload).doubt)))

    def refuted_by(self, baseline_s: Mapping[str, float]) -> tuple[str, ...]:
        """The workloads whose data the frozen baseline cannot have moved in its own seconds a call."""
        return tuple(
            name for name, taken in baseline_s.items() if self.streams(name) and taken < self.least(name).seconds
        )


def known(unique_bytes: Mapping[str, int], last_level_cache: int, roofs: Sequence[Roof]) -> Physics:
    """What `roofs` (all that were measured: one may bear out another) allow; `unique_bytes`: workload -> those of
    its `Floor`."""
    launch = roofline.best(roofs, "launch_latency")
    binding = [roof for roof in (roofline.best(roofs, "memory_bandwidth"), launch) if roof is not None]
    sure = [other for roof in binding if (other := roofline.borne_out(roofs, roof.metric)) is not None]
    doubts = {roof.metric: said for roof in binding if (said := roofline.doubt(roofs, roof.metric))}
    return Physics(
        floors=tuple(
            Floor(workload=name, unique_bytes=size, roof_s=roofline.memory_floor(size, roofs))
            for name, size in unique_bytes.items()
        ),
        last_level_cache=last_level_cache,
        launch_s=launch.value if launch else None,
        doubts=doubts,
        unwatched=tuple(roof.metric for roof in binding if roof.origin == "measured" and roof.others is None),
        records=tuple(dict.fromkeys(roof.source for roof in (*binding, *sure) if roof.origin == "measured")),
    )


def settled(
    trial: Trial | None,
    unique_bytes: Mapping[str, int],
    last_level_cache: int,
    roofs: Sequence[Roof],
    again: Callable[[], Sequence[Roof]],
    needed: Callable[[Passed, Sequence[str]], Record],
    baseline_s: Callable[[], Mapping[str, float]] = dict,
) -> Physics:
    """What is possible, for `trial`. Where a time of it is shorter than the memory's roof allows, `needed` counts what
    these workloads need with the inputs that were timed; as long as one is shorter still, the roofs are measured
    `again`, and the best counts. What the frozen baseline undercuts even then (`baseline_s`: workload -> its seconds a
    call) is refuted.

    What was measured again lies in the records, and another process begins to count at none of them.
    """
    found = known(unique_bytes, last_level_cache, roofs)
    if not isinstance(trial, Passed) or not (short := found.undercut(trial.measurements)):
        return found
    records: tuple[str, ...] = ()
    counted: dict[str, int] = {}
    if streaming := [one.workload for one in short if found.streams(one.workload)]:
        record = needed(trial, streaming)
        seen = NeededResult.model_validate(record.payload).unique_bytes
        records, counted = (record.id,), {name: size for name, size in seen.items() if size < unique_bytes[name]}
        found = known({**unique_bytes, **counted}, last_level_cache, roofs)
    for _ in range(AGAIN):
        if not found.undercut(trial.measurements):
            break
        roofs = (*roofs, *again())
        found = known({**unique_bytes, **counted}, last_level_cache, roofs)
    wrong = found.refuted_by(baseline_s()) if found.undercut(trial.measurements) else ()
    return found.model_copy(update={"counted": counted, "refuted": wrong, "records": (*found.records, *records)})
