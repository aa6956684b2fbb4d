"""Verdicts from evidence, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tools.artifacts import Claim, Clock, Failed, Interval, Measurement, Outcome, Passed, Record, Unmeasured
from tools.executors.protocol import Case, CaseResult, NeededBytesResult
from tools.gate.judge_settings import JudgeSettings
from tools.gate.statistics import competing_candidates
from tools.gate.verdict import GateEvidence, Veto, decide_verdict
from tools.judge.evidence import recompute_trial
from tools.roofline.hardware import Roof
from tools.roofline.lower_bounds import (
    MAX_REMEASUREMENTS,
    DataFloor,
    PhysicalLimits,
    limits_for_trial,
    limits_from_roofs,
)
from tools.roofline.roofline import compute_headroom

POLICY = JudgeSettings()
CONFIDENCE = POLICY.confidence_of_look(1, competing_candidates(4))


def interval(estimate: float, half: float = 0.03, confidence: float = CONFIDENCE) -> Interval:
    return Interval(estimate=estimate, low=estimate - half, high=estimate + half, confidence=confidence)


def measurement(workload: str, speedup: Interval, candidate_s: float = 1e-3) -> Measurement:
    return Measurement(
        workload=workload,
        weight=1.0,
        incumbent_s=candidate_s * speedup.estimate,
        candidate_s=candidate_s,
        pairs=20,
        speedup=speedup,
    )


def trial(
    speedup: float = 2.0, small: float = 2.0, large: float = 2.0, candidate_s: float = 1e-3, half: float = 0.03
) -> Passed:
    return Passed(
        candidate="cand",
        measurements=(
            measurement("small", interval(small, half), candidate_s),
            measurement("large", interval(large, half), candidate_s),
        ),
        speedup=interval(speedup, half),
        records=("b1", "c1", "t1"),
    )


def case(workload: str, status: str = "passed", **more) -> CaseResult:
    result = {"max_error": 1e-7, "tolerance": 4e-5} if status == "passed" else {}
    return CaseResult(case=Case(workload=workload, dims={"N": 8}, seed=1, **more), status=status, **result)


GOOD = GateEvidence(
    incumbent="inc",
    trial=trial(),
    siblings=4,
    task_at_start="a" * 64,
    task_now="a" * 64,
    workloads=("small", "large"),
    cases=(case("small"), case("large"), case("prime", "dropped", required=False)),
    physics=PhysicalLimits(
        floors=(
            DataFloor(workload="small", unique_bytes=1 << 20, roof_s=9e-4),
            DataFloor(workload="large", unique_bytes=1 << 30, roof_s=9e-4),
        ),
        last_level_cache=32 << 20,
        launch_s=1e-6,
    ),
    noise_floor=0.03,
    confirmation=interval(1.9, 0.2, 0.95),
    mechanisms={"simd": True},
    records=("k1", "f1"),
)


def verdict(**changes):
    return decide_verdict(GOOD.model_copy(update=changes), POLICY)


def test_accept_says_why_with_numbers_and_records():
    answer = verdict()
    assert (answer.outcome, answer.explained, answer.candidate, answer.incumbent) == ("accept", True, "cand", "inc")
    assert answer.records == ("b1", "c1", "t1", "k1", "f1")
    assert answer.speedup == interval(2.0)
    text = "\n".join(answer.reasons)
    for piece in ("2.000x [1.970, 2.030]", "1.030x", "3.0%", "t1", "f1", "1 dropped", "1 of 2 workloads", "simd"):
        assert piece in text
    assert all(reason.endswith(".") and "\n" not in reason for reason in answer.reasons)
    published = decide_verdict(GOOD, POLICY.model_copy(update={"inputs": "as_published"}))
    assert "the task's own draws alone" in "\n".join(published.reasons) and "own draws" not in text
    assert "Candidate x was refused." in verdict(earlier_refusal="Candidate x was refused.").reasons
    absent = verdict(mechanisms={"simd": True, "parallel": False})
    assert (absent.outcome, absent.explained) == ("accept", False) and "unexplained: parallel" in absent.reasons[-1]
    idle = verdict(mechanisms={"simd": True, "parallel": False}, idle=("parallel",))
    assert idle.explained and idle.reasons[-1].endswith(
        "visible: simd; visible neither there nor in the time: parallel."
    )
    assert not idle.reasons[-1].startswith("The claimed mechanisms are")
    unchecked = verdict(mechanisms={"simd": True, "tiles": None})
    assert unchecked.explained and ["tiles" in reason for reason in unchecked.reasons[-2:]] == [True, False]
    unclear = verdict(mechanisms={"simd": True, "tiles": None, "lanes": None}, unclear=("simd", "lanes")).reasons
    assert unclear[-3:-1] == ("Not checked in the machine code: tiles.", "Not clear in the machine code: lanes.")
    assert unchecked.reasons[-2] == "Not checked in the machine code: tiles." and not any(
        "visible" in r for r in verdict(mechanisms={"a": None}).reasons
    )
    assert any("82% passed in the task's library" in reason for reason in verdict(library_share=0.82).reasons)
    assert verdict(**DILUTED).outcome == "accept"
    cached = tuple(
        floor.model_copy(update={"unique_bytes": 2 * GOOD.physics.last_level_cache}) for floor in GOOD.physics.floors
    )
    physics = GOOD.physics.model_copy(update={"floors": cached})
    assert verdict(trial=trial(candidate_s=8e-4), physics=physics).outcome == "accept", (
        "no roof of the memory binds in the cache"
    )


# Launches make both kernels' wall time alike.
DILUTED = {"confirmation": interval(1.01, 0.005, 0.95), "confirmation_on_device": interval(1.9, 0.2, 0.95)}
LATE = trial().model_copy(update={"speedup": interval(1.05, confidence=0.9999)})
FORGED = recompute_trial(trial(), {}, "total_time")
FAILED = Failed(candidate="cand", stage="correctness", reason="On small: error.", records=("c1",))


@pytest.mark.parametrize(
    ("changes", "outcome", "piece"),
    [
        ({"task_now": "b" * 64}, "infra_error", "bbbbbbbbbbbb"),
        ({"screen": ("line 1: `#pragma GCC optimize` is refused",)}, "reject_policy", "optimize"),
        ({"veto": Veto(quote="out[i] = cache[i];", reason="replays")}, "reject_policy", "out[i] = cache[i];"),
        ({"trial": None}, "inconclusive", "No candidate"),
        ({"trial": Unmeasured(candidate="cand", reason="no device")}, "infra_error", "no device"),
        (
            {"trial": Unmeasured(candidate="cand", reason="budget.wall_s: no time", capped=True)},
            "inconclusive",
            "budget.wall_s",
        ),
        ({"trial": FORGED}, "infra_error", "does not follow from its records"),
        ({"trial": FAILED}, "reject_correctness", "correctness"),
        ({"cases": (case("small"),)}, "reject_correctness", "large was never checked"),
        (
            {"trial": trial(candidate_s=8e-4)},
            "reject_policy",
            "8.000e-04 s where the memory roof allows no less than 8.550e-04 s",
        ),
        ({"noise_floor": None}, "inconclusive", "noise floor"),
        ({"trial": trial(1.005, half=0.01)}, "reject_perf", "1.030x"),
        (
            {"trial": trial(1.02, half=0.2), "noise_floor": 0.7},
            "inconclusive",
            "noise floor is too high to see such a gain",
        ),
        (
            {"trial": trial(0.6, half=0.5), "noise_floor": 0.7},
            "inconclusive",
            "No gain is seen, and the noise floor is too high to exclude one",
        ),
        ({"trial": trial(1.02, half=0.03)}, "inconclusive", "Given up as futile after 1 of 4 batches"),
        ({"trial": trial(1.05, half=0.03), "looks": 4}, "inconclusive", "not corrected for 4 candidates"),
        ({"earlier": 4}, "inconclusive", "not corrected for 4 candidates after 4 others since the last accept"),
        ({"trial": LATE, "looks": 4}, "inconclusive", "The noise hides the answer after 4 of 4 batches"),
        ({"confirmation": interval(1.01, 0.005)}, "reject_perf", "did not recur"),
        ({"confirmation_problem": "it crashed"}, "reject_correctness", "it crashed"),
        (
            {"confirmation": interval(1.4, 0.2), "confirmation_disturbed": True},
            "inconclusive",
            "Others kept the machine busy",
        ),
        ({"trial": trial(small=0.8)}, "reject_perf", "small became slower"),
        ({"trial": trial(small=0.96), "margins": {"small": 0.0}}, "reject_perf", "its own margin of 0%"),
        # The events are read in the candidate's own process: what the clock outside does not see, they cannot confirm.
        (DILUTED | {"confirmation": interval(0.9, 0.02)}, "reject_perf", "With launches the candidate is slower"),
        (
            DILUTED | {"confirmation_problem": "it ran cublas", "confirmation_policy": True},
            "reject_policy",
            "it ran cublas",
        ),
        (
            DILUTED | {"confirmation": interval(1.05), "confirmation_contradicted": True},
            "reject_perf",
            "less than half of the time saved",
        ),
    ],
)
def test_each_check_has_its_outcome(changes: dict[str, object], outcome: Outcome, piece: str):
    answer = verdict(**changes)
    assert answer.outcome == outcome
    assert len(answer.reasons) == 1
    assert piece in answer.reasons[0]


@pytest.mark.parametrize(
    ("clock", "other"), [("wall", None), ("launch-included", "device-only"), ("device-only", "launch-included")]
)
def test_a_version_is_worth_what_was_confirmed_and_not_what_chose_it(clock: Clock, other: Clock | None):
    claim = Claim(speedup=interval(1.9, 0.2, 0.95), clock=clock, other=interval(1.2) if other else None)
    assert claim.speedup_by("graph") == claim.speedup, "what was not measured by a clock is not another clock's"
    answer = verdict(claim=claim)
    assert answer.speedup == interval(2.0) and answer.reported_speedup == claim.speedup
    assert claim.speedup_by("device-only" if clock == "launch-included" else "launch-included") == (
        claim.other or claim.speedup
    )
    assert verdict().reported_speedup == interval(2.0), "of a commit before the claim had a field of its own"


@pytest.mark.parametrize(
    ("confirmed", "half", "far"), [(1.9, 0.2, False), (1.9, 0.02, False), (1.5, 0.2, True), (2.3, 0.1, True)]
)
def test_a_confirmation_far_from_the_paired_gain_is_remarked_on(confirmed: float, half: float, far: bool):
    answer = verdict(claim=Claim(speedup=interval(confirmed, half), clock="wall"))
    assert answer.outcome == "accept" and any("far from the paired one" in reason for reason in answer.reasons) == far


def test_earlier_checks_decide_before_later_ones():
    everything_wrong = {
        "task_now": "b" * 64,
        "screen": ("refused",),
        "trial": trial(0.5, small=0.5, candidate_s=1e-9),
        "cases": (),
        "confirmation": None,
    }
    order = []
    repairs = [
        {"task_now": "a" * 64},
        {"screen": ()},
        {"cases": GOOD.cases},
        {"trial": trial(0.5, small=0.5)},
        {"trial": trial(small=0.5)},
    ]
    for repair in [{}, *repairs, {"confirmation": GOOD.confirmation}, {"trial": trial()}]:
        everything_wrong |= repair
        order.append(verdict(**everything_wrong).outcome)
    expected = "infra_error reject_policy reject_correctness reject_policy reject_perf inconclusive reject_perf accept"
    assert order == expected.split()


def roof(bandwidth: float, source: str, others: float | None = None) -> Roof:
    return Roof(metric="memory_bandwidth", value=bandwidth, unit="B/s", origin="measured", source=source, others=others)


def counting(size: int) -> Callable[[Passed, Sequence[str]], Record]:
    """What a count of the bytes that the inputs timed need comes to."""
    payload = NeededBytesResult(unique_bytes={"large": size}).model_dump(mode="json")
    return lambda trial, names: Record(kind="needed", key="n", environment="e", payload=payload)


@pytest.mark.parametrize(
    ("needed", "baseline_s", "outcome", "said"),
    [
        # 256 MiB in 8e-4 s where 1e11 B/s are possible: explained by what is read, or by its fitting the cache; else
        # refused.
        (70 << 20, 1.0, "accept", "large needs 73400320 bytes"),
        (1 << 20, 1.0, "accept", "large needs 1048576 bytes"),
        (100 << 20, 1.0, "reject_policy", "cannot have been done"),
        (1 << 28, 1.0, "reject_policy", "cannot have been done"),
        # The baseline is right and does not take as long either: the count is wrong.
        (1 << 28, 1e-3, "accept", "No floor from the bytes of large"),
    ],
)
def test_a_time_below_the_roof_is_explained_before_it_is_refused(
    needed: int, baseline_s: float, outcome: str, said: str
):
    fast, roofs = trial(candidate_s=8e-4), (roof(1e11, "r"),)
    possible = limits_for_trial(
        fast, {"large": 1 << 28}, 32 << 20, roofs, lambda: roofs, counting(needed), lambda: {"large": baseline_s}
    )
    answer = verdict(physics=possible, trial=fast)
    assert answer.outcome == outcome and any(said in reason for reason in answer.reasons)
    assert counting(needed)(fast, ()).id in answer.records


@pytest.mark.parametrize(
    ("found", "asked", "outcome"),
    [
        # 256 MiB in 8e-4 s are 3.4e11 B/s. The first roof was measured while others used the machine.
        ((roof(1e11, "r0"), roof(4e11, "r1")), 1, "accept"),
        ((roof(1e11, "r0"), roof(2e11, "r1"), roof(4e11, "r2")), 2, "accept"),
        ((roof(4e11, "r0"), roof(1e11, "r1")), 0, "accept"),
        ((roof(1e11, "r0"),) * (MAX_REMEASUREMENTS + 1), MAX_REMEASUREMENTS, "reject_policy"),
        # Nobody is accused beside others, and nothing is accepted.
        ((roof(1e11, "r0", 0.45),) * (MAX_REMEASUREMENTS + 1), MAX_REMEASUREMENTS, "inconclusive"),
        (
            (roof(1e11, "r0", 0.45), roof(2e11, "r1", 0.01), roof(1e11, "r2", 0.45)),
            MAX_REMEASUREMENTS,
            "reject_policy",
        ),
    ],
)
def test_roofs_are_measured_again_before_a_time_is_called_impossible(found: tuple[Roof, ...], asked: int, outcome: str):
    later = iter(found[1:])
    fast = trial(candidate_s=8e-4)
    possible = limits_for_trial(
        fast, {"large": 1 << 28}, 32 << 20, found[:1], lambda: (next(later),), counting(1 << 28)
    )
    assert len(list(later)) == len(found) - 1 - asked
    answer = verdict(physics=possible, trial=fast)
    binding = max(found[: asked + 1], key=lambda one: one.value).source
    counted = (counting(1 << 28)(fast, ()).id,) if asked else ()
    assert answer.outcome == outcome and possible.records == (binding, *counted) and binding in answer.records
    about = next(reason for reason in answer.reasons if "memory roof" in reason)
    assert about.endswith(f"{', '.join(possible.records)}).") and (
        outcome != "inconclusive" or "other processes used 45.0 % of the machine" in about
    )
    assert not [reason for reason in answer.reasons if reason.startswith("Confirmed") and binding in reason]


def test_a_doubt_weighs_only_where_the_roof_it_is_about_binds():
    launch = Roof(metric="launch_latency", value=1e-3, unit="s", origin="measured", source="l", others=0.0)
    sizes = {"small": 1 << 10, "large": 1 << 28}
    fast = trial(candidate_s=8e-4)
    possible = limits_from_roofs(sizes, 32 << 20, (roof(1e11, "r", 0.45), launch))
    assert [possible.lower_bound(name).what for name in sizes] == ["a launch", "the memory roof"]
    assert [bool(possible.lower_bound(name).doubt) for name in sizes] == [False, True]
    assert [measured.workload for measured in possible.impossible_measurements(fast.measurements)] == ["small", "large"]
    backwards = fast.model_copy(update={"measurements": fast.measurements[::-1]})
    assert verdict(physics=possible, trial=backwards).outcome == "reject_policy", (
        "what is beyond doubt decides, wherever it stands"
    )


def test_an_algorithm_with_fewer_operations_than_the_reference_is_possible():
    """2 n log n operations where the reference takes n²: the memory floor does not mind, the reference's roof time
    would."""
    roofs = [
        Roof(metric=metric, value=value, unit="", origin="measured", source="r")
        for metric, value in (("memory_bandwidth", 1e11), ("compute_float32", 1e12))
    ]
    unique = 1 << 28
    assert (compute_headroom(1e11, unique, 1.0, roofs).roof_s or 0) > 0.05
    possible = limits_from_roofs({"large": unique}, 32 << 20, roofs)
    assert verdict(physics=possible, trial=trial(candidate_s=5e-3)).outcome == "accept"
    assert verdict(physics=possible, trial=trial(candidate_s=2e-3)).outcome == "reject_policy"
