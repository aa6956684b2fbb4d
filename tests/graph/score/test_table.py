from __future__ import annotations

import math
from pathlib import Path

import pytest

from graph.score import table
from graph.score.result import BEST_OF_TORCH, Result, sol_score
from tools.artifacts import Interval


def factor(estimate: float) -> Interval:
    return Interval(estimate=estimate, low=0.9 * estimate, high=1.1 * estimate)


def finished(name: str, on_device: bool = False, **against: float) -> Result:
    told = {contestant: factor(estimate) for contestant, estimate in against.items()}
    alone = {contestant: factor(2 * estimate) for contestant, estimate in against.items()} if on_device else {}
    clock = "launch-included" if on_device else "wall"
    return Result(problem=name, status="finished", version="v1", clock=clock, speedups=told, device_only=alone, usd=0.5)


FAILED = Result(problem="wrong", status="failed", reason="v0 is wrong", code=2)


@pytest.mark.parametrize(
    ("factors", "fast", "geomean", "failures"),
    [
        ([1.0, 1.2, 2.0], {"0": 1.0, "1": 2 / 3, "1.2": 1 / 3, "2": 0.0}, (1.0 * 1.2 * 2.0) ** (1 / 3), 0),
        ([4.0, None], {"0": 0.5, "1": 0.5, "1.2": 0.5, "2": 0.5}, 2.0, 1),
        ([0.25, 0.25, None, None], {"0": 0.5, "1": 0.0, "1.2": 0.0, "2": 0.0}, 0.5, 2),
        ([None], {"0": 0.0, "1": 0.0, "1.2": 0.0, "2": 0.0}, 1.0, 1),
    ],
)
def test_shares_are_of_all_problems_above_the_threshold_and_failures_count_as_one(
    factors: list[float | None], fast: dict[str, float], geomean: float, failures: int
) -> None:
    results = [FAILED if one is None else finished("x", eager=one) for one in factors]
    found = table.standing_against(results, "eager", "launch-included")
    assert found.fast == pytest.approx(fast) and found.failures == failures and math.isclose(found.geomean, geomean)


@pytest.mark.parametrize(
    ("roof", "torch", "score"),
    [(0.5, 1.0, 0.5), (0.5, 2.0, 0.75), (1.0, 1.0, 1.0), (1.2, 1.4, 1.0), (0.8, 0.7, 0.0), (0.5, None, None)],
)
def test_the_sol_score_is_a_half_at_torch_and_one_at_the_roof(
    roof: float, torch: float | None, score: float | None
) -> None:
    assert sol_score(roof, factor(torch) if torch else None) == score


def test_a_run_that_accepted_nothing_is_as_fast_as_its_baseline_and_no_failure() -> None:
    found = table.standing_against(
        [finished("kept", eager=0.5), finished("won", baseline=4.0)], "baseline", "launch-included"
    )
    assert (found.failures, found.geomean) == (0, 2.0)


def test_by_the_device_alone_a_gpu_problem_counts_with_that_clock_and_a_cpu_problem_with_its_only_one() -> None:
    results = [finished("gpu", on_device=True, eager=1.0), finished("cpu", eager=8.0)]
    assert math.isclose(table.standing_against(results, "eager", "device-only").geomean, 4.0)
    assert math.isclose(table.standing_against(results, "eager", "launch-included").geomean, math.sqrt(8))


@pytest.mark.parametrize(
    ("codes", "code"),
    [([], 0), ([None], 4), ([6, 6], 6), ([6, 4], 4)],
    ids=["all done", "killed", "all wait", "one broke"],
)
def test_the_exit_code_says_whether_something_is_left_to_do(codes: list[int | None], code: int) -> None:
    left = [Result(problem=str(at), status="unfinished", code=one) for at, one in enumerate(codes)]
    assert table.score_suite("suite", [finished("done", eager=1.0), FAILED, *left]).code == code


def test_another_library_is_one_line_over_the_problems_that_name_it() -> None:
    named = finished("named", eager=2.0, liger=0.5).model_copy(update={"libraries": ("liger",)})
    failed = FAILED.model_copy(update={"libraries": ("liger",)})
    found = table.score_suite("suite", [named, finished("other", eager=2.0), failed]).standings
    (liger,) = (one for one in found if one.contestant == "liger")
    assert (liger.problems, liger.failures) == (2, 1) and math.isclose(liger.geomean, 0.5**0.5)


def test_the_pages_show_losses_short_calls_and_failures_apart_and_escape_what_others_wrote(tmp_path: Path) -> None:
    lost = finished("loser", eager=0.5, **{BEST_OF_TORCH: 0.5})
    short = finished("short", eager=3.0).model_copy(update={"shortest_s": 9e-6, "doubts": ("<b>busy</b>",)})
    cublas = finished("cublas", eager=1.0).model_copy(update={"library_share": 0.95})
    table.write_score("suite", [lost, short, cublas, FAILED, Result(problem="waits", status="unfinished")], tmp_path)
    page, html = (tmp_path / "score.md").read_text(), (tmp_path / "score.html").read_text()
    problems, apart = page.index("## Problems"), page.index("## Calls below 50 us")
    library = page.index("## Mostly a library of torch")
    assert (
        problems
        < page.index("| loser | v1")
        < library
        < page.index("| cublas | v1")
        < apart
        < page.index("| short | v1")
        < page.index("- wrong: v0 is wrong")
    )
    assert (
        "0.5× [0.45, 0.55] (a loss)" in page
        and "- waits:" in page
        and "&lt;b&gt;busy" in html
        and "<b>busy" not in html
    )
    again = (tmp_path / "score.json").read_bytes()
    assert table.Score.model_validate_json(again).results[3] == FAILED
