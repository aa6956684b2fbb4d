"""A workload by itself: looked at again while noise may be what slowed it, and never waited for longer than the
batches last."""

from __future__ import annotations

import pytest

from tests.tools.judge.test_evidence import correctness, pairs, record, result, timing
from tests.tools.judge.test_judge import POLICY, softmax
from tools.artifacts import Candidate, Passed, Record
from tools.errors import BudgetError
from tools.executors.protocol import Case, TimedPair, TimingOfWorkload
from tools.gate.judge_settings import first_possible_regression, first_regression, with_margins
from tools.judge.evidence import Build
from tools.judge.judge import Judge


def noisy(slower: float, count: int = 14) -> tuple[TimedPair, ...]:
    """Pairs whose median says that the candidate takes `slower` times as long, with ratios from 0.6 to 1.7 times
    that."""
    spread = [0.6 + 1.1 * i / (count - 1) for i in range(count)]
    middle = (spread[count // 2 - 1] + spread[count // 2]) / 2
    return tuple(
        TimedPair(incumbent_s=1e-4, candidate_s=1e-4 * slower * s / middle, candidate_first=bool(i % 2))
        for i, s in enumerate(spread)
    )


def batch(number: int, small: tuple[TimedPair, ...], large: tuple[TimedPair, ...] | None = None) -> Record:
    large = large or pairs(2e-2, 1e-2, 14)
    return timing(
        TimingOfWorkload(workload="small", pairs=small), TimingOfWorkload(workload="large", pairs=large), batch=number
    )


class Told(Judge):
    """The real judge, told what the machine would have measured."""

    paid: int | None

    def __init__(self, batches: list[Record], count: int, margin: float | None = None) -> None:
        task = softmax()
        if margin is not None:
            task = task.model_copy(
                update={"workloads": tuple(w.model_copy(update={"margin": margin}) for w in task.workloads)}
            )
        self.task, self.policy = task, POLICY.model_copy(update={"batches": count})
        self.emit = lambda kind, details: None
        self.told, self.paid = iter(batches), None
        self.builder = self  # type: ignore[assignment]

    def read_or_build(self, candidate: Candidate) -> Record:
        return record(
            "build",
            Build(candidate="c", ok=True, library=None, log="", log_blob="", argv=(), compiler="g++", seconds=1.0),
        )

    def screen_failure(self, candidate: Candidate) -> None:
        return None

    def read_or_check_correctness(self, *asked: object, **more: object) -> Record:
        return correctness(
            result(Case(workload="small", dims={}, seed=1)), result(Case(workload="large", dims={}, seed=1))
        )

    def read_or_measure_timing(self, *asked: object, **more: object) -> Record:
        if self.paid is not None:
            self.paid -= 1
            if self.paid < 0:
                raise BudgetError("budget.device_s is reached")
        return next(self.told)


def looks(judge: Told, before_the_cap: int | None = None) -> int:
    """Batches that were timed; with `before_the_cap` no more than those are paid for."""
    judge.paid = before_the_cap
    any_kernel = Candidate(language="cpp", files={"kernel.cpp": ""})
    trial = judge.judge(any_kernel, any_kernel, any_kernel, siblings=1, iteration=1)
    assert isinstance(trial, Passed) and trial.speedup.low > 1.5
    return len(trial.records) - 2


@pytest.mark.parametrize(
    ("small", "expected"),
    [
        ([noisy(1.0)], 1),  # nothing speaks against the workload
        ([pairs(1e-4, 2e-4, 14)], 1),  # surely slower: the gate can reject it
        (
            [noisy(1.2), noisy(0.8), noisy(0.8), noisy(0.8)],
            4,
        ),  # looked at again when all pairs are there, not as soon as it looks well
        ([noisy(1.2)] * 4, 4),  # never settled: the batches end it
        ([noisy(1.2), pairs(1e-4, 2e-4, 60)], 2),  # surely slower after all
    ],
)
def test_another_batch_is_timed_while_noise_may_be_what_slowed_a_workload(
    small: list[tuple[TimedPair, ...]], expected: int
) -> None:
    batches = [batch(i, one) for i, one in enumerate(small)]
    assert looks(Told([*batches, *(batch(i, noisy(1.2)) for i in range(len(batches), 4))], 4)) == expected


def test_batches_end_with_the_policy_the_budget_and_a_margin_of_its_own() -> None:
    unsure = [batch(0, noisy(1.2)), batch(1, noisy(1.2))]
    assert looks(Told(unsure, 2)) == 2
    assert looks(Told(unsure[:1], 4, margin=0.3)) == 1
    assert looks(Told(unsure, 4), before_the_cap=2) == 2, (
        "a proven gain is not lost when the budget ends between its looks"
    )
    with pytest.raises(BudgetError):
        looks(Told([batch(0, noisy(1.0), noisy(0.8))], 4), before_the_cap=1)


def test_a_workload_is_broken_only_surely_and_unsettled_only_while_unsure() -> None:
    build = Told([batch(0, pairs(1e-4, 2e-4, 14))], 1)
    kernel = Candidate(language="cpp", files={"kernel.cpp": ""})
    trial = build.judge(kernel, kernel, kernel, siblings=1, iteration=1)
    assert isinstance(trial, Passed)
    limited = with_margins(trial.measurements, {}, 0.05)
    broken = first_regression(limited)
    assert broken is not None and broken[0].workload == "small" and first_possible_regression(limited) is None
    generous = with_margins(trial.measurements, {"small": 1.5}, 0.05)
    assert first_regression(generous) is None and first_possible_regression(generous) is None
