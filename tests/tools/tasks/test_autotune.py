"""The kernel that a contest finds fastest is frozen, by the real judge; what fails drops out; what was not compared
is said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contracts.conftest import task
from tests.tools.builders import open_judge
from tools.artifacts import Candidate, Workload
from tools.executors.local import LocalExecutor
from tools.executors.protocol import ContestOfWorkload, ContestResult, ProbedWorkload, Telemetry
from tools.gate import confirmation
from tools.gate.judge_settings import JudgeSettings
from tools.judge.judge import Judge
from tools.languages.base import UNTUNED_PHRASE, PinnedKernel
from tools.languages.cpp import Cpp
from tools.store.records import Records
from tools.tasks.autotune import objective_seconds, pin_fastest_config
from tools.tasks.loader import LoadedTask

pytestmark = pytest.mark.slow

KERNEL = """#include <cmath>
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) {
    volatile float two = 0.0f;
    for (int k = 0; k < ROUNDS; ++k) two = 2.0f;
    y[i] = two * x[i] + std::exp(x[i]);
  }
}
"""
SLOW, FAST = KERNEL.replace("ROUNDS", "400"), KERNEL.replace("ROUNDS", "1")
WRONG, BROKEN = FAST.replace("two * x[i]", "two - x[i]"), FAST.replace("two *", "nothing *")
CHANGES = {
    "baseline": SLOW,
    "workloads": (Workload(name="w", dims={"n": 20000}),),
    "inferred": (f"`solve` is pinned to the first {UNTUNED_PHRASE}.", "Something else was inferred."),
}
TASK = task(Cpp()).model_copy(update=CHANGES)
SEEN = ProbedWorkload(name="w", dims={"n": 20000}, weight=1.0, arguments=(), flops=None, unique_bytes=160000)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    root = tmp_path_factory.mktemp("tuning")
    records = Records(root)
    with LocalExecutor(records.blobs, root / "scratch") as executor:
        yield open_judge(TASK, Cpp(), executor, records, JudgeSettings(hidden_workloads=0))


def loaded(*sources: str) -> LoadedTask:
    return LoadedTask(
        task=TASK,
        workloads=(SEEN,),
        pinned=tuple(PinnedKernel(label=f"c{at}", source=s) for at, s in enumerate(sources)),
    )


def test_the_fastest_variant_that_is_right_is_frozen_with_its_record(judge: Judge) -> None:
    found = pin_fastest_config(loaded(SLOW, BROKEN, WRONG, FAST), judge)
    assert found.task.baseline == FAST and found.pinned == ()
    sentence, *others = found.task.inferred
    assert others == ["Something else was inferred."]
    assert "config 3, c3, was the fastest of 2 of 4" in sentence
    record = next(r for r in judge.records if r.kind == "benchmark")
    assert record.id in sentence and record.payload["candidates"].keys() == {"config_0", "config_3"}


def test_the_only_variant_that_works_needs_no_contest(judge: Judge) -> None:
    before = sum(1 for r in judge.records if r.kind == "benchmark")
    found = pin_fastest_config(loaded(WRONG, FAST), judge)
    assert found.task.baseline == FAST and "config 1 is the only correct one" in found.task.inferred[0]
    assert sum(1 for r in judge.records if r.kind == "benchmark") == before
    # None works: the first stays, and the run's own checks name what is wrong with it.
    none = pin_fastest_config(loaded(WRONG, BROKEN), judge).task
    assert none.baseline == WRONG and UNTUNED_PHRASE in none.inferred[0]
    assert (
        "none of the 2 checked configs compiles and is correct here" in none.inferred[0]
        and "only correct one" not in none.inferred[0]
    )


def test_variants_of_unknown_number_end_where_a_build_says_so(judge: Judge) -> None:
    def open_ended(*sources: str) -> LoadedTask:
        pinned = tuple(
            PinnedKernel(label=f"c{at}", source=s, past_end_error="there is no such config")
            for at, s in enumerate(sources)
        )
        return loaded().model_copy(update={"pinned": pinned})

    end = "#error there is no such config\n"
    found = pin_fastest_config(open_ended(SLOW, FAST, end, FAST + "// behind the end\n"), judge)
    assert found.task.baseline == FAST and "autotuned over 2 configs" in found.task.inferred[0]
    assert "config 1, c1, was the fastest of all over" in found.task.inferred[0]
    behind = Candidate(language="cpp", files={"kernel.cpp": FAST + "// behind the end\n"}).id
    assert not any(r.payload.get("candidate") == behind for r in judge.records), "nothing behind the end is built"
    # Nothing at all is in the list.
    assert "none of the 1 checked configs" in pin_fastest_config(open_ended(end, end), judge).task.inferred[0]


def test_the_objective_is_the_devices_own_where_it_says_it() -> None:
    calm = Telemetry(load_before=0, load_after=0, foreign_cpu_fraction=0, seconds=1)

    def cost(objective: str, **device: float) -> dict[str, float]:
        rounds = {"a": 4.0, "b": 5.0}
        workloads = tuple(
            ContestOfWorkload(workload=name, rounds=(rounds,) * 3, device_rounds=(device,) * 3 if device else ())
            for name in ("u", "v")
        )
        result = ContestResult(workloads=workloads, telemetry=calm)
        contest = confirmation.Contest(
            candidates={"a": "1", "b": "2"}, attempt=0, weights={"u": 1.0, "v": 3.0}, result=result
        )
        return dict(objective_seconds(contest, objective))  # type: ignore[arg-type]

    assert cost("total_time") == pytest.approx({"a": 16.0, "b": 20.0})
    assert cost("total_time", a=3.0, b=1.0) == pytest.approx({"a": 12.0, "b": 4.0})
    assert cost("geomean", a=3.0, b=1.0) == pytest.approx({"a": 3.0, "b": 1.0})
