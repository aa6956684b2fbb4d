"""Evaluates benchmark records (pure): the only module that derives their times and ratios, so that both agree.

A ratio is estimated from paired rounds, in which slow phases of the machine cancel; in the ratio of two medians they do
not. Therefore only the anchor's time is a median, and the others follow from it by their ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median

from tools.artifacts import Artifact, Clock, Interval, Record
from tools.cli.formatting import format_seconds, format_speedup
from tools.gate import confirmation
from tools.gate.statistics import Objective, PairedTimes, interval_product, speedup_interval

FRAMEWORKS = ("eager", "compile", "max_autotune")
"""Torch's contestants in the order in which they are shown."""
USER_FUNCTION = "user_function"
"""The user's own function (`Task.baseline_function`)."""
FIRST_CHECK_SPREAD = 1.5
"""Factor by which the time of the user's function may differ from that of its first check, a few calls alone."""


def order_frameworks(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of contestants that are not kernels: the user's function, torch's, then other packages' in the
    given order."""
    names = tuple(names)
    return tuple(dict.fromkeys(name for name in (USER_FUNCTION, *FRAMEWORKS, *names) if name in names))


def contestant_label(name: str) -> str:
    """Return the contestant's name as users read it, e.g. "torch max-autotune"."""
    if name == USER_FUNCTION:
        return "your function"
    return f"torch {name.replace('_', '-')}" if name in FRAMEWORKS else name


class Placing(Artifact):
    """One contestant of a benchmark, on one workload or over the objective."""

    seconds: float
    """The median for `Ranking.anchor`; for the others, the value that follows from their paired ratio to it, so that
    times and ratios agree."""
    against_best: Interval | None
    """Its time / the best kernel's, from paired rounds; None for the best kernel itself."""


class Ranking(Artifact):
    """Times and ratios of a benchmark record."""

    anchor: str
    best: str
    """The contestant that all others are compared with."""
    workloads: dict[str, dict[str, Placing]]
    overall: dict[str, Placing]


def rank_contestants(
    record: Record, objective: Objective, *, anchor: str, best: str, confidence: float = 0.95
) -> Ranking:
    """Compare all contestants of a benchmark with `best`: best = anchor's median / (anchor / best), other = best x
    (other / best).

    Over the objective `total_time` the times are summed with the workloads' weights, over `geomean` averaged
    geometrically. In both cases the quotient of two times is the overall ratio.
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
        # The shown times determine a workload's share of the objective, so that the overall ratio is the quotient of
        # the sums.
        shares = [_rescale(sample, times[sample.workload]) for sample in samples.get(name, ())]
        against = speedup_interval(shares, objective, confidence) if shares else None
        overall[name] = Placing(seconds=objective_s(times, contest.weights, objective), against_best=against)
    return Ranking(anchor=anchor, best=best, workloads=workloads, overall=overall)


def objective_s(times: Mapping[str, float], weights: Mapping[str, float], objective: Objective) -> float:
    """Return the seconds of all workloads together: their weighted sum, or their weighted geometric mean."""
    if objective == "geomean":
        return math.exp(sum(weights[w] * math.log(t) for w, t in times.items()) / sum(weights[w] for w in times))
    return sum(weights[w] * t for w, t in times.items())


def _rescale(sample: PairedTimes, incumbent_s: float) -> PairedTimes:
    """Return a sample with the same paired ratios and `incumbent_s` as the incumbent's median."""
    factor = incumbent_s / sample.incumbent_s
    return PairedTimes(
        sample.workload,
        sample.weight,
        tuple(t * factor for t in sample.incumbent),
        tuple(t * factor for t in sample.candidate),
    )


def factors_over_function(record: Record, objective: Objective, other: str) -> dict[Clock, Interval]:
    """Return the time of the user's own function / that of another contestant by each clock; empty unless both were
    timed.

    By the device's own clock the kernels alone are compared. By a clock that includes the call, the function pays what
    Python and its allocations cost, as torch does, and the kernel is called by the harness.
    """
    if not {USER_FUNCTION, other} <= _timed_contestants(record):
        return {}
    device = confirmation.with_device_times(record)
    clocks: dict[Clock, Record] = {"device-only": device, "launch-included": record} if device else {"wall": record}
    factors = {
        clock: rank_contestants(measured, objective, anchor="baseline", best=other).overall[USER_FUNCTION].against_best
        for clock, measured in clocks.items()
    }
    return {clock: factor for clock, factor in factors.items() if factor is not None}


def _timed_contestants(record: Record) -> set[str]:
    workloads = confirmation.Contest.model_validate(record.payload).result.workloads
    return {*workloads[0].rounds[0]} if workloads else set()


def user_function_seconds(record: Record) -> float:
    """Return the weighted sum of the median times of the user's own function, by the device's events on a GPU."""
    contest = confirmation.Contest.model_validate(record.payload)
    return sum(
        contest.weights[w.workload] * median([r[USER_FUNCTION] for r in w.kernel_rounds or w.rounds])
        for w in contest.result.workloads
    )


def doubts_about_function(record: Record, first: Record | None, objective: Objective) -> tuple[str, ...]:
    """Return the sentences that belong to the factors over the user's own function in a benchmark: why there are none,
    or that it is slower than torch eager or than in its check at the start, whose record is `first`."""
    if USER_FUNCTION not in _timed_contestants(record):
        unavailable = confirmation.Contest.model_validate(record.payload).result.unavailable
        reason = unavailable.get(USER_FUNCTION, "it took no part in the benchmark").rstrip(".")
        return (f"Your function could not be timed: {reason}.",)
    said = [
        f"Your function takes {format_speedup(factor)} the time of the reference under torch eager"
        f"{'' if clock == 'wall' else f' ({clock})'}: the factor over torch eager is the one to read."
        for clock, factor in factors_over_function(record, objective, "eager").items()
        if factor.low > 1 + confirmation.MACHINE_SPREAD
    ]
    if first is not None and USER_FUNCTION in _timed_contestants(first):
        before, now = user_function_seconds(first), user_function_seconds(record)
        if not 1 / FIRST_CHECK_SPREAD <= now / before <= FIRST_CHECK_SPREAD:
            said.append(
                f"Your function took {format_seconds(before)} in its first check, and {format_seconds(now)} here."
            )
    return tuple(said)


class FrameworkTimes(Artifact):
    """Times of torch and other packages for the reference's computation, in comparison with a kernel."""

    record: str
    """Record of the contest of v0 with the frameworks."""
    clock: Clock
    kernel_s: float
    """Objective time of the kernel, in seconds."""
    seconds: dict[str, float]
    """Framework -> its objective time, in seconds."""
    against: dict[str, Interval]
    """Framework -> its time / the kernel's; below 1 the framework is faster."""
    unavailable: dict[str, str] = {}
    """Framework -> why it could not be timed."""
    of: str = ""
    """What the times measure, if it is not one call of one workload."""
    fastest: tuple[float, ...] = ()
    """Seconds of the fastest framework for each workload in order, by the same clock."""

    def after(self, gain: Interval) -> FrameworkTimes:
        """Return these times in comparison with a kernel that is faster by `gain`."""
        against = {name: interval_product((ratio, gain)) for name, ratio in self.against.items()}
        return self.model_copy(update={"against": against, "kernel_s": self.kernel_s / gain.estimate})

    @property
    def compiled(self) -> tuple[Interval, ...]:
        """Time ratios to the kernel of torch.compile, for each of its modes that was timed."""
        return tuple(self.against[name] for name in FRAMEWORKS[1:] if name in self.against)

    @property
    def ahead(self) -> tuple[str, ...]:
        """Names of the frameworks that are surely faster than the kernel."""
        return tuple(name for name, ratio in self.against.items() if ratio.high < 1)


def framework_times(record: Record, objective: Objective, of: str = "") -> FrameworkTimes:
    """Return the times in a contest of v0 (there called baseline) with the frameworks; of the device alone if these
    were measured, or of replayed graphs if the task's clock asks for them."""
    replayed = confirmation.with_graph_times(record, "baseline")
    device_contest = replayed or confirmation.with_device_times(record)
    placings = rank_contestants(device_contest or record, objective, anchor="baseline", best="baseline").overall
    times_by_workload = [
        [seconds for name, seconds in medians.items() if name != "baseline"]
        for medians in confirmation.median_seconds(device_contest or record).values()
    ]
    return FrameworkTimes(
        record=record.id,
        clock="graph"
        if replayed
        else "device-only"
        if device_contest
        else "launch-included"
        if confirmation.device_seconds(record)
        else "wall",
        kernel_s=placings["baseline"].seconds,
        seconds={name: placing.seconds for name, placing in placings.items() if name != "baseline"},
        against={name: placing.against_best for name, placing in placings.items() if placing.against_best is not None},
        unavailable=confirmation.Contest.model_validate(record.payload).result.unavailable,
        of=of,
        fastest=tuple(min(medians) for medians in times_by_workload if medians),
    )
