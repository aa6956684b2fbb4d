"""How figures are printed."""

from __future__ import annotations

import pytest

from graph.artifacts import FinalBenchmark, ScoredPrediction
from graph.report import final
from graph.report.content.authorship import authorship_words
from graph.report.content.phrases import final_difference_words, gain_words, objective_words, over_function_words
from tests.tools.builders import softmax
from tools.artifacts import UNBOUNDED_RATIO, Authors, BaselineFunction, Clock, Interval, Task, Workload
from tools.cli.formatting import format_speedup
from tools.gate.ranking import FrameworkTimes
from tools.gate.statistics import Objective


def test_a_factor_is_printed_with_its_interval_unless_nobody_knows_an_end() -> None:
    assert (format_speedup(Interval(estimate=2.0, low=1.9, high=2.13)), format_speedup(None)) == (
        "2× [1.9, 2.13]",
        "N/A",
    )
    for low, high in ((1 / UNBOUNDED_RATIO, UNBOUNDED_RATIO), (1.9, UNBOUNDED_RATIO), (1 / UNBOUNDED_RATIO, 2.13)):
        assert format_speedup(Interval(estimate=2.0, low=low, high=high)) == "2× [N/A]"
        assert format_speedup(Interval(estimate=0.5, low=1 / high, high=1 / low)) == "0.5× [N/A]"


@pytest.mark.parametrize(
    ("clock", "finally_s", "told"),
    [("device-only", 121e-6, 1), ("device-only", 105e-6, 0), ("wall", 121e-6, 0), ("device-only", None, 0)],
)
def test_a_final_benchmark_that_is_far_from_what_is_reckoned_on_is_spoken_of(
    clock: Clock, finally_s: float | None, told: int
) -> None:
    times = FrameworkTimes(record="r", clock=clock, kernel_s=100e-6, seconds={}, against={})
    assert (
        final_difference_words(times, finally_s).count("saw 121 us for it: each contest draws its inputs anew") == told
    )


def test_the_final_benchmark_names_its_clock_where_calls_only_launch() -> None:
    times = {"baseline": 2e-5, "best": 1.5e-5}
    ratio_of = Interval(estimate=4 / 3, low=1.3, high=1.4)
    found = FinalBenchmark(standings=(), overall={"baseline": ratio_of}, objective_s=times, unavailable={}, wall_s=1.0)
    assert "launches" not in final.render_benchmark(found, "r")
    text = final.render_benchmark(found.model_copy(update={"device_s": {"baseline": 8e-6, "best": 4e-6}}), "r")
    assert "by the wall clock, launches included" in text and "baseline 8 us, best 4 us." in text
    assert "graph" not in text
    graphs = {"graph_s": {"best": 5e-6}, "uncaptured": {"baseline": "it waits."}, "device_s": {"best": 4e-6}}
    text = final.render_benchmark(found.model_copy(update={**graphs, "by_graphs": True}), "r")
    assert "by the wall clock over replays of CUDA graphs" in text
    assert "by the wall clock over its replay: best 5 us. baseline cannot be captured: it waits." in text


def test_factors_over_the_users_function_come_with_their_clock() -> None:
    gain, loss = Interval(estimate=3.0, low=2.9, high=3.1), Interval(estimate=0.8, low=0.7, high=0.9)
    found = FinalBenchmark(standings=(), overall={}, objective_s={}, unavailable={}, wall_s=1.0)
    both = found.model_copy(update={"over_function": {"device-only": gain, "launch-included": loss}})
    said = "Over your function: **3× [2.9, 3.1]** by the device, 0.8× [0.7, 0.9] (a loss) as Python calls it, with what it allocates."
    assert over_function_words(both, "**") == said and said.replace("**", "") in final.render_benchmark(both, "r")
    assert "your function" not in final.render_benchmark(found, "r")
    lost = found.model_copy(update={"doubts": ("Your function could not be timed: it raised.",)})
    assert over_function_words(lost, "**") == lost.doubts[0] and lost.doubts[0] in final.render_benchmark(lost, "r")


@pytest.mark.parametrize(
    ("authors", "function", "said", "doubtful"),
    [
        (Authors(), None, "Whoever submitted this run wrote the task; the baseline, v0, is", True),
        (
            Authors(task="observed", baseline="run"),
            None,
            "The task was recorded from a run of the submitter's program; the baseline, v0, was written by this run.",
            True,
        ),
        (
            Authors(task="suite", baseline="package"),
            BaselineFunction(call="liger:rms", package="liger-kernel 0.5.2"),
            "the baseline, `liger:rms`, comes from the installed package liger-kernel 0.5.2, whose",
            False,
        ),
        (
            Authors(task="suite"),
            BaselineFunction(call="mine:f", files={"mine.py": "f = 3"}),
            "`mine:f`, is the submitter's own. Nobody else has said that the task asks for the right thing, or that",
            True,
        ),
    ],
)
def test_it_is_said_who_wrote_task_and_baseline(
    authors: Authors, function: BaselineFunction | None, said: str, doubtful: bool
) -> None:
    words = authorship_words(softmax().model_copy(update={"authors": authors, "baseline_function": function}))
    assert said in words and ("Nobody else" in words) is doubtful


@pytest.mark.parametrize(
    ("objective", "weights", "said"),
    [
        ("geomean", (3.0,), ""),
        ("total_time", (3.0,), "Σ weight × time of 1 workload"),
        ("total_time", (1.0, 1.0), "Σ weight × time of 2 workloads"),
        ("geomean", (2.0, 2.0), "geometric mean of 2 workloads"),
        ("geomean", (1.0, 2.0), "weighted geometric mean of 2 workloads"),
    ],
)
def test_what_the_objectives_times_are_of(objective: Objective, weights: tuple[float, ...], said: str) -> None:
    workloads = tuple(Workload(name=f"w{at}", dims={}, weight=weight) for at, weight in enumerate(weights))
    found = objective_words(objective, Task(name="t", language="cpp", arguments=(), reference="", workloads=workloads))
    assert found == said
    inner = f", {said}" if said else ""
    assert f"(baseline / speed-up{inner})," in gain_words(2.0, 1.0, Interval(estimate=2.0, low=1.0, high=3.0), found)
    assert gain_words(2.0, 2.0, None, found).endswith(f"(1×{inner})")


@pytest.mark.parametrize(
    ("low", "disturbed", "said"),
    [
        (1.9, False, "]"),
        (1.9, True, "] (others kept the machine busy)"),
        (0.9, False, "] (the interval includes 1)"),
        (0.9, True, "] (others kept the machine busy, the interval includes 1)"),
    ],
)
def test_what_makes_a_gain_doubtful_is_said_behind_it(low: float, disturbed: bool, said: str) -> None:
    told = gain_words(2.0, 1.0, Interval(estimate=2.0, low=low, high=3.0), disturbed=disturbed)
    assert told.endswith(said)


@pytest.mark.parametrize(
    ("observed", "hit", "told"), [(None, None, "N/A"), (0.6, None, "unknown"), (0.6, True, "yes"), (0.6, False, "no")]
)
def test_a_prediction_that_noise_leaves_open_is_not_one_that_was_not_tried(
    observed: float | None, hit: bool | None, told: str
) -> None:
    assert ScoredPrediction.model_construct(observed_factor=observed, hit=hit).borne_out == told
