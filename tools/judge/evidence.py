"""What the judge's records hold, and what they amount to (pure): the gate weighs a trial as `recomputed` from the
records it cites."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from tools.artifacts import Artifact, Failed, Interval, Measurement, Passed, Record, Trial, Unmeasured
from tools.errors import HarnessError, StorageError
from tools.executors.protocol import (
    CaseResult,
    ContestRequest,
    ContestResult,
    CorrectnessRequest,
    CorrectnessResult,
    TimedPair,
    TimingOfWorkload,
    TimingRequest,
    TimingResult,
)
from tools.gate.statistics import Objective, Paired, pool, speedup_interval
from tools.gate.statistics import noise_floor as floor_of
from tools.store.records import Records


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
    """sha256 of what the build left beside the library for its later use, if anything: a cache, whose blob nothing
    depends on."""
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


# ---------------------------------------------------------------- answers that cannot be: the harness's fault


def check_correctness(request: CorrectnessRequest, result: CorrectnessResult) -> None:
    """HarnessError unless the cases are those asked, in order, and cut short only behind a failure."""
    answered = [r.case for r in result.cases]
    if answered != list(request.cases[: len(answered)]) or not answered:
        raise HarnessError("the harness answered other cases than were asked")
    if len(answered) < len(request.cases) and result.cases[-1].status != "failed":
        raise HarnessError(
            f"the harness answered {len(answered)} of {len(request.cases)} cases and none of them failed"
        )
    for found in result.cases:
        # A wrong kernel may well put out NaN; only a passed case owes finite figures.
        sane = found.max_error is not None and found.tolerance is not None and 0 <= found.max_error <= found.tolerance
        if found.status == "passed" and not sane:
            raise HarnessError(
                f"the harness passed {found.case.workload} with error {found.max_error} over tolerance "
                f"{found.tolerance}"
            )


def check_timing(request: TimingRequest, result: TimingResult) -> None:
    """HarnessError unless each workload is answered with as many possible times as were asked, or with the
    candidate's fault."""
    faulty = [w for w in result.workloads if w.problem is not None]
    for found in faulty:
        if found.culprit != "candidate":
            raise HarnessError(
                f"timing {found.workload} failed on the {found.culprit or 'harness'}'s side: {found.problem}"
            )
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
    """The results without anything from which the dims or seeds of hidden workloads could be read: no number stays
    in their reasons."""
    return tuple(
        r.model_copy(
            update={
                "case": r.case.model_copy(update={"dims": {}, "spares": (), "seed": 0}),
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
    reason = (
        f"It does not compile: {complaint.strip()}." if complaint else f"It does not compile with {build.compiler}."
    )
    return Failed(candidate=build.candidate, stage="build", reason=reason, log=build.log, records=(record.id,))


def correctness_failure(record: Record, before: tuple[str, ...] = ()) -> Failed | None:
    """None when every case that counts was passed; `before` are the records of earlier stages."""
    checked = Correctness.model_validate(record.payload)
    wrong = [r for r in checked.cases if r.status == "failed"]
    if not wrong:
        return None
    log = "\n".join(_line(r) for r in checked.cases)
    return Failed(
        candidate=checked.candidate,
        stage="correctness",
        reason=f"{_why(wrong[0])}.",
        log=log,
        records=(*before, record.id),
    )


def not_its_own(record: Record) -> str | None:
    """What the kernel of a `correctness` record executed that is not its own, completing "the kernel …"; None
    without such."""
    cases = Correctness.model_validate(record.payload).cases
    return next((result.reason for result in cases if result.policy), None)


def _why(result: CaseResult) -> str:
    reason = result.reason.rstrip(".") or f"{result.case.workload}: the outputs differ from the reference"
    over = result.max_error is not None and result.tolerance is not None and result.max_error > result.tolerance
    relative = "relative to |reference| + rms of its row"
    return f"{reason} (error {result.max_error:.2e} {relative}, tolerance {result.tolerance:.2e})" if over else reason


def _line(result: CaseResult) -> str:
    error = "" if result.max_error is None else f", error {result.max_error:.2e}"
    tolerance = "" if result.tolerance is None else f", tolerance {result.tolerance:.2e}"
    reason = f": {result.reason}" if result.reason else ""
    return (
        f"{result.case.workload} {result.case.dims or ''} {result.case.distribution}: "
        f"{result.status}{error}{tolerance}{reason}"
    )


def timing_failure(record: Record, before: tuple[str, ...] = ()) -> Failed | None:
    """None when all timed calls of the candidate were right."""
    timing = Timing.model_validate(record.payload)
    problem = next((w for w in timing.result.workloads if w.problem is not None), None)
    if problem is None:
        return None
    reason = f"While timed on {problem.workload}: {(problem.problem or '').rstrip('.')}."
    return Failed(candidate=timing.candidate, stage="timing", reason=reason, records=(*before, record.id))


def passed(
    build: Record, correctness: Record, timings: Sequence[Record], objective: Objective, confidence: float
) -> Passed:
    """The trial of a candidate that compiled, was right and was timed in `timings`."""
    checked = Correctness.model_validate(correctness.payload)
    errors = {
        r.case.workload: r.max_error
        for r in checked.cases
        if r.case.distribution == "as_given" and r.status == "passed"
    }
    return Passed(
        candidate=checked.candidate,
        measurements=measurements(timings, errors, confidence),
        speedup=speedup(timings, objective, confidence),
        records=(build.id, correctness.id, *(r.id for r in timings)),
    )


def trial_of(
    cited: Sequence[Record], objective: Objective, confidence: float, incumbent: str | None = None
) -> Passed | Failed:
    """The trial that build, correctness and timing records amount to, in the judge's order; records of other kinds are
    passed over.

    StorageError when they are no trial's: one is lacking, or they are of several candidates, batches or incumbents
    (`incumbent`: the one that the timings must be against).
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


def recomputed(
    trial: Trial, records: Mapping[str, Record], objective: Objective, incumbent: str | None = None
) -> Trial:
    """`trial` made again from the records that it cites (`records`, by id), at the confidence that it claims.

    Unmeasured, with the contradiction, where they do not amount to it. What rests on no record (a refusal by the
    screen, a machine's failure) is returned as it is.
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
    return Unmeasured(
        candidate=trial.candidate, reason=f"its trial does not follow from its records: {reason}", records=trial.records
    )


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
    return (
        f"{trial.speedup.estimate:.4g}x for {trial.candidate}"
        if isinstance(trial, Passed)
        else f"failed at {trial.stage}"
    )


def speedup(timings: Sequence[Record], objective: Objective, confidence: float) -> Interval:
    """Incumbent / candidate of the objective over all batches."""
    return speedup_interval(paired(timings), objective, confidence)


def paired(timings: Sequence[Record]) -> tuple[Paired, ...]:
    """The pairs of all batches by workload."""
    return pool(
        [_sample(w.workload, t.weights[w.workload], w.pairs) for t in _timings(timings) for w in t.result.workloads]
    )


def measurements(
    timings: Sequence[Record], errors: Mapping[str, float | None], confidence: float
) -> tuple[Measurement, ...]:
    """One measurement a workload, each with an interval of its own."""
    loaded = _timings(timings)
    warm = pool(
        [
            _sample(w.workload, t.weights[w.workload], w.warm_pairs)
            for t in loaded
            for w in t.result.workloads
            if w.warm_pairs
        ]
    )
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
    return median(known) if known else None


def noise_floor(calibration: Record, objective: Objective, confidence: float = 0.95) -> float:
    """Relative: how far the A/A pairs of a `calibration` record let the objective stray from 1."""
    return floor_of(paired((calibration,)), objective, confidence)


def seconds(timing: Record) -> dict[str, float]:
    """Workload -> the incumbent's median seconds a call, from a `timing` or `calibration` record."""
    return {sample.workload: sample.incumbent_s for sample in paired((timing,))}


def others(records: Sequence[Record]) -> float:
    """The largest share of the machine's CPU time that other processes took during one of the `timing` records; 0
    where none tells."""
    seen = _timings([r for r in records if r.kind == "timing"])
    return max((t.result.telemetry.foreign_cpu_fraction or 0.0 for t in seen), default=0.0)


def cases(trial: Trial | None, records: Records) -> tuple[CaseResult, ...]:
    """The cases of the correctness record that a trial names; none when it came less far."""
    found = [records.get(identity) for identity in (trial.records if trial else ())]
    checked = next((record for record in found if record.kind == "correctness"), None)
    return Correctness.model_validate(checked.payload).cases if checked else ()


def _timings(records: Sequence[Record]) -> tuple[Timing, ...]:
    return tuple(Timing.model_validate(record.payload) for record in records)


def _sample(workload: str, weight: float, pairs: Sequence[TimedPair]) -> Paired:
    return Paired(workload, weight, tuple(p.incumbent_s for p in pairs), tuple(p.candidate_s for p in pairs))
