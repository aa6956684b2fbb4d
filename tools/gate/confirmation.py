"""What contests amount to (pure): kernels in processes of their own, alternated and clocked by the supervisor, in a
confirmation of an accept or in the final benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from tools.artifacts import Artifact, Claim, Interval, Record
from tools.errors import StorageError
from tools.executors.protocol import ContestOfWorkload, ContestResult
from tools.gate.statistics import Objective, PairedTimes, bonferroni_confidence, pool_by_workload, speedup_interval

MAX_CONFIRMATIONS = 2
"""Contests at most before an accept: a second one where noise or others hide a gain that the first estimates."""
DISTURBING_CORES = 0.2
"""Cores' worth of CPU time in others' hands from which on they, and not its own threads, are what a contest waited
for."""
DISTURBING_STOLEN_SHARE = 0.1
"""Share of a contest's time that a hypervisor took of one core from which on that disturbs it. Rounds do not show
it: they are shorter than the ticks in which it is counted."""
DISTURBED_MARGIN = 0.25
"""Beside others a gain counts as confirmed only when its interval lies above 1 by this much: contests of a kernel
with itself beside a busy process, with fresh processes each round, strayed by a few percent."""
BUSY_GPU_PERCENT = 10
"""Per cent of the time in which kernels ran on a GPU before any of ours did, from which on it is taken for busy."""
MIN_CONFIRMED_SAVING_SHARE = 0.5
"""Of what a candidate's own clock says that it saves, the clock outside must surely see this share."""

UNPROFILED_PREFIX = "not known: "
"""How the harness begins where the profiler could not say what a kernel executed."""


class Contest(Artifact):
    """Payload of a `confirmed_speedup` or `benchmark` record."""

    candidates: dict[str, str]
    """Contestant -> candidate id; eager and compile have none."""
    attempt: int
    weights: dict[str, float]
    result: ContestResult


def contest_problem(record: Record) -> str | None:
    """What the candidate did wrong in a contest, or None."""
    return Contest.model_validate(record.payload).result.problem


def is_policy_violation(record: Record) -> bool:
    """Whether what it did wrong there is what it executed, and not what came out."""
    return Contest.model_validate(record.payload).result.policy


def confirmed_speedup(contests: Sequence[Record], objective: Objective, confidence: float) -> Interval:
    """Incumbent / candidate over the rounds of the `contests` that count, pooled; at the confidence that each of
    `MAX_CONFIRMATIONS` looks must have so that all together keep `confidence`.

    StorageError unless they are the attempts, from the first on, of one and the same confirmation.
    """
    loaded = [Contest.model_validate(record.payload) for record in contests]
    if [contest.attempt for contest in loaded] != list(range(len(loaded))) or not 0 < len(loaded) <= MAX_CONFIRMATIONS:
        raise StorageError("the confirmations are not all attempts from the first on")
    if any(contest.candidates != loaded[0].candidates for contest in loaded):
        raise StorageError("the confirmations are of several candidates")
    samples = pool_by_workload(
        [sample for record in counted_contests(contests) for sample in paired_times(record, "incumbent", "candidate")]
    )
    return speedup_interval(samples, objective, confidence_per_confirmation(confidence))


def counted_contests(contests: Sequence[Record]) -> Sequence[Record]:
    """The contests that count: all, or only the repeat where the first was disturbed.

    What others do to a contest may lean to one side through all of its rounds. Pooled with as many good ones that is no
    noise which an interval allows for: of kernels alike, one in five would seem faster.
    """
    return contests[1:] if len(contests) > 1 and _is_disturbed(contests[0]) else contests


def confidence_per_confirmation(confidence: float) -> float:
    """The confidence of each single look at a confirmation."""
    return bonferroni_confidence(confidence, MAX_CONFIRMATIONS, 1)


def needs_another_contest(interval: Interval, min_effect: float, *, disturbed: bool) -> bool:
    """Whether another contest may settle it: the estimate exceeds the effect that is demanded, while the interval
    holds 1, or what others may do to it where they kept the machine busy (`any_disturbed`)."""
    return interval.estimate > 1.0 + min_effect and (
        interval.low <= 1.0 or is_explained_by_disturbance(interval, disturbed=disturbed)
    )


def is_explained_by_disturbance(interval: Interval, *, disturbed: bool) -> bool:
    """Whether others were there, and the gain is not beyond what they can bring about."""
    return disturbed and interval.low <= 1.0 + DISTURBED_MARGIN


def any_disturbed(contests: Sequence[Record]) -> bool:
    """Whether others disturbed one of the `contests` that count."""
    return any(_is_disturbed(record) for record in counted_contests(contests))


def _is_disturbed(contest: Record) -> bool:
    """Whether more than half of the rounds of a workload were dirty when no repeat was left, and others were there to
    make them so.

    A round is dirty on a CPU when threads had to wait for a core; a program whose own threads get in each other's way
    has such rounds alone, too. A hypervisor that took much of a core disturbs a contest as a whole. On a GPU a round is
    dirty when others computed there meanwhile; what they do on the CPU does not count, nor do lower clocks, which a
    kernel can bring about itself. A GPU that was busy before any of ours ran is disturbed as a whole.
    """
    result = Contest.model_validate(contest.payload).result
    gpu, cpu = result.telemetry.gpu, result.telemetry
    if (
        (gpu.idle_share or 0) >= BUSY_GPU_PERCENT
        if gpu is not None
        else (cpu.stolen_fraction or 0.0) >= DISTURBING_STOLEN_SHARE
    ):
        return True
    # Where nobody can say who used the cores, a dirty round is not held to be the program's own doing.
    others_use_cores = cpu.foreign_cpu_fraction is None or cpu.foreign_cpu_fraction * cpu.cores > DISTURBING_CORES
    others = bool(gpu.foreign_busy) if gpu is not None else others_use_cores
    return others and any(2 * workload.dirty > len(workload.rounds) for workload in result.workloads)


def speedup_on_device(
    contests: Sequence[Record], objective: Objective, confidence: float, min_effect: float
) -> Interval | None:
    """Incumbent / candidate over the rounds that count by the device's own events, where launches dilute the wall
    clock's.

    The events are read in the candidate's own process, so that they only say how large a gain is that the clock outside
    bears out. None where there are no such events; where the candidate's wall time exceeds its device time by no more
    than `min_effect`, since then launches explain nothing; and where the seconds that the wall clock saw saved are
    surely fewer than those that the events say (the candidate spends more outside its events than the incumbent does),
    or not surely `MIN_CONFIRMED_SAVING_SHARE` of them. Then the wall clock decides alone.
    """
    rounds = _wall_and_device_times(contests)
    if not rounds:
        return None
    device_times = _device_only_times(contests)
    wall, device = (
        sum(r.weight * median(r.candidate) for r in times) for times in ([wall for wall, _ in rounds], device_times)
    )
    if wall <= (1.0 + min_effect) * device:
        return None
    each_confidence = confidence_per_confirmation(confidence)
    if (
        _confirmed_saving_interval(rounds, 1.0, objective, each_confidence).high < 1.0
        or _confirmed_saving_interval(rounds, MIN_CONFIRMED_SAVING_SHARE, objective, each_confidence).low <= 1.0
    ):
        return None
    return speedup_interval(device_times, objective, each_confidence)


def claim_of(contests: Sequence[Record], objective: Objective, confidence: float, min_effect: float) -> Claim:
    """What the confirmation lets one say of the candidate: the gain by the clock that decides, and by the other
    where there is one."""
    wall = confirmed_speedup(contests, objective, confidence)
    device = speedup_on_device(contests, objective, confidence, min_effect)
    if device is not None:
        return Claim(speedup=device, clock="device-only", other=wall)
    rounds = _wall_and_device_times(contests)
    if not rounds:
        return Claim(speedup=wall, clock="wall")
    return Claim(
        speedup=wall,
        clock="launch-included",
        other=speedup_interval(_device_only_times(contests), objective, confidence_per_confirmation(confidence)),
    )


def is_contradicted_by_wall_clock(contests: Sequence[Record], objective: Objective, confidence: float) -> bool:
    """Whether the wall clock surely saw less than `MIN_CONFIRMED_SAVING_SHARE` of the saved seconds that the
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
    """(by the wall clock, by the device's events) of each workload, pooled over those of `contests` that count;
    empty where some has no events."""
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
    """What the device alone took: with the launches queued behind a spin where that was measured, since a kernel
    that is shorter than its launch leaves gaps between its events."""
    return pool_by_workload(
        [_paired_times(weight, w, w.kernel_rounds or w.device_rounds) for weight, w in _weighted_workloads(contests)]
    )


def _weighted_workloads(contests: Sequence[Record]) -> list[tuple[float, ContestOfWorkload]]:
    loaded = [Contest.model_validate(record.payload) for record in counted_contests(contests)]
    return [(contest.weights[w.workload], w) for contest in loaded for w in contest.result.workloads]


def _paired_times(weight: float, w: ContestOfWorkload, rounds: Sequence[Mapping[str, float]]) -> PairedTimes:
    return PairedTimes(w.workload, weight, tuple(r["incumbent"] for r in rounds), tuple(r["candidate"] for r in rounds))


def _confirmed_saving_interval(
    rounds: Sequence[tuple[PairedTimes, PairedTimes]], share: float, objective: Objective, confidence: float
) -> Interval:
    """Above 1 where the wall clock saw more than `share` of the seconds saved that the device's events say.

    wall_i - wall_c > share x (device_i - device_c), with the terms put so that both sides are positive.
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
    """Why it is not known what the candidate executed on its device in `contests`; None where it was looked at, or
    nothing is launched."""
    executed = [
        name
        for record in contests
        for name in Contest.model_validate(record.payload).result.executed.get("candidate", ())
    ]
    return next((name.removeprefix(UNPROFILED_PREFIX) for name in executed if name.startswith(UNPROFILED_PREFIX)), None)


def library_share(contests: Sequence[Record], name: str = "candidate") -> float | None:
    """The library's part of the candidate's device time, as the last contest saw it; None where it called none."""
    return Contest.model_validate(contests[-1].payload).result.library_share.get(name)


def device_seconds(record: Record) -> dict[str, float]:
    """Contestant -> weighted sum of its medians by the device's own events, without the host's gaps where these were
    kept out; empty where there are no events."""
    contest = Contest.model_validate(record.payload)
    weighted_rounds = [
        (contest.weights[w.workload], w.kernel_rounds or w.device_rounds)
        for w in contest.result.workloads
        if w.device_rounds
    ]
    names = weighted_rounds[0][1][0] if weighted_rounds else ()
    return {
        name: sum(weight * median([r[name] for r in rounds]) for weight, rounds in weighted_rounds) for name in names
    }


def with_device_times(record: Record) -> Record | None:
    """The contest's record with device-only times in place of the host's; None where they were not measured."""
    contest = Contest.model_validate(record.payload)
    if not all(
        w.kernel_rounds and min(t for r in w.kernel_rounds for t in r.values()) > 0 for w in contest.result.workloads
    ):
        return None
    workloads = tuple(w.model_copy(update={"rounds": w.kernel_rounds}) for w in contest.result.workloads)
    device_contest = contest.model_copy(update={"result": contest.result.model_copy(update={"workloads": workloads})})
    return record.model_copy(update={"payload": device_contest.model_dump(mode="json")})


def host_bound_rounds(record: Record) -> dict[str, int]:
    """Contestant -> rounds of `device_seconds` in which the host's gaps could not be kept out."""
    rounds: Counter[str] = Counter()
    for workload in Contest.model_validate(record.payload).result.workloads:
        rounds.update(workload.host_bound)
    return dict(rounds)


def median_seconds(record: Record) -> dict[str, dict[str, float]]:
    """Workload -> contestant -> median seconds a call."""
    contest = Contest.model_validate(record.payload)
    return {
        w.workload: {name: median([r[name] for r in w.rounds]) for name in (w.rounds[0] if w.rounds else ())}
        for w in contest.result.workloads
    }


def paired_times(record: Record, slow: str, fast: str) -> tuple[PairedTimes, ...]:
    """The rounds of two contestants by workload, `slow` as incumbent and `fast` as candidate."""
    contest = Contest.model_validate(record.payload)
    return tuple(
        PairedTimes(
            w.workload, contest.weights[w.workload], tuple(r[slow] for r in w.rounds), tuple(r[fast] for r in w.rounds)
        )
        for w in contest.result.workloads
    )
