"""Computes speed-ups with their intervals from paired timings, and compares them with a threshold (pure).

The unit is the pair: incumbent and candidate measured one right after the other, so that a slow phase of the machine
affects both and cancels in their ratio. A workload's statistic is the median of its paired log ratios, which a burst in
one half of a few pairs does not change.

The interval resamples that median. Resampling the pairs themselves (the plain bootstrap) gives intervals that are too
short in the far tails, which the correction for many candidates and looks needs: with 20 pairs, its rate of false calls
is 0.6 % where 0.2 % is wanted. Therefore the median's rank is drawn from Binomial(pairs, 1/2), its distribution in the
sign test. For one workload the interval is then the exact sign-test interval for any distribution of the noise. Several
workloads are combined draw by draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import comb
from statistics import median
from typing import TYPE_CHECKING, Literal

from tools.artifacts import UNBOUNDED_RATIO, Interval

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

Objective = Literal["total_time", "geomean"]
Decision = Literal["faster", "not_faster", "more", "inconclusive"]

RESAMPLES = 10_000


@dataclass(frozen=True)
class PairedTimes:
    """The pairs of one workload: two tuples of the same length, in seconds per call."""

    workload: str
    weight: float
    incumbent: tuple[float, ...]
    candidate: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.incumbent or len(self.incumbent) != len(self.candidate):
            raise ValueError(
                f"workload {self.workload!r} needs the same number of incumbent and candidate times, and at least one"
            )
        if not all(0 < t < float("inf") for t in (*self.incumbent, *self.candidate)):
            raise ValueError(f"workload {self.workload!r} has a time that is not a positive number of seconds")
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"workload {self.workload!r} has the weight {self.weight}; a weight must be positive")

    @cached_property
    def log_ratios(self) -> Floats:
        """Sorted log(incumbent / candidate) of the pairs; above 0 the candidate was faster."""
        import numpy as np

        return np.sort(np.log(np.asarray(self.incumbent) / np.asarray(self.candidate)))

    @property
    def incumbent_s(self) -> float:
        """Median seconds per call of the incumbent."""
        return median(self.incumbent)

    @property
    def candidate_s(self) -> float:
        """Median seconds per call of the candidate."""
        return median(self.candidate)


def pool_by_workload(samples: Sequence[PairedTimes]) -> tuple[PairedTimes, ...]:
    """Return one sample per workload from the batches of several jobs, in order of first appearance."""
    grouped: dict[str, list[PairedTimes]] = {}
    for sample in samples:
        grouped.setdefault(sample.workload, []).append(sample)
    return tuple(
        PairedTimes(
            name,
            group[0].weight,
            tuple(t for sample in group for t in sample.incumbent),
            tuple(t for sample in group for t in sample.candidate),
        )
        for name, group in grouped.items()
    )


def speedup_interval(
    samples: Sequence[PairedTimes],
    objective: Objective = "total_time",
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return the speed-up incumbent / candidate of the objective with its two-sided interval.

    `total_time`: sum of weight x incumbent's median over sum of weight x (incumbent's median / paired speed-up). That
    is the weighted total, with the candidate's time expressed by the paired ratio so that common drift cancels; the
    incumbent's shares of time are taken as measured. `geomean`: weighted geometric mean of the workloads' paired
    speed-ups.

    The result is deterministic for a seed. For independent pairs of one workload, the interval lies falsely above 1
    with a probability of at most (1 - confidence) / 2. Nothing is known beyond the smallest and the largest pair: with
    fewer than `least_pairs` the interval is not `bounded`.
    """
    import numpy as np

    if not samples:
        raise ValueError("an interval needs at least one workload")
    rng = np.random.default_rng(seed)
    tail = (1.0 - confidence) / 2.0
    draws = _draw_count(tail, resamples)
    weights = np.array([s.weight * (s.incumbent_s if objective == "total_time" else 1.0) for s in samples])
    weights /= weights.sum()
    lows, highs = np.empty((2, len(samples), draws))
    for row, sample in enumerate(samples):
        ladder = np.concatenate(([-np.inf], sample.log_ratios, [np.inf]))
        # Evenly spaced and shuffled: each workload's own distribution is exact, and only their combination is random.
        rank = np.searchsorted(_median_rank_distribution(len(sample.incumbent)), (rng.permutation(draws) + 0.5) / draws)
        # The true median lies between the rank-th and the next pair, which bound it from below and from above.
        lows[row] = ladder[rank]
        highs[row] = ladder[rank + 1]
    estimate = _combine_workloads(np.array([[np.median(s.log_ratios)] for s in samples]), weights, objective)
    low = np.quantile(_combine_workloads(lows, weights, objective), tail, method="lower")
    high = np.quantile(_combine_workloads(highs, weights, objective), 1.0 - tail, method="higher")
    return Interval(
        estimate=float(np.exp(estimate[0])),
        low=max(float(np.exp(low)), 1 / UNBOUNDED_RATIO),
        high=min(float(np.exp(high)), UNBOUNDED_RATIO),
        confidence=confidence,
    )


def interval_product(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of a product of factors, end by end; 1 for no factors. The error probabilities of the factors
    add up."""
    factors = tuple(intervals)
    ends = {end: math.prod(getattr(one, end) for one in factors) for end in ("estimate", "low", "high")}
    return Interval(**ends, confidence=max(0.0, 1 - sum(1 - one.confidence for one in factors)))


def least_pairs(confidence: float, workloads: int = 1) -> int:
    """Return the fewest pairs per workload for which an interval at `confidence` has two ends, for any objective."""
    tail = (1.0 - confidence) / 2.0
    draws = _draw_count(tail, RESAMPLES)
    pairs = 1
    # Draws beyond the outermost pair, of all workloads together, must be fewer than the quantile cuts off.
    while workloads * int(draws / 2**pairs + 0.5) > int(tail * (draws - 1)):
        pairs += 1
    return pairs


def _draw_count(tail: float, resamples: int) -> int:
    """Return the number of draws of which about fifty lie beyond the quantile `tail`, at least `resamples`."""
    return max(resamples, int(50 / tail))


def _median_rank_distribution(pairs: int) -> Floats:
    """Return P(at most r of `pairs` lie below the true median) for r = 0 … pairs: Binomial(pairs, 1/2), accumulated in
    exact integers."""
    import numpy as np

    return np.array([total / 2**pairs for total in accumulate(comb(pairs, r) for r in range(pairs + 1))])


def _combine_workloads(log_ratios: Floats, weights: Floats, objective: Objective) -> Floats:
    """Return the log speed-up of the objective for each column; rows are workloads."""
    import numpy as np

    if objective == "geomean":
        return np.asarray(weights @ log_ratios)
    with np.errstate(divide="ignore"):  # a time of 0 means an open upper end
        return -np.log(weights @ np.exp(-log_ratios))


def noise_floor(
    samples: Sequence[PairedTimes], objective: Objective = "total_time", confidence: float = 0.95, seed: int = 0
) -> float:
    """Return the relative distance from 1 of this statistic for a kernel measured against a copy of itself (0.03 = 3
    %).

    Raises ValueError for fewer than `least_pairs` pairs, because the interval is then open.
    """
    interval = speedup_interval(samples, objective, confidence, seed)
    if not interval.is_bounded:
        raise ValueError(
            f"a noise floor at {confidence:.2%} needs {least_pairs(confidence, len(samples))} pairs a workload"
        )
    return max(abs(interval.low - 1.0), abs(interval.high - 1.0))


def bonferroni_confidence(confidence: float, max_looks: int, k: int) -> float:
    """Return the confidence that each single look at each of `k` candidates must have so that all together keep
    `confidence` (Bonferroni)."""
    return 1.0 - (1.0 - confidence) / (max_looks * k)


def compare_samples(
    interval: Interval, threshold: float, looks: int, max_looks: int, k: int, *, confidence: float = 0.95
) -> Decision:
    """Compare a measured gain with the threshold. This is the only place that does; a sequential test would replace
    this function and `bonferroni_confidence`.

    `threshold` is the gain that must be exceeded (0.02 = 2 %), `looks` the number of looks at these pairs, this one
    included, and `k` the number of candidates that compete for one place. `interval` must have a confidence of
    `bonferroni_confidence(confidence, max_looks, k)` or more; otherwise ValueError is raised.

    Returns `faster` if even the lower end exceeds the threshold and `not_faster` if even the upper end does not. In
    between, which includes an open end, it returns `more` while looks are left and the estimate is not futile, or else
    `inconclusive`. With k candidates that are all equal to the incumbent, the probability that any is ever called
    faster is at most 1 - confidence.
    """
    needed = bonferroni_confidence(confidence, max_looks, k)
    if interval.confidence < needed - 1e-12:
        raise ValueError(
            f"the interval's confidence {interval.confidence:.6f} is below {needed:.6f}, which {k} candidates need"
        )
    if interval.low > 1.0 + threshold:
        return "faster"
    if interval.high <= 1.0 + threshold:
        return "not_faster"
    if looks >= max_looks or is_futile(interval, threshold):
        return "inconclusive"
    return "more"


def is_futile(interval: Interval, threshold: float) -> bool:
    """Whether more pairs would be wasted, because the estimate is less than half the way to the threshold.

    Stopping early can only cost power and never raises the probability of a false "faster".
    """
    return interval.estimate < 1.0 + threshold / 2


def is_surely_slower(interval: Interval, margin: float) -> bool:
    """Whether a workload is surely slower (the interval excludes 1) and, by the estimate, takes more than 1 + margin
    times as long."""
    return interval.high < 1.0 and seems_slower(interval, margin)


def seems_slower(interval: Interval, margin: float) -> bool:
    """Whether a workload takes more than 1 + margin times as long by the estimate alone."""
    return interval.estimate < 1.0 / (1.0 + margin)
