"""Coverage and power of the timing statistics, by simulation with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.artifacts import Interval
from tools.gate.statistics import (
    Decision,
    Objective,
    PairedTimes,
    compare_samples,
    competing_candidates,
    is_futile,
    is_surely_slower,
    least_pairs,
    look_confidence,
    noise_floor,
    pairs_of_batch,
    pool_by_workload,
    speedup_interval,
)


def lognormal(rng: np.random.Generator, n: int, spread: float) -> np.ndarray:
    return np.exp(rng.normal(0.0, spread, n))


def quiet(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return lognormal(rng, n, 0.02), lognormal(rng, n, 0.02)


def bursty(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Drift common to a pair, and bursts that hit one half of a pair now and then by up to a factor of three."""
    drift = np.exp(np.cumsum(rng.normal(0.0, 0.05, n)))
    sides = [
        lognormal(rng, n, 0.03) * drift * np.where(rng.random(n) < 0.15, rng.uniform(1.0, 3.0, n), 1.0)
        for _ in range(2)
    ]
    return sides[0], sides[1]


def sample(
    noise, rng: np.random.Generator, n: int, gain: float = 1.0, name: str = "w", scale: float = 1e-3
) -> PairedTimes:
    incumbent, candidate = noise(rng, n)
    return PairedTimes(name, 1.0, tuple(incumbent * scale), tuple(candidate * scale / gain))


def run(
    noise, rng: np.random.Generator, gain: float, threshold: float, earlier: int = 0, max_looks: int = 4
) -> tuple[Decision, int]:
    """What the judge does for one candidate of four, and the looks that it takes: look, decide, look again."""
    candidates = competing_candidates(4, earlier)
    first = max(8, least_pairs(look_confidence(0.95, candidates, 1, max_looks), 2))
    seen: list[PairedTimes] = []
    for look in range(1, max_looks + 1):
        pairs = pairs_of_batch(first, look - 1)
        seen += [sample(noise, rng, pairs, gain, "small", 1e-3), sample(noise, rng, pairs, gain, "large", 4e-3)]
        confidence = look_confidence(0.95, candidates, look, max_looks)
        interval = speedup_interval(pool_by_workload(seen), "total_time", confidence)
        assert interval.is_bounded, "no look is too early to decide"
        answer = compare_samples(interval, threshold, look, max_looks, candidates)
        if answer != "more":
            return answer, look
    raise AssertionError("the last look must decide")


@pytest.mark.slow
@pytest.mark.parametrize("noise", [quiet, bursty])
def test_equal_kernels_are_called_faster_no_more_often_than_stated(noise):
    """Three iterations of four equal candidates without an accept between them, no threshold to hide behind: in at most
    2.5 % of such runs may one be called faster (here 6 of 150, as a sum of chances allows)."""
    rng = np.random.default_rng(7)
    false = [any(run(noise, rng, 1.0, 0.0, 4 * (n // 4))[0] == "faster" for n in range(12)) for _ in range(150)]
    assert sum(false) <= 6


def test_errors_of_all_looks_and_candidates_add_up_to_less_than_the_stated_one():
    """Whatever the numbers of siblings, and also where fewer of them were timed than were corrected for."""
    spent, earlier = 0.0, 0
    for siblings, timed in [(4, 4), (5, 2), (1, 1), (16, 16), *[(1, 1)] * 2000]:
        candidates = competing_candidates(siblings, earlier)
        spent += timed * sum(1 - look_confidence(0.95, candidates, look, 4) for look in range(1, 5))
        earlier += timed
    assert 0.049 < spent < 0.05
    assert [look_confidence(0.95, 1, 1, 1), look_confidence(0.95, 1, 2, 2)] == pytest.approx([0.95, 0.975])
    assert [sum(pairs_of_batch(9, batch) for batch in range(looks)) for looks in (1, 2, 3, 4)] == [9, 18, 36, 72]


@pytest.mark.parametrize(("gain", "answer"), [(2.0, "faster"), (0.8, "not_faster"), (1.0, "inconclusive")])
def test_the_first_look_decides_what_is_plain(gain, answer):
    rng = np.random.default_rng(5)
    assert [run(quiet, rng, gain, 0.02) for _ in range(50)].count((answer, 1)) >= 40


def test_looks_go_on_while_the_last_one_may_show_the_gain():
    near = Interval(estimate=1.04, low=0.98, high=1.1, confidence=0.99)
    assert not is_futile(near, 0.02, 1, 4) and is_futile(near, 0.02, 3, 4)
    assert is_futile(Interval(estimate=1.01, low=0.95, high=1.07, confidence=0.99), 0.02, 1, 4)


@pytest.mark.parametrize("objective", ["total_time", "geomean"])
@pytest.mark.parametrize("noise", [quiet, bursty])
def test_the_interval_covers_the_true_speedup(noise, objective: Objective):
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(200):
        samples = [sample(noise, rng, 20, 1.3, "a", 1e-3), sample(noise, rng, 20, 1.3, "b", 7e-3)]
        interval = speedup_interval(samples, objective, 0.9)
        hits += interval.low <= 1.3 <= interval.high
    assert hits / 200 >= 0.88


def test_a_five_percent_gain_at_two_percent_noise_is_found():
    rng = np.random.default_rng(3)
    answers = [run(quiet, rng, 1.05, 0.02)[0] for _ in range(100)]
    assert answers.count("faster") >= 90


def test_drift_common_to_both_cancels():
    """The machine gets four times slower while measuring; a candidate that is 10 % faster is still seen as just
    that."""
    rng = np.random.default_rng(1)
    drift = np.linspace(1.0, 4.0, 30)
    incumbent = drift * lognormal(rng, 30, 0.005) * 1e-3
    candidate = drift * lognormal(rng, 30, 0.005) * 1e-3 / 1.1
    interval = speedup_interval([PairedTimes("w", 1.0, tuple(incumbent), tuple(candidate))])
    assert 1.09 < interval.low < interval.high < 1.11


def test_total_time_weighs_by_share_of_time_and_geomean_does_not():
    """Workload a takes 9 s and gets twice as fast, b takes 1 s and half as fast: 10 s become 6.5 s."""
    samples = [PairedTimes("a", 1.0, (9.0,) * 10, (4.5,) * 10), PairedTimes("b", 1.0, (1.0,) * 10, (2.0,) * 10)]
    assert speedup_interval(samples, "total_time").estimate == pytest.approx(10 / 6.5)
    assert speedup_interval(samples, "geomean").estimate == pytest.approx(1.0)
    heavier = [samples[0], PairedTimes("b", 9.0, (1.0,) * 10, (2.0,) * 10)]
    assert speedup_interval(heavier, "total_time").estimate == pytest.approx(18 / 22.5)


def test_one_workload_gets_the_sign_tests_interval():
    """With 20 pairs the 95.9 % sign-test interval runs from the 6th to the 15th pair."""
    ratios = tuple(1.0 + i / 100 for i in range(1, 21))
    interval = speedup_interval([PairedTimes("w", 1.0, ratios, (1.0,) * 20)], confidence=0.95)
    assert (interval.low, interval.high) == pytest.approx((1.06, 1.15))


def test_too_few_pairs_for_the_confidence_leave_the_interval_wide_open():
    interval = speedup_interval([PairedTimes("w", 1.0, (5000.0,) * 3, (1.0,) * 3)], confidence=0.95)
    assert not interval.is_bounded
    assert interval.low < 1e-9 and interval.high > 1e9
    assert compare_samples(interval, 0.02, 1, 1, 1) == "inconclusive"
    with pytest.raises(ValueError, match="needs 6 pairs"):
        noise_floor([PairedTimes("w", 1.0, (1.0,) * 5, (1.0,) * 5)])


@pytest.mark.parametrize("objective", ["total_time", "geomean"])
@pytest.mark.parametrize(
    ("confidence", "workloads"), [(0.9, 1), (0.95, 1), (0.95, 7), (0.99, 3), (0.9958, 12), (0.95, 80)]
)
def test_least_pairs_is_where_the_interval_gets_two_ends(objective: Objective, confidence: float, workloads: int):
    least = least_pairs(confidence, workloads)

    def bounded(pairs: int) -> bool:
        samples = [PairedTimes(str(i), 1.0, (2.0,) * pairs, (1.0,) * pairs) for i in range(workloads)]
        return speedup_interval(samples, objective, confidence).is_bounded

    assert bounded(least) and not bounded(least - 1)


@pytest.mark.parametrize("objective", ["total_time", "geomean"])
def test_workloads_are_combined_as_independent_terms(objective: Objective):
    """Against draws of all ranks together, with so many workloads that values are merged on the way."""
    rng = np.random.default_rng(13)
    samples = [sample(bursty, rng, 20, 1.2, str(n), 1e-3 * (n + 1)) for n in range(6)]
    shares = np.array([s.incumbent_s if objective == "total_time" else 1.0 for s in samples])
    shares /= shares.sum()
    ranks = rng.binomial(20, 0.5, (6, 400_000))
    drawn = np.array([np.append(-np.inf, s.log_ratios)[rank] for s, rank in zip(samples, ranks, strict=True)])
    totals = np.exp(shares @ drawn) if objective == "geomean" else 1 / (shares @ np.exp(-drawn))
    for confidence in (0.9, 0.999):
        interval = speedup_interval(samples, objective, confidence)
        assert np.mean(totals < interval.low) == pytest.approx((1 - confidence) / 2, rel=0.15)


times = st.lists(st.tuples(st.floats(1e-7, 10.0), st.floats(1e-7, 10.0)), min_size=1, max_size=40)


@given(times, st.sampled_from(["total_time", "geomean"]), st.floats(0.5, 0.99))
@settings(max_examples=60)
def test_interval_is_ordered_and_mirrors_when_sides_are_swapped(pairs, objective, confidence):
    left, right = zip(*pairs, strict=True)
    interval = speedup_interval([PairedTimes("w", 1.0, left, right)], objective, confidence)
    assert 0.0 < interval.low <= interval.estimate * (1 + 1e-9)
    assert interval.estimate <= interval.high * (1 + 1e-9)
    mirrored = speedup_interval([PairedTimes("w", 1.0, right, left)], objective, confidence)
    assert mirrored.estimate == pytest.approx(1 / interval.estimate)


def test_noise_floor_grows_with_the_noise_and_covers_a_systematic_bias():
    rng = np.random.default_rng(2)
    calm = noise_floor([sample(quiet, rng, 40)])
    assert 0.0 < calm < 0.02
    assert noise_floor([sample(bursty, rng, 40)]) > calm
    assert noise_floor([PairedTimes("w", 1.0, (1.04e-3,) * 40, (1e-3,) * 40)]) >= 0.04 - 1e-9


def test_decide_refuses_an_interval_that_was_not_corrected():
    interval = Interval(estimate=1.1, low=1.05, high=1.2, confidence=0.95)
    assert compare_samples(interval, 0.02, 1, 1, 1) == "faster"
    unsure = Interval(estimate=1.05, low=0.99, high=1.11, confidence=0.999)
    assert [compare_samples(unsure, 0.02, look, 3, 1) for look in (1, 3)] == ["more", "inconclusive"]
    with pytest.raises(ValueError, match="look 1 of 3 needs with 4 candidates"):
        compare_samples(interval, 0.02, 1, 3, 4)


def test_slower_than_needs_certainty_and_size():
    assert is_surely_slower(Interval(estimate=0.8, low=0.7, high=0.9), 0.05)
    assert not is_surely_slower(Interval(estimate=0.97, low=0.96, high=0.98), 0.05)
    assert not is_surely_slower(Interval(estimate=0.8, low=0.5, high=1.1), 0.05)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_times_that_cannot_be_are_refused(bad):
    with pytest.raises(ValueError, match="positive"):
        PairedTimes("w", 1.0, (1.0,), (bad,))
