"""The clock of a claim: the task chooses it, and a clock outside of the candidate's process must show the gain."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tools.gate.test_ranking import CALM
from tests.tools.gate.test_verdict import GOOD, POLICY, trial
from tools.artifacts import Record, TaskClock
from tools.executors.protocol import ContestOfWorkload, ContestResult
from tools.gate import confirmation
from tools.gate.ranking import framework_times
from tools.gate.verdict import decide_verdict, with_confirmations

ROUNDS = 16
LAUNCH, FAST, SLOW = 20e-6, 4e-6, 8e-6
"""Seconds of a launch, which hides both kernels, and of the two kernels."""


def contest(
    clock: TaskClock | None,
    names: tuple[str, str] = ("incumbent", "candidate"),
    uncaptured: dict[str, str] | None = None,
    replay_s: float = FAST,
    share: float = 0.5,
) -> Record:
    """A contest of host-bound kernels: by its events and as a graph the second takes half of the first's time."""
    draw = np.random.default_rng(3)

    def rounds(slow: float, fast: float) -> tuple[dict[str, float], ...]:
        times = ({names[0]: slow, names[1]: fast} for _ in range(ROUNDS))
        return tuple({name: t * draw.lognormal(0.0, 0.01) for name, t in found.items()} for found in times)

    left_out = uncaptured or {}
    replays = [{name: t for name, t in found.items() if name not in left_out} for found in rounds(SLOW, replay_s)]
    workload = ContestOfWorkload(
        workload="w",
        rounds=rounds(LAUNCH, LAUNCH),
        device_rounds=rounds(LAUNCH * 0.9, LAUNCH * 0.9),
        kernel_rounds=rounds(SLOW, SLOW * share),
        graph_rounds=tuple(replays),
        graph_device_rounds=tuple(replays),
        uncaptured=left_out,
    )
    result = ContestResult(workloads=(workload,), telemetry=CALM, executed={"candidate": ("k",)})
    payload = confirmation.Contest(
        candidates={name: name for name in names}, attempt=0, weights={"w": 1.0}, clock=clock, result=result
    )
    return Record(kind="confirmation", key="k", payload=payload.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("clock", "named", "worth", "other"),
    [
        (None, "launch-included", 1.0, 2.0),  # The wall clock sees nothing of a gain that launches hide.
        ("launch", "launch-included", 1.0, 2.0),
        ("graph", "graph", 2.0, 2.0),
        ("device", "device-only", 2.0, 1.0),  # The replays, which are clocked from outside, bear the events out.
    ],
)
def test_the_tasks_clock_decides_what_a_host_bound_gain_is_worth(
    clock: TaskClock | None, named: str, worth: float, other: float
) -> None:
    claim = confirmation.claim_of([contest(clock)], "total_time", 0.95, 0.02)
    assert claim.clock == named and claim.other is not None
    assert claim.speedup.estimate == pytest.approx(worth, rel=0.02)
    assert claim.other.estimate == pytest.approx(other, rel=0.02)


def test_events_that_the_replays_do_not_bear_out_are_no_claim() -> None:
    """The candidate's process says that it saves half of the time, and its graph takes as long as the incumbent's."""
    lie = contest("device", replay_s=SLOW)
    claim = confirmation.claim_of([lie], "total_time", 0.95, 0.02)
    assert claim.clock == "graph" and claim.speedup.low < 1.02
    assert confirmation.is_contradicted_by_wall_clock([lie], "total_time", 0.95)
    judged = decide_verdict(with_confirmations(GOOD, [lie], POLICY), POLICY)
    assert judged.outcome == "reject_perf" and "surely saw less than half" in judged.reasons[0]


def test_a_host_bound_gain_is_accepted_by_graphs_and_the_verdict_names_the_clock() -> None:
    evidence = GOOD.model_copy(update={"trial": trial(), "confirmation": None, "workloads": ("small", "large")})
    said = {clock: decide_verdict(with_confirmations(evidence, [contest(clock)], POLICY), POLICY) for clock in CLOCKS}
    assert [one.outcome for one in said.values()] == ["reject_perf", "accept", "accept"]
    assert all("over replays of CUDA graphs" in " ".join(said[clock].reasons) for clock in ("device", "graph"))


CLOCKS: tuple[TaskClock | None, ...] = (None, "device", "graph")


def test_a_candidate_that_cannot_be_captured_is_refused_where_graphs_are_the_clock() -> None:
    why = "it holds no kernel"
    alone = contest("graph", uncaptured={"candidate": why})
    assert why in (confirmation.contest_problem(alone) or "")
    judged = decide_verdict(with_confirmations(GOOD, [alone], POLICY), POLICY)
    assert (
        judged.outcome == "reject_correctness"
        and f"cannot be captured in a CUDA graph, which `clock: graph` asks for: {why}" in judged.reasons[0]
    )
    both = contest("graph", uncaptured={"candidate": why, "incumbent": why})
    assert confirmation.contest_problem(both) is None and confirmation.uncaptured(both).keys() == {
        "candidate",
        "incumbent",
    }
    assert confirmation.claim_of([both], "total_time", 0.95, 0.02).clock == "launch-included"
    assert confirmation.contest_problem(contest("device", uncaptured={"candidate": why})) is None


def test_torchs_times_are_those_of_graphs_where_the_task_asks_for_them() -> None:
    times = framework_times(contest("graph", ("eager", "baseline")), "total_time")
    assert times.clock == "graph" and times.against["eager"].estimate == pytest.approx(2.0, rel=0.02)
    captured = contest(None, ("eager", "baseline"), uncaptured={"eager": "it waits"})
    assert framework_times(captured, "total_time").clock == "device-only"
    assert confirmation.graph_seconds(captured).keys() == {"baseline"}
