"""Errors and cost of the judge's decisions, simulated from recorded noise: python -m benchmarks.decisions.

Writes benchmarks/results/decisions.md and docs/images/decision.svg. No kernel runs. The noise is that of the recorded
workspace in tests/fixtures: each pair keeps who went first, and a pair of a kernel against itself may as well have had
its labels exchanged; so the simulated kernels are equal, with the machine's drift, bursts and effects of the order. The
seeds were fixed before any result was seen.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

import numpy as np

from tools.artifacts import Interval, Record
from tools.gate.judge_settings import JudgeSettings
from tools.gate.statistics import (
    Decision,
    PairedTimes,
    compare_samples,
    competing_candidates,
    noise_floor,
    pairs_of_batch,
    pool_by_workload,
    speedup_interval,
)
from tools.judge import evidence

ROOT = Path(__file__).parent.parent
RESULTS, PICTURE = ROOT / "benchmarks" / "results" / "decisions.md", ROOT / "docs" / "images" / "decision.svg"
EQUAL_SEED, GAIN_SEED, PICTURE_SEED = 39_001, 39_002, 39_003
EQUAL_DECISIONS, GAIN_DECISIONS = 4_000, 600
GAINS = (1.0, 1.02, 1.05, 1.2, 2.0, 10.0)
SETTINGS = JudgeSettings()
SIBLINGS, PATIENCE = 4, 2
"""The default K, and the default number of iterations without an accept after which a run stops."""
COLUMNS = ("faster", "median pairs", "mean pairs", "median s", "mean s")
SPREAD, TAIL = 0.03, 1.5
"""Scale and degrees of freedom of the heavy-tailed noise: Student's t, which has no variance."""

Rng = np.random.Generator
Draw = Callable[[Rng, int, float], Sequence[PairedTimes]]
"""Draws pairs of every workload for kernels whose true speed-up is given."""


# ---------------------------------------------------------------- noise


@dataclass(frozen=True)
class Workload:
    """The recorded pairs of one workload of one job."""

    name: str
    weight: float
    seconds: float
    candidate_first: np.ndarray
    """Log ratios around their median, where the candidate went first; where it did not, with the other sign."""

    def draw(self, rng: Rng, pairs: int, gain: float) -> PairedTimes:
        noise = rng.choice(self.candidate_first, pairs) * rng.choice((-1.0, 1.0), pairs)
        return PairedTimes(self.name, self.weight, (self.seconds,) * pairs, tuple(self.seconds / gain * np.exp(-noise)))


def recorded_jobs() -> tuple[str, list[Record]]:
    """Name and `timing` and `calibration` records of the recorded workspace."""
    (packed,) = (ROOT / "tests" / "fixtures" / "workspaces").glob("*.tar.xz")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
        root = next(Path(folder).iterdir())
        subprocess.run(["git", "checkout", "--quiet", "--force", "HEAD", "--", "records"], cwd=root, check=True)
        loaded = [Record.model_validate_json(path.read_text()) for path in sorted((root / "records").glob("*.json"))]
    return packed.name.removesuffix(".tar.xz"), [r for r in loaded if r.kind in ("timing", "calibration")]


def noise_of(record: Record) -> Draw:
    """Noise as in one recorded job."""
    timing = evidence.Timing.model_validate(record.payload)
    workloads = []
    for timed in timing.result.workloads:
        ratios = np.log([pair.incumbent_s / pair.candidate_s for pair in timed.pairs])
        signs = np.array([1.0 if pair.candidate_first else -1.0 for pair in timed.pairs])
        incumbent_s = median(pair.incumbent_s for pair in timed.pairs)
        workloads.append(
            Workload(timed.workload, timing.weights[timed.workload], incumbent_s, (ratios - np.median(ratios)) * signs)
        )
    return lambda rng, pairs, gain: [workload.draw(rng, pairs, gain) for workload in workloads]


def heavy_tailed(rng: Rng, pairs: int, gain: float) -> Sequence[PairedTimes]:
    """Noise of two workloads without a variance."""
    drawn = []
    for name, seconds in (("small", 1e-3), ("large", 4e-3)):
        noise = np.clip(SPREAD * rng.standard_t(TAIL, pairs), -3.0, 3.0)
        drawn.append(PairedTimes(name, 1.0, (seconds,) * pairs, tuple(seconds / gain * np.exp(-noise))))
    return drawn


# ---------------------------------------------------------------- rules


@dataclass(frozen=True)
class Spent:
    """What the decision on one candidate was, and what it took."""

    decision: Decision
    batches: tuple[int, ...]
    """Pairs per workload of each."""
    intervals: tuple[Interval, ...]
    warm: int
    """Warm pairs per workload, each of which takes as many calls as two pairs."""


def decide(draw: Draw, rng: Rng, gain: float, threshold: float, earlier: int) -> Spent:
    """Decide as `Judge.judge` does."""
    candidates = competing_candidates(SIBLINGS, earlier)
    first = SETTINGS.first_pairs(candidates, len(draw(rng, 1, 1.0)))

    def interval(look: int, seen: Sequence[PairedTimes]) -> Interval:
        return speedup_interval(seen, SETTINGS.objective, SETTINGS.confidence_of_look(look, candidates))

    def answer(look: int, found: Interval) -> Decision:
        return compare_samples(found, threshold, look, SETTINGS.batches, candidates, confidence=SETTINGS.confidence)

    spent = _look_until_decided(draw, rng, gain, lambda batch: pairs_of_batch(first, batch), interval, answer)
    return replace(spent, warm=SETTINGS.warm_pairs)


def decide_as_before(draw: Draw, rng: Rng, gain: float, threshold: float, earlier: int) -> Spent:
    """Decide as the judge did until now: batches of 12 pairs, four looks at one level, siblings alone counted."""
    confidence = 1.0 - (1.0 - SETTINGS.confidence) / (4 * SIBLINGS)

    def answer(look: int, found: Interval) -> Decision:
        if found.low > 1.0 + threshold:
            return "faster"
        if found.high <= 1.0 + threshold:
            return "not_faster"
        return "inconclusive" if look == 4 or found.estimate < 1.0 + threshold / 2 else "more"

    def interval(look: int, seen: Sequence[PairedTimes]) -> Interval:
        return speedup_interval(seen, SETTINGS.objective, confidence)

    spent = _look_until_decided(draw, rng, gain, lambda batch: 12, interval, answer)
    return replace(spent, warm=4 * len(spent.batches))


def _look_until_decided(
    draw: Draw,
    rng: Rng,
    gain: float,
    pairs: Callable[[int], int],
    interval: Callable[[int, Sequence[PairedTimes]], Interval],
    answer: Callable[[int, Interval], Decision],
) -> Spent:
    seen: list[PairedTimes] = []
    batches: list[int] = []
    intervals: list[Interval] = []
    while True:
        batches.append(pairs(len(batches)))
        seen += draw(rng, batches[-1], gain)
        intervals.append(interval(len(batches), pool_by_workload(seen)))
        decision = answer(len(batches), intervals[-1])
        if decision != "more":
            return Spent(decision, tuple(batches), tuple(intervals), 0)


# ---------------------------------------------------------------- simulations


def equal_kernels(draws: Sequence[Draw], decisions: int, *, with_threshold: bool) -> tuple[int, int, int]:
    """(candidates called faster, accepts-to-accept spans with one, spans) of `decisions` on equal kernels, K to an
    iteration and `PATIENCE` iterations to a run."""
    rng = np.random.default_rng(EQUAL_SEED)
    false = faulty = spans = 0
    for run in range(decisions // (SIBLINGS * PATIENCE)):
        draw = draws[run % len(draws)]
        threshold = max(SETTINGS.min_effect, floor_of(draw, rng)) if with_threshold else 0.0
        outcomes = [
            decide(draw, rng, 1.0, threshold, SIBLINGS * (judged // SIBLINGS)).decision == "faster"
            for judged in range(SIBLINGS * PATIENCE)
        ]
        false, faulty, spans = false + sum(outcomes), faulty + any(outcomes), spans + 1
    return false, faulty, spans


def floor_of(draw: Draw, rng: Rng) -> float:
    return noise_floor(draw(rng, SETTINGS.calibration_pairs, 1.0), SETTINGS.objective)


def gains(draws: Sequence[Draw]) -> Iterator[tuple[float, list[Spent], list[Spent]]]:
    """(true gain, decisions before, decisions now), on the same noise floors."""
    for gain in GAINS:
        rng = np.random.default_rng(GAIN_SEED)
        before, now = [], []
        for number in range(GAIN_DECISIONS):
            draw = draws[number % len(draws)]
            threshold = max(SETTINGS.min_effect, floor_of(draw, rng))
            earlier = SIBLINGS * (number // len(draws) % PATIENCE)
            before.append(decide_as_before(draw, rng, gain, threshold, earlier))
            now.append(decide(draw, rng, gain, threshold, earlier))
        yield gain, before, now


def job_costs(records: Sequence[Record]) -> tuple[float, float]:
    """Seconds of a timing job besides its pairs, and of one pair per workload, by least squares over the recorded
    jobs."""
    rows, seconds = [], []
    for record in records:
        result = evidence.Timing.model_validate(record.payload).result
        made = [len(w.pairs) + w.repeated + w.discarded + 2 * len(w.warm_pairs) for w in result.workloads]
        calls = sum(
            n * (median(p.incumbent_s for p in w.pairs) + median(p.candidate_s for p in w.pairs))
            for n, w in zip(made, result.workloads, strict=True)
        )
        rows.append((1.0, mean(made), calls))
        seconds.append(result.telemetry.seconds)
    (job, pair, call), *_ = np.linalg.lstsq(np.array(rows), np.array(seconds), rcond=None)
    return float(job), float(pair + call * mean(row[2] / row[1] for row in rows))


# ---------------------------------------------------------------- results


def main() -> None:
    name, records = recorded_jobs()
    noises: dict[str, Sequence[Draw]] = {
        "recorded": [noise_of(record) for record in records],
        "heavy-tailed": [heavy_tailed],
    }
    job_s, pair_s = job_costs(records)

    def cost(spent: Spent) -> float:
        return job_s * len(spent.batches) + pair_s * (sum(spent.batches) + 2 * spent.warm)

    lines = [
        "# Errors and cost of the judge's decisions",
        "",
        f"`python -m benchmarks.decisions`, simulated from the pairs of {len(records)} timing jobs of the recorded",
        f"workspace `{name}`, and from Student's t with {TAIL:g} degrees of freedom and a scale of {SPREAD:.0%}, which",
        f"has no variance. {SIBLINGS} candidates an iteration, {PATIENCE} iterations a run, default settings. The rule:",
        "[decision.md](../../docs/decision.md).",
        "",
        "## Equal kernels",
        "",
        f"{EQUAL_DECISIONS} decisions a row. The stated error is the probability that any candidate between two accepts",
        f"is called faster: {(1 - SETTINGS.confidence) / 2:.1%}.",
        "",
        "| noise | threshold | called faster | runs with one | stated |",
        "|---|---|--:|--:|--:|",
    ]
    for noise, draws in noises.items():
        for with_threshold in (True, False):
            false, faulty, spans = equal_kernels(draws, EQUAL_DECISIONS, with_threshold=with_threshold)
            shown = "2 % or the noise floor, as in a run" if with_threshold else "none"
            stated = (1 - SETTINGS.confidence) / 2
            lines.append(f"| {noise} | {shown} | {false} | {faulty} of {spans} ({faulty / spans:.1%}) | {stated:.1%} |")
            sys.stderr.write(lines[-1] + "\n")
    lines += [
        "",
        "## Cost of a verdict",
        "",
        f"{GAIN_DECISIONS} decisions a row, threshold as in a run. Seconds are of timing jobs: {job_s:.2f} s a job and",
        f"{pair_s * 1e3:.0f} ms a pair of every workload, fitted to the recorded jobs; the share of a candidate's other",
        "jobs does not change. *Before* is the rule until now: up to four batches of 12 pairs and 4 warm ones, each look at",
        "one level.",
        "",
        f"| noise | true gain |{''.join(f' {name}, before | now |' for name in COLUMNS)}",
        f"|---|--:|{'--:|' * 2 * len(COLUMNS)}",
    ]
    bars = []
    for noise, draws in noises.items():
        all_before: list[Spent] = []
        all_now: list[Spent] = []
        for gain, before, now in gains(draws):
            lines.append(f"| {noise} | {gain:g} | {' | '.join(_cells(before, now, cost))} |")
            sys.stderr.write(lines[-1] + "\n")
            all_before, all_now = all_before + before, all_now + now
            if noise == "recorded":
                bars.append((gain, _mean_pairs(before), _mean_pairs(now)))
        lines.append(f"| {noise} | all | {' | '.join(_cells(all_before, all_now, cost))} |")
    RESULTS.write_text("\n".join(lines) + "\n")
    PICTURE.write_text(picture(bars))


def _mean_pairs(spent: Sequence[Spent]) -> float:
    return mean(sum(s.batches) for s in spent)


def _cells(before: Sequence[Spent], now: Sequence[Spent], cost: Callable[[Spent], float]) -> list[str]:
    both = (before, now)
    return [
        *(f"{mean(s.decision == 'faster' for s in spent):.0%}" for spent in both),
        *(f"{median(sum(s.batches) for s in spent):g}" for spent in both),
        *(f"{_mean_pairs(spent):.1f}" for spent in both),
        *(f"{median(map(cost, spent)):.2f}" for spent in both),
        *(f"{mean(map(cost, spent)):.2f}" for spent in both),
    ]


# ---------------------------------------------------------------- picture

WIDTH, HEIGHT, BOTTOM, TOP = 860, 300, 240, 40
EXAMPLES = ((1.35, "#2a7f3b"), (1.06, "#8a5a00"), (0.75, "#b3261e"))


def picture(bars: Sequence[tuple[float, float, float]]) -> str:
    """The intervals of three simulated candidates after each look, and the mean pairs of a verdict by gain, as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>',
        _text(24, 22, "The interval after each batch decides", bold=True),
        _text(470, 22, "Mean pairs per workload until the verdict", bold=True),
        *_examples(),
        *_bars(bars),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _examples() -> Iterator[str]:
    low, high = np.log(0.55), np.log(1.75)

    def y(ratio: float) -> float:
        return float(BOTTOM - (np.log(ratio) - low) / (high - low) * (BOTTOM - TOP))

    rng, threshold = np.random.default_rng(PICTURE_SEED), SETTINGS.min_effect
    for ratio in (0.6, 0.8, 1.0, 1.2, 1.4, 1.6):
        yield _line(60, y(ratio), 430, y(ratio), "#ddd")
        yield _text(52, y(ratio) + 4, f"{ratio:.1f}×", anchor="end")
    yield _line(60, y(1 + threshold), 430, y(1 + threshold), "#111", dashes="5 4")
    yield _text(430, y(1 + threshold) - 5, f"threshold {1 + threshold:g}×", anchor="end")
    seen_pairs: dict[int, int] = {}
    for place, (gain, colour) in enumerate(EXAMPLES):
        spent = decide(heavy_tailed, rng, gain, threshold, 0)
        for look, interval in enumerate(spent.intervals):
            x = 100 + 95 * look + 14 * place
            ends = [y(min(max(end, 0.56), 1.74)) for end in (interval.low, interval.high)]
            yield _line(x, ends[0], x, ends[1], colour, width=3)
            yield f'<circle cx="{x}" cy="{y(interval.estimate):.1f}" r="4" fill="{colour}"/>'
            seen_pairs[look] = sum(spent.batches[: look + 1])
        verdict = {"faster": "accept", "not_faster": "reject"}.get(spent.decision, "give up")
        x = 100 + 95 * (len(spent.intervals) - 1) + 14 * place
        yield _text(x + 7, y(spent.intervals[-1].estimate) - 6, verdict, fill=colour)
    for look, pairs in seen_pairs.items():
        yield _text(114 + 95 * look, BOTTOM + 20, f"look {look + 1}: {pairs} pairs", anchor="middle")
    yield _text(60, BOTTOM + 44, "True gains 1.35×, 1.06× and 0.75×; noise without a variance.", fill="#556")


def _bars(bars: Sequence[tuple[float, float, float]]) -> Iterator[str]:
    highest = max(max(before, now) for _, before, now in bars)
    for index, (gain, before, now) in enumerate(bars):
        x = 480 + 60 * index
        for offset, value, colour in ((0, before, "#b9c0cc"), (22, now, "#2f5fb3")):
            height = value / highest * (BOTTOM - TOP - 16)
            yield f'<rect x="{x + offset}" y="{BOTTOM - height:.1f}" width="20" height="{height:.1f}" fill="{colour}"/>'
            yield _text(x + offset + 10, BOTTOM - height - 4, f"{value:.0f}", anchor="middle")
        yield _text(x + 21, BOTTOM + 20, f"{gain:g}×", anchor="middle")
    yield _text(480, BOTTOM + 44, "True gain; recorded noise. Grey: before, blue: now.", fill="#556")


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False, fill: str = "#111") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}" fill="{fill}"{weight}>{text}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1, dashes: str = "") -> str:
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.0f}" y1="{y1:.1f}" x2="{x2:.0f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dash}/>'
    )


if __name__ == "__main__":
    main()
