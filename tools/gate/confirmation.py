"""Evaluates contests (pure): kernels in separate processes, alternated and timed by the supervisor, in the confirmation
of an accept or in the final benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Literal

from tools.artifacts import Artifact, Claim, Interval, Record, TaskClock
from tools.errors import StorageError
from tools.executors.protocol import ContestOfWorkload, ContestResult
from tools.gate.statistics import Objective, PairedTimes, pool_by_workload, speedup_interval

MAX_CONFIRMATIONS = 2
"""Most contests before an accept; a second one follows if noise or other processes hide a gain that the first one
estimates."""
DISTURBING_CORES = 0.2
"""Cores' worth of CPU time of other processes from which a contest counts as disturbed by them, and not by its own
threads."""
DISTURBING_STOLEN_SHARE = 0.1
"""Share of a contest's time that a hypervisor took from one core, from which the contest counts as disturbed. Single
rounds do not show it, because they are shorter than the ticks in which it is counted."""
DISTURBED_MARGIN = 0.25
"""Distance above 1 that the interval of a gain must keep if the contest was disturbed. Contests of a kernel with itself
beside a busy process, with new processes each round, were wrong by a few percent."""
BUSY_GPU_PERCENT = 10
"""Per cent of the time in which kernels ran on a GPU before the harness's first one, from which the GPU counts as
busy."""
MIN_CONFIRMED_SAVING_SHARE = 0.5
"""Share of the time saved by a candidate's own clock that the supervisor's clock must surely see."""
MACHINE_SPREAD = 0.05
"""Relative difference of one kernel's gain that two honest measurements on machines of a kind may show beyond their
intervals. Verified again, 13 versions on H100 and H200 differed by at most 2 % from their claims
(benchmarks/results/seats.md, h200.md and cuda.md), and the intervals of 20 runs beside other work on two virtual cores
overlapped in all cases (claims.md)."""

Rounds = Sequence[Mapping[str, float]]
"""Contestant -> seconds per call, for each round."""
UNPROFILED_PREFIX = "not known: "
"""Prefix of the harness's message if the profiler could not determine what a kernel executed."""


class Contest(Artifact):
    """Payload of a `confirmed_speedup` or `benchmark` record."""

    candidates: dict[str, str]
    """Contestant -> candidate id; eager and compile have none."""
    attempt: int
    weights: dict[str, float]
    clock: TaskClock | None = None
    """The task's clock (`Task.clock`)."""
    result: ContestResult


def contest_problem(record: Record) -> str | None:
    """Return the fault of the candidate in a contest, or None. Under `clock: graph` it is one not to be captured where
    the incumbent is."""
    contest, missing = Contest.model_validate(record.payload), uncaptured(record)
    if contest.clock != "graph" or "candidate" not in missing or "incumbent" in missing:
        return contest.result.problem
    why = f"its calls cannot be captured in a CUDA graph, which `clock: graph` asks for: {missing['candidate']}"
    return contest.result.problem or why


def is_policy_violation(record: Record) -> bool:
    """Whether that fault is what the candidate executed, and not a wrong result."""
    return Contest.model_validate(record.payload).result.policy


def confirmed_speedup(
    contests: Sequence[Record], objective: Objective, confidence: float, *, replayed: bool | None = None
) -> Interval:
    """Return the interval of incumbent / candidate by the supervisor's clock over the rounds of the counted `contests`,
    pooled. `replayed`: over those of graphs; None: where `is_confirmed_by_graphs`.

    Each of the `MAX_CONFIRMATIONS` looks has the confidence with which all together keep `confidence`. Raises
    StorageError unless the records are the attempts of one confirmation, from the first on.
    """
    loaded = [Contest.model_validate(record.payload) for record in contests]
    if [contest.attempt for contest in loaded] != list(range(len(loaded))) or not 0 < len(loaded) <= MAX_CONFIRMATIONS:
        raise StorageError("the records are not the attempts of a confirmation from the first on")
    if any(contest.candidates != loaded[0].candidates for contest in loaded):
        raise StorageError("the records are confirmations of several candidates")
    rounds = [_paired_times(weight, w, w.rounds) for weight, w in _weighted_workloads(contests, replayed)]
    return speedup_interval(pool_by_workload(rounds), objective, confidence_per_confirmation(confidence))


def is_confirmed_by_graphs(contests: Sequence[Record]) -> bool:
    """Whether the supervisor's clock that confirms a gain is the one over replays of CUDA graphs, in which launches
    hide little: the task's clock is that of graphs or the device's, and both kernels were captured."""
    clock = Contest.model_validate(contests[0].payload).clock
    workloads = [w for _, w in _weighted_workloads(contests, replayed=False)]
    return clock in ("device", "graph") and all(
        w.graph_rounds and {"incumbent", "candidate"} <= w.graph_rounds[0].keys() for w in workloads
    )


def counted_contests(contests: Sequence[Record]) -> Sequence[Record]:
    """Return the contests that count: all, or only the repeat if the first one was disturbed.

    A disturbance may favour one side in all rounds of a contest. An interval that pools these with as many good rounds
    does not allow for it: of equal kernels, one in five would seem faster.
    """
    return contests[1:] if len(contests) > 1 and _is_disturbed(contests[0]) else contests


def confidence_per_confirmation(confidence: float) -> float:
    """Return the confidence that each single look at a confirmation must have."""
    return 1.0 - (1.0 - confidence) / MAX_CONFIRMATIONS


def needs_another_contest(interval: Interval, min_effect: float, *, disturbed: bool) -> bool:
    """Whether another contest may decide: the estimate exceeds the required effect, but the interval contains 1 or a
    disturbance explains the gain (`any_disturbed`)."""
    return interval.estimate > 1.0 + min_effect and (
        interval.low <= 1.0 or is_explained_by_disturbance(interval, disturbed=disturbed)
    )


def is_explained_by_disturbance(interval: Interval, *, disturbed: bool) -> bool:
    """Whether the contest was disturbed, and the gain is not larger than a disturbance can cause."""
    return disturbed and interval.low <= 1.0 + DISTURBED_MARGIN


def any_disturbed(contests: Sequence[Record]) -> bool:
    """Whether one of the counted `contests` was disturbed by other processes."""
    return any(_is_disturbed(record) for record in counted_contests(contests))


def _is_disturbed(contest: Record) -> bool:
    """Whether other processes disturbed a contest: more than half of a workload's rounds were still dirty when no
    repeat was left, and other processes were active.

    On a CPU a round is dirty if threads had to wait for a core. A program whose own threads compete has dirty rounds as
    well, without other processes. A hypervisor that took much of a core disturbs the whole contest. On a GPU a round is
    dirty if others computed there at the same time. Their work on the CPU does not count, and neither do lower clocks,
    which a kernel can cause itself. A GPU that was busy before the harness's first kernel is disturbed during the whole
    contest.
    """
    result = Contest.model_validate(contest.payload).result
    gpu, cpu = result.telemetry.gpu, result.telemetry
    if (
        (gpu.idle_share or 0) >= BUSY_GPU_PERCENT
        if gpu is not None
        else (cpu.stolen_fraction or 0.0) >= DISTURBING_STOLEN_SHARE
    ):
        return True
    # If the use of the cores is unknown, a dirty round counts as a disturbance and not as the program's own fault.
    others_use_cores = cpu.foreign_cpu_fraction is None or cpu.foreign_cpu_fraction * cpu.cores > DISTURBING_CORES
    others = bool(gpu.foreign_busy) if gpu is not None else others_use_cores
    return others and any(2 * workload.dirty > len(workload.rounds) for workload in result.workloads)


def speedup_on_device(
    contests: Sequence[Record], objective: Objective, confidence: float, min_effect: float
) -> Interval | None:
    """Return the interval of incumbent / candidate by the device's own events over the counted rounds, if launches hide
    the gain from the wall clock; else None.

    The candidate's own process reads the events, so they only show how large a gain is that the supervisor's clock
    confirms. The result is None in three cases. There are no events. Or launches explain nothing, because the
    candidate's wall time exceeds its device time by no more than `min_effect`. Or the wall clock surely saw fewer
    seconds saved than the events report (the candidate spends more time outside its events than the incumbent), or not
    surely `MIN_CONFIRMED_SAVING_SHARE` of them. The wall clock then decides alone.
    """
    rounds = _wall_and_device_times(contests)
    if not rounds:
        return None
    device_times = _device_only_times(contests)
    wall, device = (
        sum(r.weight * median(r.candidate) for r in times) for times in ([wall for wall, _ in rounds], device_times)
    )
    if wall <= (1.0 + min_effect) * device and Contest.model_validate(contests[0].payload).clock is None:
        return None
    each_confidence = confidence_per_confirmation(confidence)
    if (
        _confirmed_saving_interval(rounds, 1.0, objective, each_confidence).high < 1.0
        or _confirmed_saving_interval(rounds, MIN_CONFIRMED_SAVING_SHARE, objective, each_confidence).low <= 1.0
    ):
        return None
    return speedup_interval(device_times, objective, each_confidence)


def claim_of(contests: Sequence[Record], objective: Objective, confidence: float, min_effect: float) -> Claim:
    """Return the candidate's confirmed gain by the clock that decides, and by the other clock if there is one.

    The task's clock decides if it could be measured. Without one, the device's decides where launches hide the gain
    (`speedup_on_device`), else the wall clock.
    """
    outside = confirmed_speedup(contests, objective, confidence)
    wanted = Contest.model_validate(contests[0].payload).clock
    device = None if wanted in ("launch", "graph") else speedup_on_device(contests, objective, confidence, min_effect)
    if device is not None:
        wall = confirmed_speedup(contests, objective, confidence, replayed=False)
        return Claim(speedup=device, clock="device-only", other=wall)
    if not _wall_and_device_times(contests):
        return Claim(speedup=outside, clock="wall")
    return Claim(
        speedup=outside,
        clock="graph" if is_confirmed_by_graphs(contests) else "launch-included",
        other=speedup_interval(_device_only_times(contests), objective, confidence_per_confirmation(confidence)),
    )


def is_contradicted_by_wall_clock(contests: Sequence[Record], objective: Objective, confidence: float) -> bool:
    """Whether the wall clock surely saw less than `MIN_CONFIRMED_SAVING_SHARE` of the seconds saved that the
    candidate's own process reported."""
    rounds = _wall_and_device_times(contests)
    return (
        bool(rounds)
        and _confirmed_saving_interval(
            rounds, MIN_CONFIRMED_SAVING_SHARE, objective, confidence_per_confirmation(confidence)
        ).high
        < 1.0
    )


def _wall_and_device_times(contests: Sequence[Record]) -> tuple[tuple[PairedTimes, PairedTimes], ...]:
    """Return (times by the supervisor's clock, times by the device's events) of each workload, pooled over the counted
    `contests`; empty if a workload has no events."""
    weighted = _weighted_workloads(contests)
    if not all(
        w.device_rounds and min(r[name] for r in w.device_rounds for name in ("incumbent", "candidate")) > 0
        for _, w in weighted
    ):
        return ()
    wall = pool_by_workload([_paired_times(weight, w, w.rounds) for weight, w in weighted])
    device = pool_by_workload([_paired_times(weight, w, w.device_rounds) for weight, w in weighted])
    return tuple(zip(wall, device, strict=True))


def _device_only_times(contests: Sequence[Record]) -> Sequence[PairedTimes]:
    """Return the times of the device alone. If they were measured, they are those with all launches queued behind a
    spin, because a kernel shorter than its launch leaves gaps between its events."""
    return pool_by_workload(
        [_paired_times(weight, w, w.kernel_rounds or w.device_rounds) for weight, w in _weighted_workloads(contests)]
    )


def _weighted_workloads(
    contests: Sequence[Record], replayed: bool | None = None
) -> list[tuple[float, ContestOfWorkload]]:
    """Return (weight, rounds) of each workload of each counted contest; with `replayed`, by default where they confirm,
    the replays' times stand in place of the host's, beside those of the device alone."""
    loaded = [Contest.model_validate(record.payload) for record in counted_contests(contests)]
    weighted = [(contest.weights[w.workload], w) for contest in loaded for w in contest.result.workloads]
    if replayed is False or not is_confirmed_by_graphs(contests):
        return weighted
    return [(x, w.model_copy(update={"rounds": w.graph_rounds, "device_rounds": w.kernel_rounds})) for x, w in weighted]


def _paired_times(weight: float, w: ContestOfWorkload, rounds: Sequence[Mapping[str, float]]) -> PairedTimes:
    return PairedTimes(w.workload, weight, tuple(r["incumbent"] for r in rounds), tuple(r["candidate"] for r in rounds))


def _confirmed_saving_interval(
    rounds: Sequence[tuple[PairedTimes, PairedTimes]], share: float, objective: Objective, confidence: float
) -> Interval:
    """Return an interval that lies above 1 if the wall clock saw more than `share` of the seconds saved by the device's
    events.

    wall_i - wall_c > share x (device_i - device_c), with the terms arranged so that both sides are positive.
    """
    compared = [
        PairedTimes(
            wall.workload,
            wall.weight,
            tuple(w + share * d for w, d in zip(wall.incumbent, device.candidate, strict=True)),
            tuple(w + share * d for w, d in zip(wall.candidate, device.incumbent, strict=True)),
        )
        for wall, device in rounds
    ]
    return speedup_interval(compared, objective, confidence)


def reason_unprofiled(contests: Sequence[Record]) -> str | None:
    """Return why it is unknown what the candidate executed on its device in `contests`; None if it is known, or if
    nothing is launched."""
    executed = [
        name
        for record in contests
        for name in Contest.model_validate(record.payload).result.executed.get("candidate", ())
    ]
    return next((name.removeprefix(UNPROFILED_PREFIX) for name in executed if name.startswith(UNPROFILED_PREFIX)), None)


def library_share(contests: Sequence[Record], name: str = "candidate") -> float | None:
    """Return the library's share of the contestant's device time in the last contest; None if it called no library."""
    return Contest.model_validate(contests[-1].payload).result.library_share.get(name)


def device_seconds(record: Record) -> dict[str, float]:
    """Return contestant -> weighted sum of its medians by the device's own events, without gaps between launches where
    they were measured so; empty if there are no events."""
    return _weighted_medians(record, lambda w: w.kernel_rounds or w.device_rounds)


def graph_seconds(record: Record) -> dict[str, float]:
    """Return contestant -> weighted sum of its medians by the supervisor's clock over replays of its CUDA graphs, for
    those that were captured in all workloads."""
    return _weighted_medians(record, lambda w: w.graph_rounds)


def _weighted_medians(record: Record, series: Callable[[ContestOfWorkload], Rounds]) -> dict[str, float]:
    contest = Contest.model_validate(record.payload)
    rounds = {w.workload: series(w) for w in contest.result.workloads}
    names = (
        [n for n in next(iter(rounds.values()))[0] if all(n in r[0] for r in rounds.values())]
        if all(rounds.values())
        else []
    )
    return {
        name: sum(contest.weights[workload] * median([r[name] for r in found]) for workload, found in rounds.items())
        for name in names
    }


def with_device_times(
    record: Record, series: Literal["kernel_rounds", "graph_rounds"] = "kernel_rounds"
) -> Record | None:
    """Return the contest's record with device-only times, or those of replayed graphs, in place of the host's; None if
    they were not measured."""
    contest = Contest.model_validate(record.payload)
    rounds = [getattr(w, series) for w in contest.result.workloads]
    if not all(found and min((t for r in found for t in r.values()), default=0.0) > 0 for found in rounds):
        return None
    workloads = tuple(
        w.model_copy(update={"rounds": found}) for w, found in zip(contest.result.workloads, rounds, strict=True)
    )
    device_contest = contest.model_copy(update={"result": contest.result.model_copy(update={"workloads": workloads})})
    return record.model_copy(update={"payload": device_contest.model_dump(mode="json")})


def with_graph_times(record: Record, *names: str) -> Record | None:
    """Return the contest's record with the times of replayed graphs in place of the host's; None if the task has
    another clock or one of `names` was not captured."""
    wanted = Contest.model_validate(record.payload).clock == "graph" and {*names} <= graph_seconds(record).keys()
    return with_device_times(record, "graph_rounds") if wanted else None


def uncaptured(record: Record) -> dict[str, str]:
    """Return contestant -> why its calls cannot be captured in a CUDA graph."""
    workloads = Contest.model_validate(record.payload).result.workloads
    return {name: why for workload in workloads for name, why in workload.uncaptured.items()}


def host_bound_rounds(record: Record) -> dict[str, int]:
    """Return contestant -> number of rounds in `device_seconds` that may contain gaps between launches."""
    rounds: Counter[str] = Counter()
    for workload in Contest.model_validate(record.payload).result.workloads:
        rounds.update(workload.host_bound)
    return dict(rounds)


def median_seconds(record: Record) -> dict[str, dict[str, float]]:
    """Return workload -> contestant -> median seconds per call."""
    contest = Contest.model_validate(record.payload)
    return {
        w.workload: {name: median([r[name] for r in w.rounds]) for name in (w.rounds[0] if w.rounds else ())}
        for w in contest.result.workloads
    }


def paired_times(record: Record, slow: str, fast: str) -> tuple[PairedTimes, ...]:
    """Return the rounds of two contestants by workload, with `slow` as incumbent and `fast` as candidate."""
    contest = Contest.model_validate(record.payload)
    return tuple(
        PairedTimes(
            w.workload, contest.weights[w.workload], tuple(r[slow] for r in w.rounds), tuple(r[fast] for r in w.rounds)
        )
        for w in contest.result.workloads
    )
