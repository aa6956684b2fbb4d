"""What the final benchmark will take on the device: estimated, so that a capped run keeps it (F7)."""

from __future__ import annotations

from graph.settings import Settings
from tools.artifacts import Artifact, Record
from tools.executors.base import DeviceKind
from tools.judge import evidence

SITTING_S = 0.1
"""Of one contestant in one round, beside its calls: its process, its slots, what is checked."""
FRAMEWORK_S, SHAPE_S = 5.0, 3.0
"""Of torch under eager or compile: to start, and to warm up or compile for each workload."""
V0_S, SAMPLE_S = 20.0, 0.05
"""Assumed before anything is measured: v0's jobs but for its A/A blocks, and a sample of them."""


class Reserve(Artifact):
    """Record "reserve": what is kept of `budget.device_s` for the final benchmark."""

    seconds: float


def benchmark_s(sample_s: float, workloads: int, settings: Settings, device: DeviceKind, rivals: int = 0) -> float:
    """Device seconds of the final benchmark, rather too many: all repeats are counted, and a best kernel that is as
    slow as v0.

    `sample_s`: of a sample of v0 with what is around it. In 35 finished runs, 27 on a shared CPU and 8 on an H200, of
    one workload to three, the benchmark took 0.16 to 0.99 of this.
    """
    policy, wanted = settings.judge, settings.benchmark
    rounds = max(policy.benchmark_rounds, policy.least_rounds(workloads))
    rounds += max(rounds // 2, 2)
    # On a GPU torch.compile also runs with its longest search.
    frameworks = wanted.eager + wanted.compile * (1 if device == "cpu" else 2) + rivals
    # A linked run also times the kernel that the first of them began with.
    sittings = rounds * workloads * (2 + (settings.linked_to is not None) + frameworks)
    # A call to warm up and one that is timed.
    return sittings * (2 * sample_s + SITTING_S) + frameworks * (FRAMEWORK_S + workloads * SHAPE_S)


def sample_s(calibration: Record) -> float:
    """Seconds of one checked sample in v0's A/A blocks, making and checking its inputs and outputs included."""
    result = evidence.Timing.model_validate(calibration.payload).result
    return result.telemetry.seconds / (2 * sum(len(w.pairs) + w.repeated + w.discarded for w in result.workloads))


def too_small(settings: Settings, workloads: int, device: DeviceKind) -> tuple[str, ...]:
    """That `budget.device_s` may not do for v0 and the final benchmark alone, in one sentence; empty: it may, or
    there is none."""
    cap = settings.budget.device_s
    pairs = max(settings.judge.calibration_pairs, settings.judge.least_rounds(workloads))
    least = V0_S + 2 * pairs * workloads * SAMPLE_S + benchmark_s(SAMPLE_S, workloads, settings, device)
    if cap is None or cap >= least:
        return ()
    take = (
        f"may be less than v0 and the final benchmark take (about {least:.0f} s by the estimate), which would "
        f"leave nothing for the search"
    )
    return (f"budget.device_s: {cap:g} s {take}; give more than {least:.0f} s",)
