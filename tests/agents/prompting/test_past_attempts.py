"""Past attempts in few words."""

from __future__ import annotations

from agents.artifacts import RunAttempt
from agents.prompting.past_attempts import summarize_earlier_runs, summarize_run_attempts
from knowledge_base.artifacts import Attempt, source_digest
from tools.artifacts import Interval

GAIN = Interval(estimate=1.5, low=1.4, high=1.6)
LOSS = Interval(estimate=0.9, low=0.8, high=0.95)


def tried(
    iteration: int, verdict: str, *methods: str, reason: str = "why", planned: tuple[str, ...] = ()
) -> RunAttempt:
    gained = LOSS if verdict == "reject_perf" else GAIN
    return RunAttempt(
        iteration=iteration,
        methods=methods,
        knobs={"TILE": "8"},
        verdict=verdict,
        reason=reason,
        planned=planned or methods,
        speedup=gained,
    )


def lines(run: list[RunAttempt], most: int | None = None) -> list[str]:
    return [item.levels[0] for item in summarize_run_attempts(run, most).items]


def test_each_set_of_methods_is_resolved_pending_or_to_avoid_by_its_last_verdict_and_what_the_coder_left_out_is_pending() -> (
    None
):
    run = [
        tried(1, "accept", "a", "b", planned=("a", "b", "f")),
        tried(2, "reject_perf", "c"),
        tried(3, "inconclusive", "d"),
    ]
    run += [tried(4, "reject_correctness", "e"), tried(7, "inconclusive", "h", "g"), tried(5, "reject_perf", "g", "h")]
    run += [tried(6, "reject_perf", "g", "h", reason="slower")]
    assert summarize_run_attempts(run, None).counts == {"resolved": 1, "pending": 4, "avoid": 1}
    assert lines(run) == [
        "resolved: a + b: accept; last v1 (TILE=8, 1.5x [1.4, 1.6])",
        "pending: g + h: reject_perf x2, inconclusive; last v7 (TILE=8): why",
        "pending: e: reject_correctness; last v4 (TILE=8): why",
        "pending: d: inconclusive; last v3 (TILE=8): why",
        "pending: f: not written; last v1: planned, but left out by the coder",
        "avoid: c: reject_perf; last v2 (TILE=8): why",
    ]


def test_the_oldest_attempt_is_shortened_first_and_none_is_left_out() -> None:
    run = [tried(n, "reject_perf", f"method-{n}", reason="because " * 40) for n in range(1, 41)]
    told = summarize_run_attempts(run, 1500)
    assert [item.rank for item in told.items] == list(range(40)), "the newest stands first and is shortened last"
    shortest = summarize_run_attempts(run, 300)
    assert all(f"method-{n}" in "\n".join(item.levels[-1] for item in shortest.items) for n in range(1, 41))


EARLIER = Attempt(
    operator="softmax", language="cpp", architecture="x86_64", dtype="float32", shape_class="2^25B", bottleneck="memory",
    methods=("a",), result="failure", verdict="reject_perf", effect=LOSS, evidence="0123456789abcdef", iteration=1, note="not faster",
)  # fmt: skip


def test_earlier_runs_name_their_record_and_what_came_of_this_very_baseline_its_knobs() -> None:
    won = {"verdict": "accept", "effect": GAIN, "methods": ("b",), "note": "The task is the same.; Faster: 1.5x"}
    known = {
        "methods": ("c",),
        "evidence": "r1",
        "effect": None,
        "knobs": {"TILE": "8"},
        "before": source_digest("source"),
    }
    here = EARLIER.model_copy(update={**won, **known})
    told = summarize_earlier_runs(
        (EARLIER, EARLIER.model_copy(update={**won, "before": source_digest("other")}), here), None, "source"
    )
    assert sorted(item.levels[0] for item in told.items) == [
        "avoid: a: reject_perf; last record 0123456789abcdef (limited by memory, float32, 2^25B): not faster",
        "resolved: b: accept; last record 0123456789abcdef (1.5x [1.4, 1.6], limited by memory, float32, 2^25B)",
        "resolved: c: accept; last record r1 (on this baseline, TILE=8, limited by memory, float32, 2^25B)",
    ]
