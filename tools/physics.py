"""What no kernel can undercut: data that must come from memory takes the time of its bandwidth, any call that of a launch.

A roof that was measured while others used the machine lies too low, and an honest kernel may stand above it. So the roofs are measured
again before a time is called impossible, and where others used it then too, nobody is accused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tools import roofline
from tools.artifacts import Artifact, Measurement, Passed, Trial
from tools.hardware import Roof

ROOF_SHARE = 0.95
"""Of the time that memory takes at its roof: in less the data cannot have been moved. The slack is for the roof's own measuring error."""
AGAIN = 2
"""Times that the roofs are measured once more before a time that they do not allow is held against a kernel."""


class Floor(Artifact):
    """The least time that a workload can take: that of moving its data. A better algorithm may well do fewer operations, never that."""

    workload: str
    unique_bytes: int
    """Inputs and outputs, each once."""
    roof_s: float | None = None
    """`roofline.memory_floor` of them, seconds; None: no bandwidth is known."""


class Physics(Artifact):
    """What is possible on one device."""

    floors: tuple[Floor, ...] = ()
    last_level_cache: int = 0
    """Bytes; 0: unknown, and then no roof is applied."""
    launch_s: float | None = None
    """The least time of any call on this device; None: not measured."""
    doubt: str = ""
    """Why the device may do more than was measured; empty where nothing speaks for it."""
    records: tuple[str, ...] = ()
    """Those that hold the roofs."""

    def least(self, workload: str) -> tuple[float, str]:
        """Seconds that a call of `workload` takes at least, and what says so."""
        roof_s = self._roof_s(workload)
        return (ROOF_SHARE * roof_s, "the memory roof") if roof_s is not None else (self.launch_s or 0.0, "a launch")

    def streams(self, workload: str) -> bool:
        """Whether the memory roof applies to it: its data cannot stay in the cache."""
        return self._roof_s(workload) is not None

    def _roof_s(self, workload: str) -> float | None:
        floor = next((floor for floor in self.floors if floor.workload == workload), None)
        return floor.roof_s if floor is not None and 0 < 2 * self.last_level_cache < floor.unique_bytes else None

    def undercut(self, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
        """Those whose candidate took less than its workload can."""
        return tuple(one for one in measurements if one.candidate_s < self.least(one.workload)[0])


def known(unique_bytes: Mapping[str, int], last_level_cache: int, roofs: Sequence[Roof]) -> Physics:
    """What `roofs` allow; `unique_bytes`: workload -> inputs and outputs, each once."""
    launch = roofline.best(roofs, "launch_latency")
    binding = [roof for roof in (roofline.best(roofs, "memory_bandwidth"), launch) if roof is not None]
    return Physics(
        floors=tuple(
            Floor(workload=name, unique_bytes=size, roof_s=roofline.memory_floor(size, roofs)) for name, size in unique_bytes.items()
        ),
        last_level_cache=last_level_cache,
        launch_s=launch.value if launch else None,
        doubt=next((roof.doubt for roof in binding if roof.doubt), ""),
        records=tuple(dict.fromkeys(roof.source for roof in binding if roof.origin == "measured")),
    )


def settled(
    trial: Trial | None, unique_bytes: Mapping[str, int], last_level_cache: int, roofs: Sequence[Roof], again: Callable[[], Sequence[Roof]]
) -> Physics:
    """What is possible, for `trial`: as long as a time of it is shorter than `roofs` allow they are measured `again`; the best counts."""
    found = known(unique_bytes, last_level_cache, roofs)
    for _ in range(AGAIN):
        if not isinstance(trial, Passed) or not found.undercut(trial.measurements):
            break
        roofs = (*roofs, *again())
        found = known(unique_bytes, last_level_cache, roofs)
    return found
