"""What the judge's records hold, and what they amount to (pure): the gate weighs a trial as `recomputed` from the records it cites."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tools.artifacts import Artifact, Failed, Interval, Measurement, Passed, Record, Trial, Unmeasured
from tools.errors import HarnessError, StorageError
from tools.protocol import (
    CaseResult,
    ContestOfWorkload,
    ContestRequest,
    ContestResult,
    CorrectnessRequest,
    CorrectnessResult,
    TimedPair,
    TimingOfWorkload,
    TimingRequest,
    TimingResult,
)
from tools.records import Records
from tools.statistics import Objective, Paired, corrected, pool, speedup_interval
from tools.statistics import noise_floor as floor_of

CONFIRMATIONS = 2
"""Contests at most before an accept: a second one, pooled with the first, where the noise hides a gain that the first estimates."""
COMPANY = 0.2
"""Cores' worth of CPU time in others' hands from which on they, and not its own threads, are what a contest waited for."""
IDLE_SHARE = 10
"""Per cent of the time in which kernels ran on a GPU before any of ours did, from which on it is taken for busy."""
BORNE_OUT = 0.5
"""Of what a candidate's own clock says that it saves, the clock outside must surely see this share."""

UNSEEN = "not known: "
"""How the harness begins where the profiler could not say what a kernel executed."""


class Toolset(Artifact):
    """Payload of a `toolchain` record: what all kernels of a run are built with."""

    compiler: str
    """Name and version."""
    flags: tuple[str, ...]
    """As resolved on this machine."""

    def __str__(self) -> str:
        return f"{self.compiler} with {' '.join(self.flags) or 'no flags'}"


class Build(Artifact):
    """Payload of a `build` record."""

    candidate: str
    ok: bool
    library: str | None
    """sha256 of the library's blob; None when it does not compile."""
    compiled: str | None = None
    """sha256 of what the build left beside the library for its later use, if anything: a cache, whose blob nothing depends on."""
    log: str
    """Trimmed."""
    log_blob: str
    """sha256 of the whole log."""
    argv: tuple[str, ...]
    compiler: str
    """Name and version."""
    seconds: float


class Correctness(Artifact):
    """Payload of a `correctness` record. Hidden workloads have no dims here, so that a prompt may hold it."""

    candidate: str
    baseline: str | None
    purpose: str
    attempt: int
    cases: tuple[CaseResult, ...]
    hidden: dict[str, str]
    """Hidden workload -> HMAC of its dims under the run's secret."""


class Timing(Artifact):
    """Payload of a `timing` or `calibration` record."""

    candidate: str
    incumbent: str
    batch: int
    attempt: int
    weights: dict[str, float]
    result: TimingResult


class Contest(Artifact):
    """Payload of a `confirmation` or `benchmark` record."""

    candidates: dict[str, str]
    """Contestant -> candidate id; eager and compile have none."""
    attempt: int
    weights: dict[str, float]
    result: ContestResult


# ---------------------------------------------------------------- answers that cannot be: the harness's fault


def check_correctness(request: CorrectnessRequest, result: CorrectnessResult) -> None:
    """HarnessError unless the cases are those asked, in order, and cut short only behind a failure."""
    answered = [r.case for r in result.cases]
    if answered != list(request.cases[: len(answered)]) or not answered:
        raise HarnessError("the harness answered other cases than were asked")
    if len(answered) < len(request.cases) and result.cases[-1].status != "failed":
        raise HarnessError(f"the harness answered {len(answered)} of {len(request.cases)} cases and none of them failed")
    for found in result.cases:
        # A wrong kernel may well put out NaN; only a passed case owes finite figures.
        sane = found.max_error is not None and found.tolerance is not None and 0 <= found.max_error <= found.tolerance
        if found.status == "passed" and not sane:
            raise HarnessError(f"the harness passed {found.case.workload} with error {found.max_error} over tolerance {found.tolerance}")


def check_timing(request: TimingRequest, result: TimingResult) -> None:
    """HarnessError unless each workload is answered with as many possible times as were asked, or with the candidate's fault."""
    faulty = [w for w in result.workloads if w.problem is not None]
    for found in faulty:
        if found.culprit != "candidate":
            raise HarnessError(f"timing {found.workload} failed on the {found.culprit or 'harness'}'s side: {found.problem}")
    if faulty:
        return
    if [w.workload for w in result.workloads] != [w.name for w in request.workloads]:
        raise HarnessError("the harness timed other workloads than were asked")
    for asked, found in zip(request.workloads, result.workloads, strict=True):
        if len(found.pairs) < asked.pairs:
            raise HarnessError(f"the harness timed {len(found.pairs)} of {asked.pairs} pairs of {asked.name}")
        _possible(asked.name, [t for p in (*found.pairs, *found.warm_pairs) for t in (p.incumbent_s, p.candidate_s)])


def check_contest(request: ContestRequest, result: ContestResult) -> None:
    """HarnessError unless each workload has its rounds of all available contestants, or the candidate is at fault."""
    if result.problem is not None:
        if result.culprit != "candidate":
            raise HarnessError(f"the contest failed on the {result.culprit or 'harness'}'s side: {result.problem}")
        return
    kernels = {c.name for c in request.contestants if c.kind == "library"}
    lost = kernels & result.unavailable.keys()
    if lost:
        raise HarnessError(f"the contest could not run {sorted(lost)[0]}: {result.unavailable[sorted(lost)[0]]}")
    if [w.workload for w in result.workloads] != [w.name for w in request.workloads]:
        raise HarnessError("the contest timed other workloads than were asked")
    present = {c.name for c in request.contestants} - result.unavailable.keys()
    for asked, found in zip(request.workloads, result.workloads, strict=True):
        if len(found.rounds) < asked.pairs or any(round_.keys() != present for round_ in found.rounds):
            raise HarnessError(f"the contest left rounds of {asked.name} incomplete")
        _possible(asked.name, [t for round_ in found.rounds for t in round_.values()])


def _possible(workload: str, seconds: Sequence[float]) -> None:
    if not all(0 < t < float("inf") for t in seconds):
        raise HarnessError(f"the harness gave {workload} a time that is not a positive number of seconds")


def blanked(results: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    """The results without anything from which the dims or seeds of hidden workloads could be read: no number stays in their reasons."""
    return tuple(
        r.model_copy(
            update={
                "case": r.case.model_copy(update={"dims": {}, "seed": 0}),
                "reason": re.sub(r"\d[\d.,]*(?:e[+-]?\d+)?", "#", r.reason),
            }
        )
        if r.case.hidden
        else r
        for r in results
    )


# ---------------------------------------------------------------- what records amount to


def build_failure(record: Record) -> Failed | None:
    """None when it compiled."""
    build = Build.model_validate(record.payload)
    if build.ok:
        return None
    complaint = next((line for line in build.log.splitlines() if "error" in line or "undefined" in line), "")
    reason = f"It does not compile: {complaint.strip()}." if complaint else f"It does not compile with {build.compiler}."
    return Failed(candidate=build.candidate, stage="build", reason=reason, log=build.log, records=(record.id,))


def correctness_failure(record: Record, before: tuple[str, ...] = ()) -> Failed | None:
    """None when every case that counts was passed; `before` are the records of earlier stages."""
    checked = Correctness.model_validate(record.payload)
    wrong = [r for r in checked.cases if r.status == "failed"]
    if not wrong:
        return None
    log = "\n".join(_line(r) for r in checked.cases)
    return Failed(candidate=checked.candidate, stage="correctness", reason=f"{_why(wrong[0])}.", log=log, records=(*before, record.id))


def not_its_own(record: Record) -> str | None:
    """What the kernel of a `correctness` record executed that is not its own, completing "the kernel …"; None without such."""
    cases = Correctness.model_validate(record.payload).cases
    return next((result.reason for result in cases if result.policy), None)


def _why(result: CaseResult) -> str:
    reason = result.reason.rstrip(".") or f"{result.case.workload}: the outputs differ from the reference"
    over = result.max_error is not None and result.tolerance is not None and result.max_error > result.tolerance
    return f"{reason} (error {result.max_error:.2e}, tolerance {result.tolerance:.2e})" if over else reason


def _line(result: CaseResult) -> str:
    error = "" if result.max_error is None else f", error {result.max_error:.2e}"
    tolerance = "" if result.tolerance is None else f", tolerance {result.tolerance:.2e}"
    reason = f": {result.reason}" if result.reason else ""
    return f"{result.case.workload} {result.case.dims or ''} {result.case.distribution}: {result.status}{error}{tolerance}{reason}"


def timing_failure(record: Record, before: tuple[str, ...] = ()) -> Failed | None:
    """None when all timed calls of the candidate were right."""
    timing = Timing.model_validate(record.payload)
    problem = next((w for w in timing.result.workloads if w.problem is not None), None)
    if problem is None:
        return None
    reason = f"While timed on {problem.workload}: {(problem.problem or '').rstrip('.')}."
    return Failed(candidate=timing.candidate, stage="timing", reason=reason, records=(*before, record.id))


def passed(build: Record, correctness: Record, timings: Sequence[Record], objective: Objective, confidence: float) -> Passed:
    """The trial of a candidate that compiled, was right and was timed in `timings`."""
    checked = Correctness.model_validate(correctness.payload)
    errors = {r.case.workload: r.max_error for r in checked.cases if r.case.distribution == "as_given" and r.status == "passed"}
    return Passed(
        candidate=checked.candidate,
        measurements=measurements(timings, errors, confidence),
        speedup=speedup(timings, objective, confidence),
        records=(build.id, correctness.id, *(r.id for r in timings)),
    )


def trial_of(cited: Sequence[Record], objective: Objective, confidence: float, incumbent: str | None = None) -> Passed | Failed:
    """The trial that build, correctness and timing records amount to, in the judge's order; records of other kinds are passed over.

    StorageError when they are no trial's: one is lacking, or they are of several candidates, batches or incumbents (`incumbent`: the
    one that the timings must be against).
    """
    build, checked = _single(cited, "build"), _single(cited, "correctness")
    timings = [record for record in cited if record.kind == "timing"]
    if build is None:
        raise StorageError("no build record is cited")
    failed = build_failure(build)
    if failed is not None:
        return failed
    if checked is None:
        raise StorageError("no correctness record is cited")
    loaded = _timings(timings)
    candidates = {Build.model_validate(build.payload).candidate, Correctness.model_validate(checked.payload).candidate}
    if len(candidates | {timing.candidate for timing in loaded}) > 1:
        raise StorageError("the records are of several candidates")
    failed = correctness_failure(checked, (build.id,))
    if failed is not None:
        return failed
    if not timings:
        raise StorageError("no timing record is cited")
    if len({timing.incumbent for timing in loaded} | ({incumbent} if incumbent else set())) > 1:
        raise StorageError("the timings are against another incumbent")
    failed = next((found for record in timings if (found := timing_failure(record, (build.id, checked.id)))), None)
    if failed is not None:
        return failed
    if [timing.batch for timing in loaded] != list(range(len(loaded))):
        raise StorageError("the timings are not all batches from the first on")
    return passed(build, checked, timings, objective, confidence)


def recomputed(trial: Trial, records: Mapping[str, Record], objective: Objective, incumbent: str | None = None) -> Trial:
    """`trial` made again from the records that it cites (`records`, by id), at the confidence that it claims.

    Unmeasured, with the contradiction, where they do not amount to it. What rests on no record (a refusal by the screen, a machine's
    failure) is returned as it is.
    """
    if isinstance(trial, Unmeasured) or (isinstance(trial, Failed) and trial.stage == "screen"):
        return trial
    confidence = trial.speedup.confidence if isinstance(trial, Passed) else 0.95
    try:
        found = trial_of([records[identity] for identity in trial.records], objective, confidence, incumbent)
    except KeyError as error:
        reason = f"record {error.args[0]} is missing"
    except (StorageError, ValueError) as error:
        reason = str(error).splitlines()[0]
    else:
        if _alike(found.model_dump(), trial.model_dump()):
            return found
        reason = f"it says {_said(trial)}, they say {_said(found)}"
    return Unmeasured(candidate=trial.candidate, reason=f"its trial does not follow from its records: {reason}", records=trial.records)


def _single(records: Sequence[Record], kind: str) -> Record | None:
    found = [record for record in records if record.kind == kind]
    if len(found) > 1:
        raise StorageError(f"{len(found)} {kind} records are cited where there is one")
    return found[0] if found else None


def _alike(left: object, right: object) -> bool:
    """Equal but for the last digits of a float, in which one machine's logarithm may differ from another's."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_alike(left[name], right[name]) for name in left)
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(_alike, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return left == right


def _said(trial: Passed | Failed) -> str:
    return f"{trial.speedup.estimate:.4g}x for {trial.candidate}" if isinstance(trial, Passed) else f"failed at {trial.stage}"


def speedup(timings: Sequence[Record], objective: Objective, confidence: float) -> Interval:
    """Incumbent / candidate of the objective over all batches."""
    return speedup_interval(paired(timings), objective, confidence)


def paired(timings: Sequence[Record]) -> tuple[Paired, ...]:
    """The pairs of all batches by workload."""
    return pool([_sample(w.workload, t.weights[w.workload], w.pairs) for t in _timings(timings) for w in t.result.workloads])


def measurements(timings: Sequence[Record], errors: Mapping[str, float | None], confidence: float) -> tuple[Measurement, ...]:
    """One measurement a workload, each with an interval of its own."""
    loaded = _timings(timings)
    warm = pool([_sample(w.workload, t.weights[w.workload], w.warm_pairs) for t in loaded for w in t.result.workloads if w.warm_pairs])
    warm_of = {sample.workload: sample for sample in warm}
    found: dict[str, list[TimingOfWorkload]] = {}
    for timing in loaded:
        for workload in timing.result.workloads:
            found.setdefault(workload.workload, []).append(workload)
    made = []
    for sample in paired(timings):
        seen = [errors.get(sample.workload), *(w.max_error for w in found[sample.workload])]
        warmed = warm_of.get(sample.workload)
        made.append(
            Measurement(
                workload=sample.workload,
                weight=sample.weight,
                incumbent_s=sample.incumbent_s,
                candidate_s=sample.candidate_s,
                pairs=len(sample.incumbent),
                speedup=speedup_interval((sample,), confidence=confidence),
                warm_candidate_s=warmed.candidate_s if warmed else None,
                warm_incumbent_s=warmed.incumbent_s if warmed else None,
                max_error=max((e for e in seen if e is not None), default=None),
                launched_incumbent_s=_median(w.launched_incumbent_s for w in found[sample.workload]),
                launched_candidate_s=_median(w.launched_candidate_s for w in found[sample.workload]),
            )
        )
    return tuple(made)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def noise_floor(calibration: Record, objective: Objective, confidence: float = 0.95) -> float:
    """Relative: how far the A/A pairs of a `calibration` record let the objective stray from 1."""
    return floor_of(paired((calibration,)), objective, confidence)


def seconds(timing: Record) -> dict[str, float]:
    """Workload -> the incumbent's median seconds a call, from a `timing` or `calibration` record."""
    return {sample.workload: sample.incumbent_s for sample in paired((timing,))}


def others(records: Sequence[Record]) -> float:
    """The largest share of the machine's CPU time that other processes took during one of the `timing` records; 0 without any."""
    return max((t.result.telemetry.foreign_cpu_fraction for t in _timings([r for r in records if r.kind == "timing"])), default=0.0)


def contest_problem(record: Record) -> str | None:
    """What the candidate did wrong in a contest, or None."""
    return Contest.model_validate(record.payload).result.problem


def contest_policy(record: Record) -> bool:
    """Whether what it did wrong there is what it executed, and not what came out."""
    return Contest.model_validate(record.payload).result.policy


def confirmation(contests: Sequence[Record], objective: Objective, confidence: float) -> Interval:
    """Incumbent / candidate over the rounds of all `contests`, pooled; at the confidence that each of `CONFIRMATIONS` looks must have so
    that all together keep `confidence`.

    StorageError unless they are the attempts, from the first on, of one and the same confirmation.
    """
    loaded = [Contest.model_validate(record.payload) for record in contests]
    if [contest.attempt for contest in loaded] != list(range(len(loaded))) or not 0 < len(loaded) <= CONFIRMATIONS:
        raise StorageError("the confirmations are not all attempts from the first on")
    if any(contest.candidates != loaded[0].candidates for contest in loaded):
        raise StorageError("the confirmations are of several candidates")
    samples = pool([sample for record in contests for sample in contest_pairs(record, "incumbent", "candidate")])
    return speedup_interval(samples, objective, confirming(confidence))


def confirming(confidence: float) -> float:
    """The confidence of each single look at a confirmation."""
    return corrected(confidence, CONFIRMATIONS, 1)


def unsettled(found: Interval, min_effect: float) -> bool:
    """Whether another contest may settle it: the interval holds 1, while the estimate exceeds the effect that is demanded."""
    return found.low <= 1.0 and found.estimate > 1.0 + min_effect


def contest_disturbed(contests: Sequence[Record]) -> bool:
    """Whether more than half of the rounds of a workload were dirty when no repeat was left, and others were there to make them so.

    A round is dirty on a CPU when threads had to wait for a core; a program whose own threads get in each other's way has such rounds
    alone, too. On a GPU it is dirty when others computed there meanwhile; what they do on the CPU does not count, nor do lower clocks,
    which a kernel can bring about itself. A GPU that was busy before any of ours ran is disturbed as a whole.
    """
    dirty: dict[str, int] = {}
    kept: dict[str, int] = {}
    results = [Contest.model_validate(record.payload).result for record in contests]
    for found in (workload for result in results for workload in result.workloads):
        dirty[found.workload] = dirty.get(found.workload, 0) + found.dirty
        kept[found.workload] = kept.get(found.workload, 0) + len(found.rounds)
    gpus = [result.telemetry.gpu for result in results if result.telemetry.gpu is not None]
    if any((gpu.idle_share or 0) >= IDLE_SHARE for gpu in gpus):
        return True
    taken = max((result.telemetry.foreign_cpu_fraction * result.telemetry.cores for result in results), default=0.0)
    others = any(gpu.foreign_busy for gpu in gpus) if gpus else taken > COMPANY
    return others and any(2 * count > kept[workload] for workload, count in dirty.items())


def confirmed_on_device(contests: Sequence[Record], objective: Objective, confidence: float, min_effect: float) -> Interval | None:
    """Incumbent / candidate over the rounds of all `contests` by the device's own events, where launches dilute the wall clock's.

    The events are read in the candidate's own process, so that they only say how large a gain is that the clock outside bears out. None
    where there are no such events; where the candidate's wall time exceeds its device time by no more than `min_effect`, since then
    launches explain nothing; and where the seconds that the wall clock saw saved are surely fewer than those that the events say (the
    candidate spends more outside its events than the incumbent does), or not surely `BORNE_OUT` of them. Then the wall clock decides alone.
    """
    rounds = _on_device(contests)
    if not rounds:
        return None
    wall, device = (sum(r.weight * float(np.median(r.candidate)) for r in seen) for seen in zip(*rounds, strict=True))
    if wall <= (1.0 + min_effect) * device:
        return None
    at = confirming(confidence)
    if _borne_out(rounds, 1.0, objective, at).high < 1.0 or _borne_out(rounds, BORNE_OUT, objective, at).low <= 1.0:
        return None
    return speedup_interval([device for _, device in rounds], objective, at)


def contradicted(contests: Sequence[Record], objective: Objective, confidence: float) -> bool:
    """Whether the wall clock surely saw less than `BORNE_OUT` of the seconds saved that the candidate's own process reported."""
    rounds = _on_device(contests)
    return bool(rounds) and _borne_out(rounds, BORNE_OUT, objective, confirming(confidence)).high < 1.0


def _on_device(contests: Sequence[Record]) -> tuple[tuple[Paired, Paired], ...]:
    """(by the wall clock, by the device's events) of each workload, pooled over `contests`; empty where some has no events."""
    loaded = [Contest.model_validate(record.payload) for record in contests]
    found = [(contest.weights[w.workload], w) for contest in loaded for w in contest.result.workloads]
    if not all(w.device_rounds and min(r[name] for r in w.device_rounds for name in ("incumbent", "candidate")) > 0 for _, w in found):
        return ()

    def pairs(weight: float, w: ContestOfWorkload, rounds: Sequence[Mapping[str, float]]) -> Paired:
        return Paired(w.workload, weight, tuple(r["incumbent"] for r in rounds), tuple(r["candidate"] for r in rounds))

    wall = pool([pairs(weight, w, w.rounds) for weight, w in found])
    return tuple(zip(wall, pool([pairs(weight, w, w.device_rounds) for weight, w in found]), strict=True))


def _borne_out(rounds: Sequence[tuple[Paired, Paired]], share: float, objective: Objective, confidence: float) -> Interval:
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
    """Why it is not known what the candidate executed on its device in `contests`; None where it was looked at, or nothing is launched."""
    said = [name for record in contests for name in Contest.model_validate(record.payload).result.executed.get("candidate", ())]
    return next((name.removeprefix(UNSEEN) for name in said if name.startswith(UNSEEN)), None)


def contest_device_s(record: Record) -> dict[str, float]:
    """Contestant -> weighted sum of its medians by the device's own events; empty where there are none."""
    contest = Contest.model_validate(record.payload)
    seen = [(contest.weights[w.workload], w.device_rounds) for w in contest.result.workloads if w.device_rounds]
    names = seen[0][1][0] if seen else ()
    return {name: sum(weight * float(np.median([r[name] for r in rounds])) for weight, rounds in seen) for name in names}


def contest_seconds(record: Record) -> dict[str, dict[str, float]]:
    """Workload -> contestant -> median seconds a call."""
    contest = Contest.model_validate(record.payload)
    return {
        w.workload: {name: float(np.median([r[name] for r in w.rounds])) for name in (w.rounds[0] if w.rounds else ())}
        for w in contest.result.workloads
    }


def cases(trial: Trial | None, records: Records) -> tuple[CaseResult, ...]:
    """The cases of the correctness record that a trial names; none when it came less far."""
    found = [records.get(identity) for identity in (trial.records if trial else ())]
    checked = next((record for record in found if record.kind == "correctness"), None)
    return Correctness.model_validate(checked.payload).cases if checked else ()


def contest_pairs(record: Record, slow: str, fast: str) -> tuple[Paired, ...]:
    """The rounds of two contestants by workload, `slow` as incumbent and `fast` as candidate."""
    contest = Contest.model_validate(record.payload)
    return tuple(
        Paired(w.workload, contest.weights[w.workload], tuple(r[slow] for r in w.rounds), tuple(r[fast] for r in w.rounds))
        for w in contest.result.workloads
    )


def _timings(records: Sequence[Record]) -> tuple[Timing, ...]:
    return tuple(Timing.model_validate(record.payload) for record in records)


def _sample(workload: str, weight: float, pairs: Sequence[TimedPair]) -> Paired:
    return Paired(workload, weight, tuple(p.incumbent_s for p in pairs), tuple(p.candidate_s for p in pairs))
