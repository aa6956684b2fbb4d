"""Reading records: answers that cannot be, hidden dims, and the trial that records amount to."""

from __future__ import annotations

import pytest

from tools.artifacts import Artifact, Failed, Interval, Passed, Record, Task, Trial, Unmeasured, Workload
from tools.errors import HarnessError, StorageError
from tools.executors.protocol import (
    Case,
    CaseResult,
    Contestant,
    ContestOfWorkload,
    ContestRequest,
    ContestResult,
    CorrectnessRequest,
    CorrectnessResult,
    GpuTelemetry,
    Telemetry,
    TimedPair,
    TimedWorkload,
    TimingOfWorkload,
    TimingRequest,
    TimingResult,
)
from tools.gate import confirmation as contests
from tools.judge import evidence

TASK = Task(name="t", language="cpp", arguments=(), reference="", workloads=(Workload(name="w", dims={"N": 8}),))
CASES = (
    Case(workload="w", dims={"N": 8}, seed=5),
    Case(workload="hidden-1", dims={"N": 77}, seed=123456, hidden=True, required=False),
    Case(workload="w", dims={"N": 8}, seed=6, distribution="scaled", required=False),
)
CORRECTNESS = CorrectnessRequest(task=TASK, libraries={"candidate": "candidate.so"}, cases=CASES)
CALM = Telemetry(load_before=0.0, load_after=0.0, foreign_cpu_fraction=0.0, seconds=1.0)


def result(case: Case, status: str = "passed", **more) -> CaseResult:
    figures = {"max_error": 1e-7, "tolerance": 4e-5} if status == "passed" else {}
    return CaseResult(case=case, status=status, **{**figures, **more})


def record(kind: str, payload: Artifact) -> Record:
    return Record(kind=kind, key=kind, payload=payload.model_dump(mode="json"))


def correctness(*results: CaseResult) -> Record:
    checked = evidence.Correctness(
        candidate="c",
        baseline="b",
        purpose="judge",
        attempt=0,
        cases=evidence.redact_hidden_cases(results),
        hidden={"hidden-1": "0f"},
    )
    return record("correctness", checked)


def timing(*workloads: TimingOfWorkload, batch: int = 0, weights: dict[str, float] | None = None) -> Record:
    found = TimingResult(workloads=workloads, telemetry=CALM)
    weights = weights or {w.workload: 1.0 for w in workloads}
    return record(
        "timing", evidence.Timing(candidate="c", incumbent="i", batch=batch, attempt=0, weights=weights, result=found)
    )


def pairs(incumbent: float, candidate: float, count: int = 20) -> tuple[TimedPair, ...]:
    # A millionth of spread, so that the pairs can be told apart.
    return tuple(
        TimedPair(incumbent_s=incumbent * (1 + i * 1e-6), candidate_s=candidate, candidate_first=bool(i % 2))
        for i in range(count)
    )


def of(workload: str, incumbent: float, candidate: float, count: int = 20, **more) -> TimingOfWorkload:
    return TimingOfWorkload(workload=workload, pairs=pairs(incumbent, candidate, count), **more)


def test_correctness_that_fits_what_was_asked_is_taken():
    evidence.check_correctness(CORRECTNESS, CorrectnessResult(cases=tuple(result(c) for c in CASES)))
    evidence.check_correctness(CORRECTNESS, CorrectnessResult(cases=(result(CASES[0], "failed", reason="crashed"),)))


@pytest.mark.parametrize(
    "answered",
    [
        (),
        (result(CASES[0]),),
        tuple(result(c) for c in (*CASES, CASES[0])),
        (result(CASES[0], max_error=1.0), result(CASES[1]), result(CASES[2])),
        (result(CASES[0], max_error=None), result(CASES[1]), result(CASES[2])),
        (result(CASES[0], max_error=float("nan")), result(CASES[1]), result(CASES[2])),
    ],
)
def test_correctness_that_cannot_be_is_the_harness_fault(answered: tuple[CaseResult, ...]):
    with pytest.raises(HarnessError):
        evidence.check_correctness(CORRECTNESS, CorrectnessResult(cases=answered))


def test_hidden_dims_and_seeds_stand_nowhere_in_the_record():
    wrong = {"reason": "hidden workload: element (76,) is wrong", "max_error": 0.3, "tolerance": 4e-5}
    kept = correctness(result(CASES[0]), result(CASES[1], "failed", **wrong))
    assert not any(secret in kept.model_dump_json() for secret in ("77", "76", "123456"))
    failed = evidence.correctness_failure(kept, ("b1",))
    assert failed is not None and failed.records == ("b1", kept.id)
    assert failed.reason.startswith("hidden workload: element (#) is wrong (error 3.00e-01 ")
    assert evidence.correctness_failure(correctness(result(CASES[0]), result(CASES[1], "dropped"))) is None


TIMED = TimedWorkload(name="w", dims={"N": 8}, weight=1.0, seed=1, pairs=20)
TIMING = TimingRequest(task=TASK, libraries={}, workloads=(TIMED,), order_seed=1)
CRASHED = [
    TimingOfWorkload(workload="w", pairs=(), problem="crashed", culprit=culprit) for culprit in ("incumbent", None)
]


@pytest.mark.parametrize(
    "workload", [of("other", 2, 1), of("w", 2, 1, 19), of("w", 2, 0), of("w", 2, float("nan")), *CRASHED]
)
def test_timings_that_cannot_be_are_the_harness_fault(workload: TimingOfWorkload):
    with pytest.raises(HarnessError):
        evidence.check_timing(TIMING, TimingResult(workloads=(workload,), telemetry=CALM))


def test_a_candidate_that_fails_while_timed_has_failed():
    wrong = TimingOfWorkload(workload="w", pairs=(), problem="output of call 7 was wrong", culprit="candidate")
    evidence.check_timing(TIMING, TimingResult(workloads=(wrong,), telemetry=CALM))
    failed = evidence.timing_failure(timing(wrong), ("b1", "c1"))
    assert failed is not None and (failed.stage, failed.reason) == (
        "timing",
        "While timed on w: output of call 7 was wrong.",
    )
    assert evidence.timing_failure(timing(of("w", 2.0, 1.0))) is None


def test_passed_pools_the_batches_and_keeps_every_record():
    build = built()
    checked = correctness(result(CASES[0], max_error=2e-7), result(CASES[1]), result(CASES[2], max_error=9e-6))
    weights = {"w": 3.0, "v": 1.0}
    once = of("w", 4e-3, 2e-3, warm_pairs=pairs(3e-3, 1e-3, 6), max_error=1e-6)
    first = timing(once, of("v", 1e-3, 1e-3), weights=weights)
    second = timing(of("w", 4e-3, 2e-3), of("v", 1e-3, 1e-3, max_error=5e-8), batch=1, weights=weights)
    trial = evidence.passed_trial(build, checked, (first, second), "total_time", 0.99)
    assert trial.records == (build.id, checked.id, first.id, second.id)
    assert trial.speedup.estimate == pytest.approx(13 / 7, rel=1e-4)
    assert trial.speedup.confidence == 0.99
    w, v = trial.measurements
    assert (w.workload, w.weight, w.pairs, w.candidate_s, w.max_error) == ("w", 3.0, 40, 2e-3, 1e-6)
    assert w.speedup.estimate == pytest.approx(2.0, rel=1e-4)
    assert (w.warm_candidate_s, v.warm_candidate_s, v.max_error) == (1e-3, None, 5e-8)


def built(candidate: str = "c", ok: bool = True, log: str = "x") -> Record:
    library = "l" if ok else None
    made = evidence.Build(
        candidate=candidate, ok=ok, library=library, log=log, log_blob="", argv=(), compiler="g++", seconds=0.1
    )
    return record("build", made)


def good() -> tuple[Passed, dict[str, Record]]:
    """A trial of two batches and the records that it cites."""
    batches = [timing(of("w", 4e-3, 2e-3 + n * 1e-5), batch=n) for n in range(2)]
    cited = (built(), correctness(*(result(c) for c in CASES)), *batches)
    return evidence.passed_trial(cited[0], cited[1], batches, "total_time", 0.99), {r.id: r for r in cited}


def with_speedup(trial: Passed, **ends: float) -> Passed:
    return trial.model_copy(update={"speedup": trial.speedup.model_copy(update=ends)})


def test_a_trial_follows_from_its_records():
    trial, records = good()
    stored = Passed.model_validate_json(trial.model_dump_json())
    assert evidence.recompute_trial(stored, records, "total_time", "i") == trial
    # What another machine's logarithm does to the last digit is no contradiction, and what counts is what is computed
    # here.
    elsewhere = with_speedup(trial, estimate=trial.speedup.estimate * (1 + 1e-14))
    assert evidence.recompute_trial(elsewhere, records, "total_time") == trial


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (
            lambda t: with_speedup(t, estimate=3.0, low=2.9, high=3.1),
            "the trial says 3x for c, the records say 1.995x for c",
        ),
        (lambda t: with_speedup(t, confidence=0.9999), "the trial says"),
        (lambda t: t.model_copy(update={"candidate": "d"}), "for d, the records say"),
        (lambda t: t.model_copy(update={"records": t.records[1:]}), "no build record"),
        (lambda t: t.model_copy(update={"records": t.records[:2]}), "no timing record"),
        (lambda t: t.model_copy(update={"records": (*t.records[:2], t.records[3])}), "not all batches"),
        (lambda t: t.model_copy(update={"records": (*t.records, "gone")}), "record gone is missing"),
        (
            lambda t: Failed(candidate="c", stage="timing", reason="crashed", records=t.records),
            "the trial says failed at timing",
        ),
    ],
)
def test_a_trial_that_does_not_follow_from_its_records_is_a_machines_failure(forge, said: str):
    trial, records = good()
    answer = evidence.recompute_trial(forge(trial), records, "total_time", "i")
    assert isinstance(answer, Unmeasured) and said in answer.reason


def test_timings_against_another_incumbent_or_of_another_kernel_prove_nothing():
    trial, records = good()
    assert "another incumbent" in getattr(evidence.recompute_trial(trial, records, "total_time", "other"), "reason", "")
    other = built("d")
    mixed = trial.model_copy(update={"records": (other.id, *trial.records[1:])})
    assert "several candidates" in getattr(
        evidence.recompute_trial(mixed, records | {other.id: other}, "total_time"), "reason", ""
    )


def test_failures_follow_from_their_records_too():
    wrong = TimingOfWorkload(workload="w", pairs=(), problem="call 7 was wrong", culprit="candidate")
    build, broken = built(), built(ok=False)
    right, bad = correctness(*(result(c) for c in CASES)), correctness(result(CASES[0], "failed", reason="crashed"))
    timed = timing(wrong, batch=1)
    records = {r.id: r for r in (build, broken, right, bad, timed)}
    stored: list[Trial | None] = [
        evidence.build_failure(broken),
        evidence.correctness_failure(bad, (build.id,)),
        evidence.timing_failure(timed, (build.id, right.id)),
        Failed(candidate="c", stage="screen", reason="refused"),
        Unmeasured(candidate="c", reason="no device"),
    ]
    for trial in stored:
        assert trial is not None
        assert evidence.recompute_trial(trial, records, "total_time", "i") == trial
    passing, cited = good()
    hidden = Failed(candidate="c", stage="correctness", reason="wrong", records=passing.records)
    assert isinstance(evidence.recompute_trial(hidden, cited, "total_time", "i"), Unmeasured)


KERNELS = (
    Contestant(name="incumbent", kind="library", library="incumbent.so"),
    Contestant(name="candidate", kind="library", library="candidate.so"),
    Contestant(name="compile", kind="compile"),
)
CONTEST = ContestRequest(task=TASK, contestants=KERNELS, workloads=TIMING.workloads, order_seed=1)


def rounds(count: int = 20, **seconds: float) -> ContestOfWorkload:
    return ContestOfWorkload(workload="w", rounds=tuple(dict(seconds) for _ in range(count)))


def confirmation(
    *workloads: ContestOfWorkload,
    attempt: int = 0,
    candidate: str = "c",
    weight: float = 1.0,
    executed: tuple[str, ...] = (),
    **told: object,
) -> Record:
    """A confirmation of workload w; `told`: what its telemetry says beside being calm."""
    telemetry = CALM.model_copy(update=told)
    result = ContestResult(
        workloads=workloads, executed={"candidate": executed} if executed else {}, telemetry=telemetry
    )
    named = {"incumbent": "i", "candidate": candidate}
    return record(
        "confirmation", contests.Contest(candidates=named, attempt=attempt, weights={"w": weight}, result=result)
    )


def contest(attempt: int, ratios: list[float], candidate: str = "c") -> Record:
    made = ContestOfWorkload(
        workload="w", rounds=tuple({"incumbent": ratio * 1e-3, "candidate": 1e-3} for ratio in ratios)
    )
    return confirmation(made, attempt=attempt, candidate=candidate)


NOISY = [0.7, 0.7, 1.55, 1.56, 1.57, 1.58, 1.59, 2.1]
CALMER = [1.51, 1.52, 1.53, 1.54, 1.55, 1.56, 1.57, 1.58]


def test_confirmations_are_pooled_and_pay_for_the_second_look():
    first = contests.confirmed_speedup([contest(0, NOISY)], "total_time", 0.95)
    assert first.confidence == pytest.approx(0.975)
    assert first.low == pytest.approx(0.7) and contests.needs_another_contest(first, 0.02, disturbed=False)
    both = contests.confirmed_speedup([contest(0, NOISY), contest(1, CALMER)], "total_time", 0.95)
    assert both.confidence == first.confidence
    assert 1.5 < both.low < both.estimate and not contests.needs_another_contest(both, 0.02, disturbed=False)
    # Hopeless, and settled either way: nothing more is asked.
    for ratios in ([0.8, 0.9, 1.0, 1.0, 1.0, 1.1, 1.1, 1.2], [0.5] * 8, CALMER):
        assert not contests.needs_another_contest(
            contests.confirmed_speedup([contest(0, ratios)], "total_time", 0.95), 0.02, disturbed=False
        )


@pytest.mark.parametrize(
    "series",
    [
        (),
        (contest(1, CALMER),),
        (contest(0, CALMER), contest(0, CALMER)),
        (contest(0, CALMER), contest(1, CALMER, "d")),
        (contest(0, NOISY), contest(1, NOISY), contest(2, CALMER)),
    ],
)
def test_confirmations_that_are_not_one_series_prove_nothing(series: tuple[Record, ...]):
    with pytest.raises(StorageError):
        contests.confirmed_speedup(series, "total_time", 0.95)


def test_beside_others_a_gain_that_they_could_bring_about_is_looked_at_again():
    def found(low: float) -> Interval:
        return Interval(estimate=1.4, low=low, high=1.5, confidence=0.95)

    assert contests.needs_another_contest(found(1.2), 0.02, disturbed=True) and not contests.needs_another_contest(
        found(1.2), 0.02, disturbed=False
    )
    assert not contests.needs_another_contest(found(1.26), 0.02, disturbed=True), "no busy neighbour does that"
    assert not contests.needs_another_contest(
        Interval(estimate=1.01, low=0.9, high=1.1, confidence=0.95), 0.02, disturbed=True
    )


def test_contest_is_disturbed_when_more_than_half_of_its_rounds_are_dirty():
    def kept(dirty: int, taken: float | None = 0.3, stolen: float | None = None):
        found = rounds(incumbent=2e-3, candidate=1e-3).model_copy(update={"dirty": dirty})
        return confirmation(found, foreign_cpu_fraction=taken, stolen_fraction=stolen, cores=2)

    assert not contests.any_disturbed(())
    assert not contests.any_disturbed((kept(10),))
    assert contests.any_disturbed((kept(11),))
    assert not contests.any_disturbed((kept(20), kept(1))), "the repeat alone counts"
    assert contests.any_disturbed((kept(20), kept(11))) and contests.any_disturbed((kept(0), kept(20)))
    assert not contests.any_disturbed((kept(20, taken=0.01),)), "its own threads were in each other's way"
    assert contests.any_disturbed((kept(20, taken=None),)), "nobody knows whose doing that was"
    assert not contests.any_disturbed((kept(0, taken=None),))
    assert contests.any_disturbed((kept(0, stolen=0.2),)) and not contests.any_disturbed((kept(0, stolen=0.05),))


def test_after_a_disturbed_confirmation_the_repeat_alone_counts():
    def kept(attempt: int, candidate: float, dirty: int) -> Record:
        found = rounds(incumbent=2e-3, candidate=candidate).model_copy(update={"dirty": dirty})
        return confirmation(found, attempt=attempt, foreign_cpu_fraction=0.3, cores=2)

    def estimate(*series: Record) -> float:
        return contests.confirmed_speedup(series, "total_time", 0.95).estimate

    repeat = kept(1, 1.9e-3, 0)
    assert estimate(kept(0, 1e-3, 20), repeat) == pytest.approx(2.0 / 1.9), "what others did to the first is no noise"
    assert estimate(kept(0, 1e-3, 0), repeat) > 1.2, "noise is pooled"
    assert estimate(kept(0, 1e-3, 20)) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "found",
    [
        {"workloads": (rounds(incumbent=2e-3, candidate=1e-3),)},
        {"workloads": (rounds(3, incumbent=2e-3, candidate=1e-3, compile=1e-3),)},
        {"workloads": (rounds(incumbent=2e-3, candidate=-1e-3, compile=1e-3),)},
        {"workloads": (rounds(incumbent=2e-3, compile=1e-3),), "unavailable": {"candidate": "crashed"}},
        {"workloads": ()},
        {"workloads": (), "problem": "crashed", "culprit": "incumbent"},
    ],
)
def test_contests_that_cannot_be_are_the_harness_fault(found):
    unavailable = {"workloads": (rounds(incumbent=2e-3, candidate=1e-3),), "unavailable": {"compile": "no compiler"}}
    evidence.check_contest(CONTEST, ContestResult(telemetry=CALM, **unavailable))
    with pytest.raises(HarnessError):
        evidence.check_contest(CONTEST, ContestResult(telemetry=CALM, **found))


def launched(wall: dict[str, float], device: dict[str, float], executed: tuple[str, ...] = ("own_kernel",)) -> Record:
    """A confirmation on a device, every round alike."""
    times = ContestOfWorkload(workload="w", rounds=(wall,) * 20, device_rounds=(device,) * 20 if device else ())
    return confirmation(times, weight=2.0, executed=executed)


def test_the_device_confirms_only_what_launches_make_look_small():
    hidden = launched({"incumbent": 306e-6, "candidate": 303e-6}, {"incumbent": 6e-6, "candidate": 3e-6})
    on_device = contests.speedup_on_device((hidden,), "total_time", 0.95, 0.02)
    assert on_device is not None and on_device.low == pytest.approx(2.0)
    assert contests.confirmed_speedup((hidden,), "total_time", 0.95).estimate == pytest.approx(1.0, abs=0.02)
    assert contests.device_seconds(hidden) == pytest.approx({"incumbent": 12e-6, "candidate": 6e-6})
    # Where all launches waited behind a spin, the times without the host's gaps are the device's.
    gapless = {"kernel_rounds": [{"incumbent": 5e-6, "candidate": 2e-6}] * 20, "host_bound": {"candidate": 3}}
    result = hidden.payload["result"]
    found = {**result, "workloads": [w | gapless for w in result["workloads"]]}
    spun = hidden.model_copy(update={"payload": {**hidden.payload, "result": found}})
    assert contests.device_seconds(spun) == pytest.approx(
        {"incumbent": 10e-6, "candidate": 4e-6}
    ) and contests.host_bound_rounds(spun) == {"candidate": 3}
    # So it is for what is claimed, while the clock outside is held against the events of the same calls.
    beyond = contests.speedup_on_device((spun,), "total_time", 0.95, 0.02)
    assert beyond is not None and beyond.low == pytest.approx(2.5)
    # A long kernel's launches are no excuse for a wall clock that sees no gain.
    seen = launched({"incumbent": 3e-3, "candidate": 3e-3}, {"incumbent": 6e-3, "candidate": 2.99e-3})
    assert contests.speedup_on_device((seen,), "total_time", 0.95, 0.02) is None
    on_cpu = launched({"incumbent": 2e-3, "candidate": 1e-3}, {})
    assert (
        contests.speedup_on_device((on_cpu,), "total_time", 0.95, 0.02) is None
        and contests.device_seconds(on_cpu) == {}
    )


def noisy(candidate_wall: float, candidate_device: float, noise: float) -> Record:
    """An incumbent of 100 us with 2 us beside its events, and a candidate; the wall clock is off by up to `noise`,
    in a fixed pattern."""
    off = [noise * ((7 * i) % 11 - 5) / 5 for i in range(20)]
    wall = tuple({"incumbent": 102e-6 + off[i], "candidate": candidate_wall - off[i]} for i in range(20))
    device = ({"incumbent": 100e-6, "candidate": candidate_device},) * 20
    return confirmation(ContestOfWorkload(workload="w", rounds=wall, device_rounds=device), executed=("k",))


@pytest.mark.parametrize(
    ("wall", "device", "noise", "confirmed", "contradicted"),
    [
        (80e-6, 78e-6, 0.5e-6, True, False),  # honest: the seconds agree
        (81e-6, 78e-6, 0.2e-6, False, False),  # a little more beside its events: the wall clock decides alone
        (102e-6, 78e-6, 0.5e-6, False, True),  # its own clock runs slow, nothing is gained
        (95e-6, 74e-6, 0.5e-6, False, True),  # a small gain made to look four times as large
        (102e-6, 78e-6, 20e-6, False, False),  # the noise would hide the lie: nothing is confirmed by it either
        (100.5e-6, 98.5e-6, 5e-6, False, False),  # nor a small gain that the wall clock cannot see
    ],
)
def test_seconds_that_its_own_clock_saves_must_be_seen_from_outside(
    wall: float, device: float, noise: float, confirmed: bool, contradicted: bool
):
    series = (noisy(wall, device, noise),)
    for objective in ("total_time", "geomean"):
        assert (contests.speedup_on_device(series, objective, 0.95, 0.02) is not None) is confirmed
        assert contests.is_contradicted_by_wall_clock(series, objective, 0.95) is contradicted


@pytest.mark.parametrize(
    ("busy", "idle", "expected"), [(0, 0, False), (None, None, False), (3, 0, True), (0, 60, True), (None, 60, True)]
)
def test_a_gpu_is_disturbed_by_who_computes_there_and_not_by_the_cpus_load(
    busy: int | None, idle: int | None, expected: bool
):
    gpu = GpuTelemetry(source="nvml", foreign_busy=busy, idle_share=idle, slowed_by=("power cap",))
    found = rounds(incumbent=2e-3, candidate=1e-3).model_copy(update={"dirty": 11})
    assert contests.any_disturbed((confirmation(found, foreign_cpu_fraction=0.9, cores=16, gpu=gpu),)) is expected


def test_the_reason_that_a_kernel_was_not_profiled_is_kept():
    times = {"incumbent": 2e-3, "candidate": 1e-3}
    assert contests.reason_unprofiled((launched(times, times),)) is None
    assert contests.reason_unprofiled((launched(times, times, ("not known: no profiler",)),)) == "no profiler"


def test_times_with_launches_stand_beside_the_devices_own():
    timed = of("w", 2e-3, 1e-3, launched_incumbent_s=3e-3, launched_candidate_s=2e-3)
    later = timed.model_copy(update={"launched_candidate_s": 4e-3})
    found = evidence.measurements((timing(timed), timing(later, batch=1)), {}, 0.95)[0]
    assert (found.incumbent_s, found.launched_incumbent_s, found.launched_candidate_s) == pytest.approx(
        (2e-3, 3e-3, 3e-3), rel=1e-4
    )
