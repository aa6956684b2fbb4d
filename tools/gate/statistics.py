"""From paired timings to a speed-up with its interval, and from that to a decision (pure).

The unit is the pair: incumbent and candidate measured one right after the other, so that whatever slows the machine
down for a while slows both and cancels in their ratio. A workload's statistic is the median of its paired log ratios,
which a burst that hits one half of a few pairs cannot move.

The interval resamples that median. Resampling the pairs themselves (the plain bootstrap) reaches too short in the far
tails that the correction for many candidates and many looks asks for: with 20 pairs it calls false at 0.6 % where 0.2 %
was wanted. So the median's rank is drawn from Binomial(pairs, 1/2), the distribution that the sign test gives it. For
one workload the interval is then the exact sign-test interval, whatever the noise looks like, and several workloads are
combined draw by draw.
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
    """The pairs of one workload; seconds a call, equally long."""

    workload: str
    weight: float
    incumbent: tuple[float, ...]
    candidate: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.incumbent or len(self.incumbent) != len(self.candidate):
            raise ValueError(f"workload {self.workload!r} needs as many incumbent as candidate times, and at least one")
        if not all(0 < t < float("inf") for t in (*self.incumbent, *self.candidate)):
            raise ValueError(f"workload {self.workload!r} holds a time that is not a positive number of seconds")
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"workload {self.workload!r} has weight {self.weight}; a weight is positive")

    @cached_property
    def log_ratios(self) -> Floats:
        """Sorted log(incumbent / candidate) of each pair; above 0: the candidate was faster."""
        import numpy as np

        return np.sort(np.log(np.asarray(self.incumbent) / np.asarray(self.candidate)))

    @property
    def incumbent_s(self) -> float:
        """Median seconds a call."""
        return median(self.incumbent)

    @property
    def candidate_s(self) -> float:
        """Median seconds a call."""
        return median(self.candidate)


def pool_by_workload(samples: Sequence[PairedTimes]) -> tuple[PairedTimes, ...]:
    """One sample a workload from the batches of several jobs, in order of first appearance."""
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
    """Speed-up incumbent / candidate of the objective, with its two-sided interval.

    `total_time`: sum of weight x incumbent's median over sum of weight x (incumbent's median / paired speed-up); that
    is the weighted total, with the candidate's time expressed through the paired ratio so that common drift cancels.
    The incumbent's shares of time are taken as measured. `geomean`: weighted geometric mean of the workloads' paired
    speed-ups.

    Deterministic for a seed. False "above 1" at most (1 - confidence) / 2 for independent pairs of one workload. Beyond
    the smallest and the largest pair nothing is known: with fewer than `least_pairs` the interval is not `bounded`.
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
        # Evenly spread, shuffled: each workload's own distribution is met exactly, only their combination is drawn.
        rank = np.searchsorted(_median_rank_distribution(len(sample.incumbent)), (rng.permutation(draws) + 0.5) / draws)
        # The true median lies between the rank-th and the next pair: the lower end bounds it from below, the upper from
        # above.
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
    """What factors come to one after another, end by end; 1 of none. What each interval may miss adds up in the
    confidence."""
    factors = tuple(intervals)
    ends = {end: math.prod(getattr(one, end) for one in factors) for end in ("estimate", "low", "high")}
    return Interval(**ends, confidence=max(0.0, 1 - sum(1 - one.confidence for one in factors)))


def least_pairs(confidence: float, workloads: int = 1) -> int:
    """The fewest pairs a workload whose interval at `confidence` has two ends, whatever the objective."""
    tail = (1.0 - confidence) / 2.0
    draws = _draw_count(tail, RESAMPLES)
    pairs = 1
    # Draws beyond the outermost pair, of all workloads together, must be fewer than the quantile cuts off.
    while workloads * int(draws / 2**pairs + 0.5) > int(tail * (draws - 1)):
        pairs += 1
    return pairs


def _draw_count(tail: float, resamples: int) -> int:
    """Number of draws with which about fifty lie beyond the quantile `tail`, at least `resamples`."""
    return max(resamples, int(50 / tail))


def _median_rank_distribution(pairs: int) -> Floats:
    """P(at most r of `pairs` lie below the true median), r = 0 … pairs: Binomial(pairs, 1/2), cumulated in exact
    integers."""
    import numpy as np

    return np.array([total / 2**pairs for total in accumulate(comb(pairs, r) for r in range(pairs + 1))])


def _combine_workloads(log_ratios: Floats, weights: Floats, objective: Objective) -> Floats:
    """Log speed-up of the objective for each column; rows are workloads."""
    import numpy as np

    if objective == "geomean":
        return np.asarray(weights @ log_ratios)
    with np.errstate(divide="ignore"):  # no time at all is an open upper end
        return -np.log(weights @ np.exp(-log_ratios))


def noise_floor(
    samples: Sequence[PairedTimes], objective: Objective = "total_time", confidence: float = 0.95, seed: int = 0
) -> float:
    """How far from 1 the same statistic strays when a kernel is measured against a copy of itself (relative, 0.03 = 3
    %).

    ValueError for fewer than `least_pairs`, which show no such distance.
    """
    interval = speedup_interval(samples, objective, confidence, seed)
    if not interval.is_bounded:
        raise ValueError(
            f"a noise floor at {confidence:.2%} needs {least_pairs(confidence, len(samples))} pairs a workload"
        )
    return max(abs(interval.low - 1.0), abs(interval.high - 1.0))


def bonferroni_confidence(confidence: float, max_looks: int, k: int) -> float:
    """Confidence that each single look at each of `k` candidates must have so that all together keep `confidence`
    (Bonferroni)."""
    return 1.0 - (1.0 - confidence) / (max_looks * k)


def compare_samples(
    interval: Interval, threshold: float, looks: int, max_looks: int, k: int, *, confidence: float = 0.95
) -> Decision:
    """The one place that says whether the measured gain is real; a sequential test would replace this function and
    `bonferroni_confidence`.

    `threshold` is the gain that must be exceeded (0.02 = 2 %), `looks` how often these pairs have been looked at, this
    time included, `k` how many candidates compete for the same place. `interval` must be at `corrected(confidence,
    max_looks, k)` or above.

    faster: even the lower end exceeds it. not_faster: even the upper end does not. Between (an open end is between):
    `more` pairs while looks are left and the estimate leaves hope, else inconclusive. With k candidates that are all
    equal to the incumbent, the chance that any is ever called faster is at most 1 - confidence.
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
    """True when more pairs would be wasted: the estimate has not come half the way to the threshold.

    Giving up early can only cost power, never raise the chance of a false "faster".
    """
    return interval.estimate < 1.0 + threshold / 2


def is_surely_slower(interval: Interval, margin: float) -> bool:
    """True when a workload is surely slower (the interval excludes 1) and, by the estimate, takes more than 1 +
    margin times as long."""
    return interval.high < 1.0 and seems_slower(interval, margin)


def seems_slower(interval: Interval, margin: float) -> bool:
    """True when a workload takes more than 1 + margin times as long by the estimate, however sure that is."""
    return interval.estimate < 1.0 / (1.0 + margin)
