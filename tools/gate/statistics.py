"""Computes speed-ups with their intervals from paired timings, and decides on a candidate after each batch (pure).

The unit is the pair: incumbent and candidate measured one right after the other, so that a slow phase of the machine
affects both and cancels in their ratio. A workload's statistic is the median of its paired log ratios, which a burst in
one half of a few pairs does not change.

The interval follows that median. Resampling the pairs themselves (the plain bootstrap) gives intervals that are too
short in the far tails, which the correction for many candidates and looks needs: with 20 pairs, its rate of false calls
is 0.6 % where 0.2 % is wanted. Therefore the median's rank has its distribution in the sign test, Binomial(pairs, 1/2).
For one workload the interval is then the exact sign-test interval for any distribution of the noise. Several workloads
are combined as independent terms of the objective.

A decision is group-sequential. The intervals of all looks at all candidates between two accepts hold jointly with the
configured confidence (`look_confidence`, `competing_candidates`; sources in docs/decision.md), so that the judge may
stop as soon as one of them decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Literal

from tools.artifacts import UNBOUNDED_RATIO, Interval

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

Objective = Literal["total_time", "geomean"]
Decision = Literal["faster", "not_faster", "more", "inconclusive"]

EXACT_TERMS = 4096
"""Values of a sum of workloads up to which none are merged."""
GROUPS_PER_E_FOLD = 200
"""Groups that values are merged into while their cumulative probability grows by a factor of e."""
FUTILE_POWER_Z = 1.04
"""Standard normal quantile of the power below which further looks are not worth their pairs: 15 %."""


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
    samples: Sequence[PairedTimes], objective: Objective = "total_time", confidence: float = 0.95
) -> Interval:
    """Return the speed-up incumbent / candidate of the objective with its two-sided interval.

    `total_time`: sum of weight x incumbent's median over sum of weight x (incumbent's median / paired speed-up). That
    is the weighted total, with the candidate's time expressed by the paired ratio so that common drift cancels; the
    incumbent's shares of time are taken as measured. `geomean`: weighted geometric mean of the workloads' paired
    speed-ups.

    For independent pairs of one workload, the interval lies falsely above 1 with a probability of at most
    (1 - confidence) / 2. Nothing is known beyond the smallest and the largest pair: with fewer than `least_pairs` the
    interval is not `bounded`.
    """
    import numpy as np

    if not samples:
        raise ValueError("an interval needs at least one workload")
    tail = (1.0 - confidence) / 2.0
    weights = np.array([s.weight * (s.incumbent_s if objective == "total_time" else 1.0) for s in samples])
    weights /= weights.sum()

    def terms(log_ratios: Floats, weight: float | Floats) -> Floats:
        return weight * log_ratios if objective == "geomean" else -weight * np.exp(-log_ratios)

    def speedup(total: float) -> float:
        if objective == "total_time":
            return -1.0 / total if total else UNBOUNDED_RATIO  # a time of 0 means an open upper end
        return float(np.exp(total))

    # The true median lies between the rank-th and the next pair, which bound it from below and from above.
    ladders = [np.concatenate(([-np.inf], s.log_ratios, [np.inf])) for s in samples]
    chances = [_chances_of_ranks(len(s.incumbent)) for s in samples]
    lows = [terms(ladder[:-1], weight) for ladder, weight in zip(ladders, weights, strict=True)]
    highs = [-terms(ladder[1:], weight) for ladder, weight in zip(ladders, weights, strict=True)]
    medians = np.array([np.median(s.log_ratios) for s in samples])
    return Interval(
        estimate=speedup(float(terms(medians, weights).sum())),
        low=max(speedup(_lower_quantile_of_sum(lows, chances, tail)), 1 / UNBOUNDED_RATIO),
        high=min(speedup(-_lower_quantile_of_sum(highs, chances, tail)), UNBOUNDED_RATIO),
        confidence=confidence,
    )


def _chances_of_ranks(pairs: int) -> Floats:
    """Return P(exactly r of `pairs` lie below the true median) for r = 0 … pairs: Binomial(pairs, 1/2)."""
    import numpy as np

    return np.array([comb(pairs, rank) / 2**pairs for rank in range(pairs + 1)])


def _lower_quantile_of_sum(terms: Sequence[Floats], chances: Sequence[Floats], tail: float) -> float:
    """Return the largest value that a sum of independent terms falls below with a probability of at most `tail`.

    `terms` holds the values of each term and `chances` their probabilities; -inf where values of -inf alone have more
    than `tail`. More than `EXACT_TERMS` values are merged before the next term is added: neighbours become their mean,
    finely where the probability of smaller values is small.
    """
    import numpy as np

    finite = [np.isfinite(values) for values in terms]
    open_chance = 1.0 - math.prod(float(p[known].sum()) for p, known in zip(chances, finite, strict=True))
    totals, weights = np.zeros(1), np.ones(1)
    for values, p, known in zip(terms, chances, finite, strict=True):
        if len(totals) > EXACT_TERMS:
            below = np.maximum(open_chance + np.cumsum(weights), 1e-4 * tail)
            groups = np.floor(GROUPS_PER_E_FOLD * np.log(below))
            starts = np.flatnonzero(np.diff(groups, prepend=-np.inf))
            merged = np.add.reduceat(weights, starts)
            totals, weights = np.add.reduceat(totals * weights, starts) / merged, merged
        totals, weights = (
            np.add.outer(totals, values[known]).ravel(),
            np.multiply.outer(weights, p[known]).ravel(),
        )
        order = np.argsort(totals, kind="stable")
        totals, weights = totals[order], weights[order]
    if open_chance > tail:
        return -math.inf
    index = int(np.searchsorted(open_chance + np.cumsum(weights), tail, side="right"))
    return float(totals[min(index, len(totals) - 1)])


def interval_product(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of a product of factors, end by end; 1 for no factors. The error probabilities of the factors
    add up."""
    factors = tuple(intervals)
    ends = {end: math.prod(getattr(one, end) for one in factors) for end in ("estimate", "low", "high")}
    return Interval(**ends, confidence=max(0.0, 1 - sum(1 - one.confidence for one in factors)))


def least_pairs(confidence: float, workloads: int = 1) -> int:
    """Return the fewest pairs per workload for which an interval at `confidence` has two ends, for any objective."""
    pairs = 1
    # The true median of any workload may lie beyond its outermost pair.
    while 1.0 - (1.0 - 0.5**pairs) ** workloads > (1.0 - confidence) / 2.0:
        pairs += 1
    return pairs


def noise_floor(samples: Sequence[PairedTimes], objective: Objective = "total_time", confidence: float = 0.95) -> float:
    """Return the relative distance from 1 of this statistic for a kernel measured against a copy of itself (0.03 = 3
    %).

    Raises ValueError for fewer than `least_pairs` pairs, because the interval is then open.
    """
    interval = speedup_interval(samples, objective, confidence)
    if not interval.is_bounded:
        raise ValueError(
            f"a noise floor at {confidence:.2%} needs {least_pairs(confidence, len(samples))} pairs a workload"
        )
    return max(abs(interval.low - 1.0), abs(interval.high - 1.0))


def competing_candidates(siblings: int, earlier: int = 0) -> int:
    """Return the number of candidates that each of `siblings` is corrected for, after `earlier` ones since the last
    accept.

    The error probability of a candidate is the whole one divided by this number. The m-th candidate since the last
    accept may use 1 / (m (m + 1)) of the whole, the siblings of an iteration use equal parts of theirs, and the parts
    of any number of candidates add up to less than 1 (alpha spending for a stream of hypotheses).
    """
    return (earlier + 1) * (earlier + siblings + 1)


def look_confidence(confidence: float, candidates: int, look: int, max_looks: int) -> float:
    """Return the confidence of the interval at one `look`, from 1 to `max_looks`, so that the intervals of all looks at
    all `candidates` hold jointly with `confidence`.

    Each look uses half of the error probability that the looks before it left, and the last one uses all of it. By the
    union bound this holds for any noise and any dependence between looks.
    """
    return 1.0 - (1.0 - confidence) * 0.5 ** min(look, max_looks - 1) / candidates


def pairs_of_batch(first: int, batch: int) -> int:
    """Return the pairs per workload of a batch, counted from 0, where the first has `first`: each look doubles the
    pairs seen so far."""
    return first << max(batch - 1, 0)


def compare_samples(
    interval: Interval, threshold: float, look: int, max_looks: int, candidates: int, *, confidence: float = 0.95
) -> Decision:
    """Compare a measured gain with the threshold after a batch. This is the only place that does.

    `threshold` is the gain that must be exceeded (0.02 = 2 %), `look` the number of looks at these pairs, this one
    included, and `candidates` the number that is corrected for (`competing_candidates`). `interval` must have a
    confidence of `look_confidence` or more; otherwise ValueError is raised.

    Returns `faster` if even the lower end exceeds the threshold and `not_faster` if even the upper end does not. In
    between, which includes an open end, it returns `more` while looks are left and the next ones are not futile, or
    else `inconclusive`. If no candidate between two accepts is faster, the probability that any is ever called faster
    is at most (1 - confidence) / 2.
    """
    needed = look_confidence(confidence, candidates, look, max_looks)
    if interval.confidence < needed - 1e-12:
        raise ValueError(
            f"the interval's confidence {interval.confidence:.6f} is below {needed:.6f}, which look {look} of "
            f"{max_looks} needs with {candidates} candidates"
        )
    if interval.low > 1.0 + threshold:
        return "faster"
    if interval.high <= 1.0 + threshold:
        return "not_faster"
    if look >= max_looks or is_futile(interval, threshold, look, max_looks):
        return "inconclusive"
    return "more"


def is_futile(interval: Interval, threshold: float, look: int, max_looks: int) -> bool:
    """Whether more pairs would probably be wasted: if the estimate is the truth, the last look shows the gain with a
    probability of less than 15 % (stochastic curtailment).

    Stopping early can only cost power and never raises the probability of a false "faster".
    """
    seen = 0.5 ** (max_looks - look)  # share of all pairs
    z = NormalDist().inv_cdf(0.5 + interval.confidence / 2)
    luck = FUTILE_POWER_Z / z * math.sqrt(1.0 - seen)
    last_low = interval.estimate * math.pow(interval.low / interval.estimate, math.sqrt(seen) - luck)
    return last_low <= 1.0 + threshold


def is_surely_slower(interval: Interval, margin: float) -> bool:
    """Whether a workload is surely slower (the interval excludes 1) and, by the estimate, takes more than 1 + margin
    times as long."""
    return interval.high < 1.0 and seems_slower(interval, margin)


def seems_slower(interval: Interval, margin: float) -> bool:
    """Whether a workload takes more than 1 + margin times as long by the estimate alone."""
    return interval.estimate < 1.0 / (1.0 + margin)
