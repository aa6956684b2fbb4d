"""The times and the ratios of a benchmark are one story: each quotient of two times is the ratio that stands beside
them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tools.artifacts import Interval, Record
from tools.executors.protocol import ContestOfWorkload, ContestResult, Telemetry
from tools.gate import confirmation
from tools.gate.ranking import doubts_about_function, factors_over_function, framework_times, rank_contestants
from tools.gate.statistics import Objective

CALM = Telemetry(load_before=0.0, load_after=0.0, foreign_cpu_fraction=0.0, seconds=1.0)
WEIGHTS = {"small": 3.0, "large": 1.0}


def benchmark(*names: str) -> Record:
    """Rounds on a machine whose speed jumps about: the medians' ratio is another than the median of the ratios."""
    draw = np.random.default_rng(7)
    speed = {"baseline": 4e-3, "best": 1e-3, "eager": 1.5e-3, "liger": 2e-3, "user_function": 6e-3}
    workloads = []
    for size, workload in enumerate(WEIGHTS, start=1):
        slowness = draw.lognormal(0.0, 0.8, 15)
        rounds = tuple(
            {name: speed[name] * size * slow * draw.lognormal(0.0, 0.3) for name in names} for slow in slowness
        )
        workloads.append(ContestOfWorkload(workload=workload, rounds=rounds))
    result = ContestResult(workloads=tuple(workloads), telemetry=CALM)
    contest = confirmation.Contest(
        candidates={n: n for n in names if n in ("baseline", "best")}, attempt=0, weights=WEIGHTS, result=result
    )
    return Record(kind="benchmark", key="benchmark", payload=contest.model_dump(mode="json"))


@pytest.mark.parametrize("objective", ["total_time", "geomean"])
def test_each_quotient_of_times_is_the_ratio(objective: Objective):
    record = benchmark("liger", "baseline", "best", "eager")
    ranked = rank_contestants(record, objective, anchor="baseline", best="best")
    for placed in (*ranked.workloads.values(), ranked.overall):
        assert list(placed) == ["baseline", "best", "eager", "liger"]
        assert placed["best"].against_best is None
        for name in ("baseline", "eager", "liger"):
            ratio = placed[name].against_best
            assert ratio is not None
            assert placed[name].seconds / placed["best"].seconds == pytest.approx(ratio.estimate, rel=1e-9)
            assert ratio.low < ratio.estimate < ratio.high
    medians = confirmation.median_seconds(record)
    for workload, placed in ranked.workloads.items():
        assert placed["baseline"].seconds == pytest.approx(medians[workload]["baseline"])


def test_the_users_function_is_compared_by_the_device_first_and_with_what_python_costs_it():
    assert factors_over_function(benchmark("baseline", "best", "eager"), "total_time", "best") == {}
    record = benchmark("baseline", "best", "user_function")
    (wall,) = factors_over_function(record, "total_time", "best").items()
    assert wall[0] == "wall" and wall[1].estimate == pytest.approx(6.0, rel=0.5)
    contest = confirmation.Contest.model_validate(record.payload)
    alone = tuple({name: seconds / 2 for name, seconds in r.items()} for r in contest.result.workloads[0].rounds)
    workloads = tuple(w.model_copy(update={"kernel_rounds": alone}) for w in contest.result.workloads)
    seen = contest.model_copy(update={"result": contest.result.model_copy(update={"workloads": workloads})})
    record = record.model_copy(update={"payload": seen.model_dump(mode="json")})
    found = factors_over_function(record, "total_time", "best")
    assert list(found) == ["device-only", "launch-included"] and found["launch-included"] == wall[1]
    assert found["device-only"].estimate == pytest.approx(6.0, rel=0.5)


def test_what_is_doubtful_about_the_users_function_is_said():
    record, alone = benchmark("baseline", "best", "user_function"), benchmark("user_function")
    assert doubts_about_function(record, alone, "total_time") == ()
    contest = confirmation.Contest.model_validate(record.payload)

    def with_rounds(change: Callable[[dict[str, float]], dict[str, float]], **unavailable: str) -> Record:
        workloads = tuple(
            w.model_copy(update={"rounds": tuple(change(dict(r)) for r in w.rounds)}) for w in contest.result.workloads
        )
        result = contest.result.model_copy(update={"workloads": workloads, "unavailable": unavailable})
        payload = contest.model_copy(update={"result": result}).model_dump(mode="json")
        return record.model_copy(update={"payload": payload})

    slowed = with_rounds(lambda r: r | {"user_function": 2 * r["user_function"], "eager": r["user_function"]})
    slower, differs = doubts_about_function(slowed, alone, "total_time")
    assert slower.startswith("Your function takes 2×") and "under torch eager: the factor over torch eager" in slower
    assert differs.startswith("Your function took ") and differs.endswith(" here.")
    lost = with_rounds(lambda r: {"baseline": r["baseline"], "best": r["best"]}, user_function="it raised.")
    assert doubts_about_function(lost, alone, "total_time") == ("Your function could not be timed: it raised.",)


def test_torch_is_ahead_by_the_clock_of_the_device_and_until_a_gain_is_shown_to_make_up_for_it():
    """Per call eager takes half of v0's time, and on the device alone twice as much."""
    rounds = tuple({"baseline": 2e-3 * slow, "eager": 1e-3 * slow} for slow in np.linspace(1.0, 1.4, 15))
    alone = tuple({"baseline": 1e-3 * slow, "eager": 2e-3 * slow} for slow in np.linspace(1.0, 1.4, 15))

    def timed(**seen: object):
        workload = ContestOfWorkload(workload="w", rounds=rounds, **seen)  # type: ignore[arg-type]
        result = ContestResult(workloads=(workload,), telemetry=CALM, unavailable={"compile": "no compiler"})
        contest = confirmation.Contest(candidates={"baseline": "b"}, attempt=0, weights={"w": 1.0}, result=result)
        return framework_times(Record(kind="benchmark", key="k", payload=contest.model_dump(mode="json")), "total_time")

    on_device = timed(device_rounds=rounds, kernel_rounds=alone)
    assert (on_device.clock, on_device.ahead, on_device.against["eager"].estimate) == (
        "device-only",
        (),
        pytest.approx(2.0),
    )
    assert on_device.fastest == (pytest.approx(2.4e-3),)
    v0 = timed()
    assert (v0.clock, v0.ahead, set(v0.unavailable)) == ("wall", ("eager",), {"compile"})
    hidden = v0.after(Interval(estimate=1.9, low=1.7, high=2.1, confidence=0.975))
    assert hidden.ahead == () and hidden.against["eager"].confidence == pytest.approx(0.925)
    assert hidden.kernel_s == pytest.approx(v0.kernel_s / 1.9) and hidden.seconds == v0.seconds
    assert v0.after(Interval(estimate=1.9, low=1.85, high=1.95)).ahead == ("eager",)
