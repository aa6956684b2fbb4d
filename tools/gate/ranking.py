"""What a benchmark record amounts to (pure): the one place where its times and its ratios are made, so that they tell
the same.

A ratio is estimated from paired rounds: slow spells of the machine cancel in it, and in two medians that stand side by
side they do not. So only the anchor's time is a median, and the others follow from it by their ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tools.artifacts import Artifact, Clock, Interval, Record
from tools.gate import confirmation
from tools.gate.statistics import Objective, PairedTimes, interval_product, speedup_interval

FRAMEWORKS = ("eager", "compile", "max_autotune")
"""Torch's own, in the order in which they are shown."""


def order_frameworks(names: Iterable[str]) -> tuple[str, ...]:
    """The names of contestants that are not kernels: torch's first, then other libraries' in the given order."""
    names = tuple(names)
    return tuple(dict.fromkeys(name for name in (*FRAMEWORKS, *names) if name in names))


def contestant_label(name: str) -> str:
    """The contestant's name as users read it, e.g. "torch max-autotune"."""
    return f"torch {name.replace('_', '-')}" if name in FRAMEWORKS else name


class Placing(Artifact):
    """One contestant of a benchmark, on one workload or over the objective."""

    seconds: float
    """`Ranking.anchor`: its median. Every other: what its paired ratio makes of that, so that times and ratios tell
    the same."""
    against_best: Interval | None
    """Its time / the best kernel's, by paired rounds; None for the best kernel itself."""


class Ranking(Artifact):
    """What a benchmark record amounts to."""

    anchor: str
    best: str
    """The contestant that all others are compared with."""
    workloads: dict[str, dict[str, Placing]]
    overall: dict[str, Placing]


def rank_contestants(
    record: Record, objective: Objective, *, anchor: str, best: str, confidence: float = 0.95
) -> Ranking:
    """All contestants of a benchmark against `best`: best = anchor's median / (anchor / best), other = best x (other /
    best).

    Over the objective `total_time` the times are summed with the workloads' weights, over `geomean` averaged
    geometrically; either way each quotient of two of them is the overall ratio.
    """
    contest = confirmation.Contest.model_validate(record.payload)
    names = [
        name
        for name in dict.fromkeys(
            (anchor, best, *contest.candidates, *order_frameworks(contest.result.workloads[0].rounds[0]))
        )
        if all(name in w.rounds[0] for w in contest.result.workloads)
    ]
    anchored = confirmation.median_seconds(record)
    rivals = [name for name in names if name != best]
    samples = {name: confirmation.paired_times(record, name, best) for name in rivals}
    workloads: dict[str, dict[str, Placing]] = {w.workload: {} for w in contest.result.workloads}
    for index, (workload, placings) in enumerate(workloads.items()):
        ratios = {name: speedup_interval((samples[name][index],), objective, confidence) for name in rivals}
        best_s = anchored[workload][anchor] / (ratios[anchor].estimate if anchor != best else 1.0)
        for name in names:
            seconds = best_s * ratios[name].estimate if name != best else best_s
            placings[name] = Placing(seconds=seconds, against_best=ratios.get(name))
    overall = {}
    for name in names:
        times = {workload: placings[name].seconds for workload, placings in workloads.items()}
        # A workload's share of the objective is that of the time which is shown, so that the overall ratio is the
        # quotient of the sums.
        shares = [_rescale(sample, times[sample.workload]) for sample in samples.get(name, ())]
        against = speedup_interval(shares, objective, confidence) if shares else None
        overall[name] = Placing(seconds=objective_s(times, contest.weights, objective), against_best=against)
    return Ranking(anchor=anchor, best=best, workloads=workloads, overall=overall)


def objective_s(times: Mapping[str, float], weights: Mapping[str, float], objective: Objective) -> float:
    """Seconds of all workloads together: their weighted sum, or their weighted geometric mean."""
    if objective == "geomean":
        return math.exp(sum(weights[w] * math.log(t) for w, t in times.items()) / sum(weights[w] for w in times))
    return sum(weights[w] * t for w, t in times.items())


def _rescale(sample: PairedTimes, incumbent_s: float) -> PairedTimes:
    """A sample with the same paired ratios and `incumbent_s` as the incumbent's median."""
    factor = incumbent_s / sample.incumbent_s
    return PairedTimes(
        sample.workload,
        sample.weight,
        tuple(t * factor for t in sample.incumbent),
        tuple(t * factor for t in sample.candidate),
    )


class FrameworkTimes(Artifact):
    """What torch and other libraries take for what the reference computes, beside a kernel of ours: the bar."""

    record: str
    """The contest in which v0 was timed beside it."""
    clock: Clock
    kernel_s: float
    """Objective time of our kernel."""
    seconds: dict[str, float]
    """Framework -> its objective time."""
    against: dict[str, Interval]
    """Framework -> its time / our kernel's: below 1 it is faster."""
    unavailable: dict[str, str] = {}
    """Framework -> why it could not be timed."""
    of: str = ""
    """What the times are of where that is not one call of one workload."""
    fastest: tuple[float, ...] = ()
    """Seconds of the fastest framework at each workload in order, by the same clock."""

    def after(self, gain: Interval) -> FrameworkTimes:
        """These times compared with a kernel that is faster by `gain`."""
        against = {name: interval_product((found, gain)) for name, found in self.against.items()}
        return self.model_copy(update={"against": against, "kernel_s": self.kernel_s / gain.estimate})

    @property
    def compiled(self) -> tuple[Interval, ...]:
        """Time ratios to the kernel of torch.compile, for each of its modes that was timed."""
        return tuple(self.against[name] for name in FRAMEWORKS[1:] if name in self.against)

    @property
    def ahead(self) -> tuple[str, ...]:
        """Names of the frameworks that are surely faster than the kernel."""
        return tuple(name for name, found in self.against.items() if found.high < 1)


def framework_times(record: Record, objective: Objective, of: str = "") -> FrameworkTimes:
    """What a contest of v0, there called baseline, with the frameworks amounts to; of the device alone where that
    was seen."""
    alone = confirmation.with_device_times(record)
    placed = rank_contestants(alone or record, objective, anchor="baseline", best="baseline").overall
    each = [
        [taken for name, taken in one.items() if name != "baseline"]
        for one in confirmation.median_seconds(alone or record).values()
    ]
    return FrameworkTimes(
        record=record.id,
        clock="device-only" if alone else "launch-included" if confirmation.device_seconds(record) else "wall",
        kernel_s=placed["baseline"].seconds,
        seconds={name: placing.seconds for name, placing in placed.items() if name != "baseline"},
        against={name: placing.against_best for name, placing in placed.items() if placing.against_best is not None},
        unavailable=confirmation.Contest.model_validate(record.payload).result.unavailable,
        of=of,
        fastest=tuple(min(one) for one in each if one),
    )
