"""The one bottleneck of a kernel, which run, diagnosis, report and prompts show alike. Pure.

Counters decide where they were collected; without them the roofs do, and far from the roofs the findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tools.analysis.rules import SEVERITIES
from tools.artifacts import Axis, Bound, Finding, Profile, Quantity
from tools.roofline.hardware import Headroom

FULL_PERCENT = 60.0
"""Percent of a peak below which latency binds, not memory or computation: the threshold of NVIDIA's rule
SOLBottleneck."""
NEARLY_FULL_PERCENT, BALANCED_POINTS = 80.0, 10.0
"""Percent from which that rule calls a unit full, and percentage points within which it calls two units balanced."""
IDLE_SHARE = 0.2
"""Least idle share of the multiprocessors' time that counts as low occupancy; the rule partial_wave uses the same."""
AT_ROOF_HEADROOM = 0.25
"""Headroom of an axis below which that axis is the bottleneck, whatever the findings are."""
PIPE_METRIC = "sm__inst_executed_pipe_{}.avg.pct_of_peak_sustained_active"
ARITHMETIC_PIPES = ("alu", "fma", "fp64", "xu")
"""Pipes that compute; the other pipes move operands or control the flow."""
TENSOR_PIPE_METRIC = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
MEMORY_BUSY_METRICS = (
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
)
ISSUE_METRIC = "smsp__issue_active.avg.pct_of_peak_sustained_active"
COMPUTE_BUSY_METRIC = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


def find_bottleneck(findings: Iterable[Finding], headroom: Headroom, profiles: Sequence[Profile] = ()) -> Bound:
    """Return the bottleneck: what bounds most of the first profiled call's time, if its launches were counted.

    Else it is the roof that the kernel is near, else the axis with the most severe findings, else the binding roof.
    """
    times: dict[Bound, float] = {}
    for launch in next((profile.launches for profile in profiles if profile.launches), ()):
        bound, _ = find_bound(launch.metrics)
        times[bound] = times.get(bound, 0.0) + launch.share
    times.pop("unknown", None)
    if times:
        return max(times, key=times.__getitem__)
    if headroom.memory is not None and headroom.memory < AT_ROOF_HEADROOM:
        return "memory"
    if headroom.compute is not None and headroom.compute < AT_ROOF_HEADROOM:
        return "compute"
    weights: dict[Axis, int] = {}
    for finding in findings:
        weights[finding.axis] = weights.get(finding.axis, 0) + len(SEVERITIES) - SEVERITIES.index(finding.severity)
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    if not ranked:
        return headroom.bound
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        return "mixed"
    return ranked[0][0]


def find_bound(metrics: Mapping[str, Quantity]) -> tuple[Bound, float | None]:
    """What bounds the kernel, and by how many percentage points.

    `memory` or `compute`: the one with the busier unit over the whole time of the kernel. `mixed`: both are full and
    NVIDIA's rule calls them balanced. Where no unit is full, `occupancy` if there are blocks for all multiprocessors
    and idle multiprocessors lose more than the low activity of the others; else `latency`.
    """

    def largest(names: Sequence[str]) -> float | None:
        return max((metrics[name].value for name in names if name in metrics), default=None)

    active, elapsed, blocks = (
        largest([name])
        for name in ("sm__cycles_active.avg", "gpc__cycles_elapsed.max", "ncu.blocks_per_multiprocessor")
    )
    share = min(active / elapsed, 1.0) if active and elapsed else 1.0
    """Share of the time in which a multiprocessor has work; rates that are counted only then are scaled by it."""
    memory = largest(MEMORY_BUSY_METRICS)
    # The throughput metric of the multiprocessor also counts load and store units.
    arithmetic = [PIPE_METRIC.format(pipe) for pipe in ARITHMETIC_PIPES]
    counts_pipes = any(name in metrics for name in arithmetic)
    computing = (
        largest([COMPUTE_BUSY_METRIC])
        if not counts_pipes
        else (largest([*arithmetic, TENSOR_PIPE_METRIC]) or 0.0) * share
    )
    if memory is None or computing is None:
        return "unknown", None
    issued = (largest([ISSUE_METRIC]) or 0.0) * share
    busiest = max(memory, computing)
    if busiest < FULL_PERCENT <= NEARLY_FULL_PERCENT <= issued:
        return "compute", issued - memory
    if busiest < FULL_PERCENT:
        is_idle = blocks is not None and blocks >= 1 and share <= 1 - IDLE_SHARE and busiest > FULL_PERCENT * share**2
        return ("occupancy" if is_idle else "latency"), FULL_PERCENT - busiest
    gap = abs(memory - computing)
    both_full = all(
        min(memory, computing) >= limit for limit in (FULL_PERCENT, NEARLY_FULL_PERCENT) if busiest >= limit
    )
    if counts_pipes and both_full and gap < BALANCED_POINTS:
        return "mixed", gap
    return ("memory" if memory >= computing else "compute"), gap
