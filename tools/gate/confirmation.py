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
from tools.gate.statistics import Objective, Paired, corrected, pool, speedup_interval

CONFIRMATIONS = 2
"""Contests at most before an accept: a second one where noise or others hide a gain that the first estimates."""
COMPANY = 0.2
"""Cores' worth of CPU time in others' hands from which on they, and not its own threads, are what a contest waited
for."""
STOLEN = 0.1
"""Share of a contest's time that a hypervisor took of one core from which on that disturbs it. Rounds do not show
it: they are shorter than the ticks in which it is counted."""
COMPANY_MARGIN = 0.25
"""Beside others a gain counts as confirmed only when its interval lies above 1 by this much: contests of a kernel
with itself beside a busy process, with fresh processes each round, strayed by a few percent."""
IDLE_SHARE = 10
"""Per cent of the time in which kernels ran on a GPU before any of ours did, from which on it is taken for busy."""
BORNE_OUT = 0.5
"""Of what a candidate's own clock says that it saves, the clock outside must surely see this share."""

UNSEEN = "not known: "
"""How the harness begins where the profiler could not say what a kernel executed."""


class Contest(Artifact):
    """Payload of a `confirmation` or `benchmark` record."""

    candidates: dict[str, str]
    """Contestant -> candidate id; eager and compile have none."""
    attempt: int
    weights: dict[str, float]
    result: ContestResult


def problem(record: Record) -> str | None:
    """What the candidate did wrong in a contest, or None."""
    return Contest.model_validate(record.payload).result.problem


def policy(record: Record) -> bool:
    """Whether what it did wrong there is what it executed, and not what came out."""
    return Contest.model_validate(record.payload).result.policy


def confirmation(contests: Sequence[Record], objective: Objective, confidence: float) -> Interval:
    """Incumbent / candidate over the rounds of the `contests` that count, pooled; at the confidence that each of
    `CONFIRMATIONS` looks must have so that all together keep `confidence`.

    StorageError unless they are the attempts, from the first on, of one and the same confirmation.
    """
    loaded = [Contest.model_validate(record.payload) for record in contests]
    if [contest.attempt for contest in loaded] != list(range(len(loaded))) or not 0 < len(loaded) <= CONFIRMATIONS:
        raise StorageError("the confirmations are not all attempts from the first on")
    if any(contest.candidates != loaded[0].candidates for contest in loaded):
        raise StorageError("the confirmations are of several candidates")
    samples = pool([sample for record in counting(contests) for sample in pairs(record, "incumbent", "candidate")])
    return speedup_interval(samples, objective, confirming(confidence))


def counting(contests: Sequence[Record]) -> Sequence[Record]:
    """Those that the answer rests on: all, but after a disturbed one that was repeated the repeat alone.

    What others do to a contest may lean to one side through all of its rounds. Pooled with as many good ones that is no
    noise which an interval allows for: of kernels alike, one in five would seem faster.
    """
    return contests[1:] if len(contests) > 1 and _disturbed(contests[0]) else contests


def confirming(confidence: float) -> float:
    """The confidence of each single look at a confirmation."""
    return corrected(confidence, CONFIRMATIONS, 1)


def unsettled(found: Interval, min_effect: float, *, company: bool) -> bool:
    """Whether another contest may settle it: the estimate exceeds the effect that is demanded, while the interval
    holds 1, or what others may do to it where they kept the machine busy (`company`)."""
    return found.estimate > 1.0 + min_effect and (found.low <= 1.0 or in_company(found, company=company))


def in_company(found: Interval, *, company: bool) -> bool:
    """Whether others were there, and the gain is not beyond what they can bring about."""
    return company and found.low <= 1.0 + COMPANY_MARGIN


def disturbed(contests: Sequence[Record]) -> bool:
    """Whether others disturbed one of the `contests` that count."""
    return any(_disturbed(record) for record in counting(contests))


def _disturbed(contest: Record) -> bool:
    """Whether more than half of the rounds of a workload were dirty when no repeat was left, and others were there to
    make them so.

    A round is dirty on a CPU when threads had to wait for a core; a program whose own threads get in each other's way
    has such rounds alone, too. A hypervisor that took much of a core disturbs a contest as a whole. On a GPU a round is
    dirty when others computed there meanwhile; what they do on the CPU does not count, nor do lower clocks, which a
    kernel can bring about itself. A GPU that was busy before any of ours ran is disturbed as a whole.
    """
    result = Contest.model_validate(contest.payload).result
    gpu, cpu = result.telemetry.gpu, result.telemetry
    if (gpu.idle_share or 0) >= IDLE_SHARE if gpu is not None else (cpu.stolen_fraction or 0.0) >= STOLEN:
        return True
    # Where nobody can say who used the cores, a dirty round is not held to be the program's own doing.
    taken = cpu.foreign_cpu_fraction is None or cpu.foreign_cpu_fraction * cpu.cores > COMPANY
    others = bool(gpu.foreign_busy) if gpu is not None else taken
    return others and any(2 * found.dirty > len(found.rounds) for found in result.workloads)


def confirmed_on_device(
    contests: Sequence[Record], objective: Objective, confidence: float, min_effect: float
) -> Interval | None:
    """Incumbent / candidate over the rounds that count by the device's own events, where launches dilute the wall
    clock's.

    The events are read in the candidate's own process, so that they only say how large a gain is that the clock outside
    bears out. None where there are no such events; where the candidate's wall time exceeds its device time by no more
    than `min_effect`, since then launches explain nothing; and where the seconds that the wall clock saw saved are
    surely fewer than those that the events say (the candidate spends more outside its events than the incumbent does),
    or not surely `BORNE_OUT` of them. Then the wall clock decides alone.
    """
    rounds = _on_device(contests)
    if not rounds:
        return None
    alone = _alone(contests)
    wall, device = (sum(r.weight * median(r.candidate) for r in seen) for seen in ([wall for wall, _ in rounds], alone))
    if wall <= (1.0 + min_effect) * device:
        return None
    at = confirming(confidence)
    if _borne_out(rounds, 1.0, objective, at).high < 1.0 or _borne_out(rounds, BORNE_OUT, objective, at).low <= 1.0:
        return None
    return speedup_interval(alone, objective, at)


def claim(contests: Sequence[Record], objective: Objective, confidence: float, min_effect: float) -> Claim:
    """What the confirmation lets one say of the candidate: the gain by the clock that decides, and by the other
    where there is one."""
    wall = confirmation(contests, objective, confidence)
    device = confirmed_on_device(contests, objective, confidence, min_effect)
    if device is not None:
        return Claim(speedup=device, clock="device-only", other=wall)
    rounds = _on_device(contests)
    if not rounds:
        return Claim(speedup=wall, clock="wall")
    return Claim(
        speedup=wall,
        clock="launch-included",
        other=speedup_interval(_alone(contests), objective, confirming(confidence)),
    )


def contradicted(contests: Sequence[Record], objective: Objective, confidence: float) -> bool:
    """Whether the wall clock surely saw less than `BORNE_OUT` of the seconds saved that the candidate's own process
    reported."""
    rounds = _on_device(contests)
    return bool(rounds) and _borne_out(rounds, BORNE_OUT, objective, confirming(confidence)).high < 1.0


def _on_device(contests: Sequence[Record]) -> tuple[tuple[Paired, Paired], ...]:
    """(by the wall clock, by the device's events) of each workload, pooled over those of `contests` that count;
    empty where some has no events."""
    found = _counted(contests)
    if not all(
        w.device_rounds and min(r[name] for r in w.device_rounds for name in ("incumbent", "candidate")) > 0
        for _, w in found
    ):
        return ()
    wall = pool([_paired(weight, w, w.rounds) for weight, w in found])
    device = pool([_paired(weight, w, w.device_rounds) for weight, w in found])
    return tuple(zip(wall, device, strict=True))


def _alone(contests: Sequence[Record]) -> Sequence[Paired]:
    """What the device alone took: with the launches queued behind a spin where that was measured, since a kernel
    that is shorter than its launch leaves gaps between its events."""
    return pool([_paired(weight, w, w.kernel_rounds or w.device_rounds) for weight, w in _counted(contests)])


def _counted(contests: Sequence[Record]) -> list[tuple[float, ContestOfWorkload]]:
    loaded = [Contest.model_validate(record.payload) for record in counting(contests)]
    return [(contest.weights[w.workload], w) for contest in loaded for w in contest.result.workloads]


def _paired(weight: float, w: ContestOfWorkload, rounds: Sequence[Mapping[str, float]]) -> Paired:
    return Paired(w.workload, weight, tuple(r["incumbent"] for r in rounds), tuple(r["candidate"] for r in rounds))


def _borne_out(
    rounds: Sequence[tuple[Paired, Paired]], share: float, objective: Objective, confidence: float
) -> Interval:
    """Above 1 where the wall clock saw more than `share` of the seconds saved that the device's events say.

    wall_i - wall_c > share x (device_i - device_c), with the terms put so that both sides are positive.
    """
    compared = [
        Paired(
            wall.workload,
            wall.weight,
            tuple(w + share * d for w, d in zip(wall.incumbent, device.candidate, strict=True)),
            tuple(w + share * d for w, d in zip(wall.candidate, device.incumbent, strict=True)),
        )
        for wall, device in rounds
    ]
    return speedup_interval(compared, objective, confidence)


def unseen(contests: Sequence[Record]) -> str | None:
    """Why it is not known what the candidate executed on its device in `contests`; None where it was looked at, or
    nothing is launched."""
    said = [
        name
        for record in contests
        for name in Contest.model_validate(record.payload).result.executed.get("candidate", ())
    ]
    return next((name.removeprefix(UNSEEN) for name in said if name.startswith(UNSEEN)), None)


def library_share(contests: Sequence[Record], name: str = "candidate") -> float | None:
    """The library's part of the candidate's device time, as the last contest saw it; None where it called none."""
    return Contest.model_validate(contests[-1].payload).result.library_share.get(name)


def device_s(record: Record) -> dict[str, float]:
    """Contestant -> weighted sum of its medians by the device's own events, without the host's gaps where these were
    kept out; empty where there are no events."""
    contest = Contest.model_validate(record.payload)
    seen = [
        (contest.weights[w.workload], w.kernel_rounds or w.device_rounds)
        for w in contest.result.workloads
        if w.device_rounds
    ]
    names = seen[0][1][0] if seen else ()
    return {name: sum(weight * median([r[name] for r in rounds]) for weight, rounds in seen) for name in names}


def behind_spin(record: Record) -> Record | None:
    """The same contest with what the device alone took in place of the host's times; None where that was not seen."""
    contest = Contest.model_validate(record.payload)
    if not all(
        w.kernel_rounds and min(t for r in w.kernel_rounds for t in r.values()) > 0 for w in contest.result.workloads
    ):
        return None
    alone = tuple(w.model_copy(update={"rounds": w.kernel_rounds}) for w in contest.result.workloads)
    seen = contest.model_copy(update={"result": contest.result.model_copy(update={"workloads": alone})})
    return record.model_copy(update={"payload": seen.model_dump(mode="json")})


def host_bound(record: Record) -> dict[str, int]:
    """Contestant -> rounds of `device_s` in which the host's gaps could not be kept out."""
    counted: Counter[str] = Counter()
    for workload in Contest.model_validate(record.payload).result.workloads:
        counted.update(workload.host_bound)
    return dict(counted)


def seconds(record: Record) -> dict[str, dict[str, float]]:
    """Workload -> contestant -> median seconds a call."""
    contest = Contest.model_validate(record.payload)
    return {
        w.workload: {name: median([r[name] for r in w.rounds]) for name in (w.rounds[0] if w.rounds else ())}
        for w in contest.result.workloads
    }


def pairs(record: Record, slow: str, fast: str) -> tuple[Paired, ...]:
    """The rounds of two contestants by workload, `slow` as incumbent and `fast` as candidate."""
    contest = Contest.model_validate(record.payload)
    return tuple(
        Paired(
            w.workload, contest.weights[w.workload], tuple(r[slow] for r in w.rounds), tuple(r[fast] for r in w.rounds)
        )
        for w in contest.result.workloads
    )
