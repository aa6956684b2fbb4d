"""Payloads of the judge's records, checks of the harness's answers, and the trial that records amount to. Pure
functions: the gate and `verify` recompute a trial from the records that it cites."""

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
from tools.gate.statistics import Objective, PairedTimes, pool_by_workload, speedup_interval
from tools.gate.statistics import noise_floor as noise_floor_of_pairs
from tools.store.records import Records

LEAST_DEPARTURE = 0.05
"""Relative difference between the gains on seen and on new inputs up to which they count as equal."""


class Toolset(Artifact):
    """Payload of a `toolchain` record: the compiler and flags that all kernels of a run are built with."""

    compiler: str
    """Name and version."""
    flags: tuple[str, ...]
    """As resolved on the machine with the device."""

    @property
    def version(self) -> str:
        """The compiler's version."""
        return re.sub(r"^(zig )?\S+ ", "", self.compiler)

    @property
    def compiler_name(self) -> str:
        """Name and version, without the name if the version begins with it."""
        name = self.compiler.removesuffix(self.version).strip()
        return self.version if self.version.startswith(name) else self.compiler

    def __str__(self) -> str:
        return f"{self.compiler} with {' '.join(self.flags) or 'no flags'}"


class Build(Artifact):
    """Payload of a `build` record."""

    candidate: str
    ok: bool
    library: str | None
    """sha256 of the library's blob; None when it does not compile."""
    compiled: str | None = None
    """sha256 of the compile cache that the build left for later use, if any; no result depends on that blob."""
    log: str
    """The compiler's output, trimmed."""
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
    new_inputs: bool = False
    """Whether all pairs of the batch have new inputs, and not only a share."""
    result: TimingResult


# ---------------------------------------------------------------- answers that cannot be: the harness's fault


def check_correctness(request: CorrectnessRequest, result: CorrectnessResult) -> None:
    """HarnessError unless the answer holds the requested cases in their order; only a failed case may end it early."""
    answered = [r.case for r in result.cases]
    if answered != list(request.cases[: len(answered)]) or not answered:
        raise HarnessError("the harness answered cases that were not requested")
    if len(answered) < len(request.cases) and result.cases[-1].status != "failed":
        raise HarnessError(
            f"the harness answered only {len(answered)} of {len(request.cases)} cases, although none of them failed"
        )
    for case_result in result.cases:
        # A wrong kernel may put out NaN; only a passed case must have finite figures.
        error, tolerance = case_result.max_error, case_result.tolerance
        within_tolerance = error is not None and tolerance is not None and 0 <= error <= tolerance
        if case_result.status == "passed" and not within_tolerance:
            raise HarnessError(
                f"the harness passed {case_result.case.workload} with error {error} and tolerance {tolerance}"
            )


def check_timing(request: TimingRequest, result: TimingResult) -> None:
    """HarnessError unless each workload has as many positive times as were requested, or a fault of the candidate."""
    faulty = [w for w in result.workloads if w.problem is not None]
    for timed in faulty:
        if timed.culprit != "candidate":
            raise HarnessError(
                f"timing {timed.workload} failed on the {timed.culprit or 'harness'}'s side: {timed.problem}"
            )
    if faulty:
        return
    if [w.workload for w in result.workloads] != [w.name for w in request.workloads]:
        raise HarnessError("the harness timed workloads that were not requested")
    for requested, timed in zip(request.workloads, result.workloads, strict=True):
        if len(timed.pairs) < requested.pairs:
            raise HarnessError(f"the harness timed {len(timed.pairs)} of {requested.pairs} pairs of {requested.name}")
        pairs = (*timed.pairs, *timed.warm_pairs)
        _require_positive_times(requested.name, [t for pair in pairs for t in (pair.incumbent_s, pair.candidate_s)])


def check_contest(request: ContestRequest, result: ContestResult) -> None:
    """HarnessError unless each workload has all its rounds with every available contestant, or the candidate is at
    fault."""
    if result.problem is not None:
        if result.culprit != "candidate":
            raise HarnessError(f"the contest failed on the {result.culprit or 'harness'}'s side: {result.problem}")
        return
    kernels = {c.name for c in request.contestants if c.kind == "library"}
    unavailable = kernels & result.unavailable.keys()
    if unavailable:
        name = min(unavailable)
        raise HarnessError(f"the contest could not run {name}: {result.unavailable[name]}")
    if [w.workload for w in result.workloads] != [w.name for w in request.workloads]:
        raise HarnessError("the contest timed workloads that were not requested")
    present = {c.name for c in request.contestants} - result.unavailable.keys()
    for requested, timed in zip(request.workloads, result.workloads, strict=True):
        if len(timed.rounds) < requested.pairs or any(round_.keys() != present for round_ in timed.rounds):
            raise HarnessError(f"the contest left rounds of {requested.name} incomplete")
        rounds = (*timed.rounds, *timed.graph_rounds)
        _require_positive_times(requested.name, [t for round_ in rounds for t in round_.values()])


def _require_positive_times(workload: str, seconds: Sequence[float]) -> None:
    if not all(0 < t < float("inf") for t in seconds):
        raise HarnessError(f"the harness gave {workload} a time that is not a positive number of seconds")


def redact_hidden_cases(results: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    """The results with the dims and seeds of hidden workloads removed, and every number in their reasons replaced by
    "#"."""
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
    """The failed trial of a build record; None where the candidate compiled."""
    build = Build.model_validate(record.payload)
    if build.ok:
        return None
    complaint = next((line for line in build.log.splitlines() if "error" in line or "undefined" in line), "")
    reason = (
        f"It does not compile: {complaint.strip()}." if complaint else f"It does not compile with {build.compiler}."
    )
    return Failed(candidate=build.candidate, stage="build", reason=reason, log=build.log, records=(record.id,))


def correctness_failure(record: Record, before: tuple[str, ...] = ()) -> Failed | None:
    """The failed trial of a correctness record, with ids `before` of the records of earlier stages; None where no case
    failed."""
    checked = Correctness.model_validate(record.payload)
    wrong = [r for r in checked.cases if r.status == "failed"]
    if not wrong:
        return None
    log = "\n".join(_case_line(r) for r in checked.cases)
    return Failed(
        candidate=checked.candidate,
        stage="correctness",
        reason=f"{_failure_sentence(wrong[0])}.",
        log=log,
        records=(*before, record.id),
    )


def policy_violation(record: Record) -> str | None:
    """What the kernel of a `correctness` record executed that is not its own, as a clause that completes "the kernel
    …"; None where there is no such thing."""
    cases = Correctness.model_validate(record.payload).cases
    return next((result.reason for result in cases if result.policy), None)


def _failure_sentence(result: CaseResult) -> str:
    reason = result.reason.rstrip(".") or f"{result.case.workload}: the outputs differ from the reference"
    over = result.max_error is not None and result.tolerance is not None and result.max_error > result.tolerance
    relative = "relative to |reference| + rms of its row"
    return f"{reason} (error {result.max_error:.2e} {relative}, tolerance {result.tolerance:.2e})" if over else reason


def _case_line(result: CaseResult) -> str:
    error = "" if result.max_error is None else f", error {result.max_error:.2e}"
    tolerance = "" if result.tolerance is None else f", tolerance {result.tolerance:.2e}"
    reason = f": {result.reason}" if result.reason else ""
    return (
        f"{result.case.workload} {result.case.dims or ''} {result.case.distribution}: "
        f"{result.status}{error}{tolerance}{reason}"
    )


def timing_failure(record: Record, before: tuple[str, ...] = ()) -> Failed | None:
    """The failed trial of a timing record, with ids `before` of the records of earlier stages; None where all timed
    calls of the candidate were right."""
    timing = Timing.model_validate(record.payload)
    problem = next((w for w in timing.result.workloads if w.problem is not None), None)
    if problem is None:
        return None
    reason = f"While timed on {problem.workload}: {(problem.problem or '').rstrip('.')}."
    return Failed(candidate=timing.candidate, stage="timing", reason=reason, records=(*before, record.id))


def passed_trial(
    build: Record, correctness: Record, timings: Sequence[Record], objective: Objective, confidence: float
) -> Passed:
    """The trial of a candidate that compiled, is correct and was timed in `timings`."""
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


def trial_from_records(
    cited: Sequence[Record], objective: Objective, confidence: float, incumbent: str | None = None
) -> Passed | Failed:
    """The trial that build, correctness and timing records amount to, in the judge's order; records of other kinds are
    ignored.

    StorageError when the records are not those of one trial: one is missing, or they belong to several candidates,
    batches or incumbents (`incumbent`: the one that the timings must be against).
    """
    build, checked = _only_record_of_kind(cited, "build"), _only_record_of_kind(cited, "correctness")
    timings = [record for record in cited if record.kind == "timing"]
    if build is None:
        raise StorageError("no build record is cited")
    failed = build_failure(build)
    if failed is not None:
        return failed
    if checked is None:
        raise StorageError("no correctness record is cited")
    loaded = _timing_payloads(timings)
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
    return passed_trial(build, checked, timings, objective, confidence)


def recompute_trial(
    trial: Trial, records: Mapping[str, Record], objective: Objective, incumbent: str | None = None
) -> Trial:
    """`trial` computed again from the records that it cites (`records`, by id), at the confidence that it claims.

    Unmeasured, with the contradiction as its reason, where the records do not amount to `trial`. A trial that rests on
    no record (refused by the screen, or not measured) is returned unchanged.
    """
    if isinstance(trial, Unmeasured) or (isinstance(trial, Failed) and trial.stage == "screen"):
        return trial
    confidence = trial.speedup.confidence if isinstance(trial, Passed) else 0.95
    try:
        recomputed = trial_from_records(
            [records[identity] for identity in trial.records], objective, confidence, incumbent
        )
    except KeyError as error:
        reason = f"record {error.args[0]} is missing"
    except (StorageError, ValueError) as error:
        reason = str(error).splitlines()[0]
    else:
        if _equal_up_to_rounding(recomputed.model_dump(), trial.model_dump()):
            return recomputed
        reason = f"the trial says {_trial_summary(trial)}, the records say {_trial_summary(recomputed)}"
    return Unmeasured(
        candidate=trial.candidate, reason=f"its trial does not follow from its records: {reason}", records=trial.records
    )


def _only_record_of_kind(records: Sequence[Record], kind: str) -> Record | None:
    matches = [record for record in records if record.kind == kind]
    if len(matches) > 1:
        raise StorageError(f"{len(matches)} {kind} records are cited where there is one")
    return matches[0] if matches else None


def _equal_up_to_rounding(left: object, right: object) -> bool:
    """Whether two values are equal, floats up to 1e-9 relative: the last digits of a logarithm differ between
    machines."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal_up_to_rounding(left[name], right[name]) for name in left)
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(_equal_up_to_rounding, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return left == right


def _trial_summary(trial: Passed | Failed) -> str:
    return (
        f"{trial.speedup.estimate:.4g}x for {trial.candidate}"
        if isinstance(trial, Passed)
        else f"failed at {trial.stage}"
    )


def counted_timings(timings: Sequence[Record]) -> Sequence[Record]:
    """The batches that a speed-up is computed from: those with new inputs alone where there are any, else all."""
    return [record for record in timings if Timing.model_validate(record.payload).new_inputs] or timings


def gain_needs_seen_inputs(timings: Sequence[Record]) -> bool:
    """Whether a workload's gain is smaller on new inputs than on inputs that the kernels have seen: each pair with new
    inputs shows less than the lower quartile of the others, by more than `LEAST_DEPARTURE`.

    The incumbent is in both, so that what the machine remembers (branches, pages) counts only as far as it helps the
    candidate more. An honest kernel may depart; it is then timed on new inputs alone.
    """
    pairs: dict[str, list[TimedPair]] = {}
    for timing in _timing_payloads(timings):
        for workload in timing.result.workloads:
            pairs.setdefault(workload.workload, []).extend(workload.pairs)
    return any(_departs(timed) for timed in pairs.values())


def _departs(pairs: Sequence[TimedPair]) -> bool:
    new, seen = (sorted(p.incumbent_s / p.candidate_s for p in pairs if p.new_inputs is kind) for kind in (True, False))
    return bool(new and seen) and new[-1] * (1.0 + LEAST_DEPARTURE) < seen[len(seen) // 4]


def speedup(timings: Sequence[Record], objective: Objective, confidence: float) -> Interval:
    """Speed-up (incumbent / candidate) of the objective over all counted batches, with its interval."""
    return speedup_interval(paired_times(timings), objective, confidence)


def paired_times(timings: Sequence[Record]) -> tuple[PairedTimes, ...]:
    """The paired times of all counted batches, one entry for each workload."""
    return pool_by_workload(
        [
            _paired_times_of(w.workload, t.weights[w.workload], w.pairs)
            for t in _timing_payloads(counted_timings(timings))
            for w in t.result.workloads
        ]
    )


def measurements(
    timings: Sequence[Record], errors: Mapping[str, float | None], confidence: float
) -> tuple[Measurement, ...]:
    """One measurement for each workload, each with an interval of its own; `errors` holds the largest error of each
    workload's correctness case."""
    loaded = _timing_payloads(timings)
    warm = pool_by_workload(
        [
            _paired_times_of(w.workload, t.weights[w.workload], w.warm_pairs)
            for t in loaded
            for w in t.result.workloads
            if w.warm_pairs
        ]
    )
    warm_of = {sample.workload: sample for sample in warm}
    timings_by_workload: dict[str, list[TimingOfWorkload]] = {}
    for timing in loaded:
        for workload in timing.result.workloads:
            timings_by_workload.setdefault(workload.workload, []).append(workload)
    measured = []
    for sample in paired_times(timings):
        known_errors = [errors.get(sample.workload), *(w.max_error for w in timings_by_workload[sample.workload])]
        warm_sample = warm_of.get(sample.workload)
        measured.append(
            Measurement(
                workload=sample.workload,
                weight=sample.weight,
                incumbent_s=sample.incumbent_s,
                candidate_s=sample.candidate_s,
                pairs=len(sample.incumbent),
                speedup=speedup_interval((sample,), confidence=confidence),
                warm_candidate_s=warm_sample.candidate_s if warm_sample else None,
                warm_incumbent_s=warm_sample.incumbent_s if warm_sample else None,
                max_error=max((e for e in known_errors if e is not None), default=None),
                launched_incumbent_s=_median_of_known(
                    w.launched_incumbent_s for w in timings_by_workload[sample.workload]
                ),
                launched_candidate_s=_median_of_known(
                    w.launched_candidate_s for w in timings_by_workload[sample.workload]
                ),
            )
        )
    return tuple(measured)


def _median_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def noise_floor(calibration: Record, objective: Objective, confidence: float = 0.95) -> float:
    """Relative distance from 1 that the A/A pairs of a `calibration` record allow the objective (0.03 = 3 %)."""
    return noise_floor_of_pairs(paired_times((calibration,)), objective, confidence)


def incumbent_seconds(timing: Record) -> dict[str, float]:
    """Workload -> the incumbent's median seconds per call, from a `timing` or `calibration` record."""
    return {sample.workload: sample.incumbent_s for sample in paired_times((timing,))}


def largest_share_of_other_processes(records: Sequence[Record]) -> float:
    """The largest share of the machine's CPU time that other processes took during one of the `timing` records; 0
    where it is not known."""
    timings = _timing_payloads([r for r in records if r.kind == "timing"])
    return max((t.result.telemetry.foreign_cpu_fraction or 0.0 for t in timings), default=0.0)


def correctness_cases(trial: Trial | None, records: Records) -> tuple[CaseResult, ...]:
    """The cases of the correctness record that `trial` cites; empty where it cites none."""
    cited = [records.get(identity) for identity in (trial.records if trial else ())]
    checked = next((record for record in cited if record.kind == "correctness"), None)
    return Correctness.model_validate(checked.payload).cases if checked else ()


def _timing_payloads(records: Sequence[Record]) -> tuple[Timing, ...]:
    return tuple(Timing.model_validate(record.payload) for record in records)


def _paired_times_of(workload: str, weight: float, pairs: Sequence[TimedPair]) -> PairedTimes:
    return PairedTimes(workload, weight, tuple(p.incumbent_s for p in pairs), tuple(p.candidate_s for p in pairs))
