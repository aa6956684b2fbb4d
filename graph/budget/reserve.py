"""The estimated device time of the final benchmark, which a capped run reserves (F7)."""

from __future__ import annotations

from graph.settings import Settings
from tools.artifacts import Artifact, Record
from tools.executors.base import DeviceKind
from tools.judge import evidence

CONTESTANT_ROUND_S = 0.1
"""Seconds of one contestant in one round besides its calls: process, buffers, checks."""
FRAMEWORK_START_S, FRAMEWORK_WORKLOAD_S = 5.0, 3.0
"""Seconds of a framework of torch: to start, and to warm up or compile for each workload."""
V0_JOBS_S, ASSUMED_SAMPLE_S = 20.0, 0.05
"""Seconds assumed before v0 is measured: its jobs without the A/A blocks, and one sample of these."""


class Reserve(Artifact):
    """The record "reserve": seconds of `budget.device_s` that are reserved for the final benchmark."""

    seconds: float


def estimate_benchmark_seconds(
    sample_s: float, workloads: int, settings: Settings, device: DeviceKind, rivals: int = 0
) -> float:
    """Estimate the device seconds of the final benchmark from above: with all repeats, and a best kernel as slow as v0.

    `sample_s`: seconds of one sample of v0 with its overhead. In 35 finished runs with one to three workloads, 27 on a
    shared CPU and 8 on an H200, the benchmark took 0.16 to 0.99 of the estimate.
    """
    judge_settings, contestants = settings.judge, settings.benchmark
    rounds = max(judge_settings.benchmark_rounds, judge_settings.least_rounds(workloads))
    rounds += max(rounds // 2, 2)
    # On a GPU torch.compile also runs with its longest search.
    frameworks = contestants.eager + contestants.compile * (1 if device == "cpu" else 2) + rivals
    # A linked run also times the kernel that the first of them began with.
    runs = rounds * workloads * (2 + (settings.linked_to is not None) + frameworks)
    # A call to warm up and one that is timed.
    return runs * (2 * sample_s + CONTESTANT_ROUND_S) + frameworks * (
        FRAMEWORK_START_S + workloads * FRAMEWORK_WORKLOAD_S
    )


def seconds_per_sample(calibration: Record) -> float:
    """Return the seconds of one sample in v0's A/A blocks, including its inputs and the check of its outputs."""
    result = evidence.Timing.model_validate(calibration.payload).result
    return result.telemetry.seconds / (2 * sum(len(w.pairs) + w.repeated + w.discarded for w in result.workloads))


def device_cap_warnings(settings: Settings, workloads: int, device: DeviceKind) -> tuple[str, ...]:
    """Return one sentence if `budget.device_s` is probably too small for v0 and the final benchmark; else empty."""
    cap = settings.budget.device_s
    pairs = max(settings.judge.calibration_pairs, settings.judge.least_rounds(workloads))
    least = (
        V0_JOBS_S
        + 2 * pairs * workloads * ASSUMED_SAMPLE_S
        + estimate_benchmark_seconds(ASSUMED_SAMPLE_S, workloads, settings, device)
    )
    if cap is None or cap >= least:
        return ()
    take = (
        f"may be less than v0 and the final benchmark take (about {least:.0f} s by the estimate), which would "
        f"leave nothing for the search"
    )
    return (f"budget.device_s: {cap:g} s {take}; give more than {least:.0f} s",)
