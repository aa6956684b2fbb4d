"""What judging costs and can tell on the GPU here: `python benchmarks/judge_gpu.py [--same 40] [--planted 10]`, from the repository's root.

Prints a table: seconds of a warm judged candidate, false accepts of a kernel against a copy of itself, and how often a planted gain of
2 % is accepted. The decisions are the judge's own: batches of 12 pairs, at most 4, at 95 %, against a least gain of 1 %.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "gpu")]

import bench  # noqa: E402

from tools.statistics import Paired, corrected, decide, speedup_interval  # noqa: E402

PAIRS, BATCHES, CONFIDENCE, LEAST = 12, 4, 0.95, 0.01
WIDE = {"M": 4096, "N": 4096}
LONG_S = 200e-6


def softmax(rounds: int, tag: str = "") -> str:
    return bench.kernel(f"    softmax(x, out, M, N, {rounds})\n", tag=tag)


def measured(harness: bench.GpuBench, incumbent: str, candidate: str, dims: dict[str, int], seed: int, warm: int = 0) -> dict:
    answer = harness.time(incumbent, candidate, dims, pairs=PAIRS, warm=warm, seed=seed)
    if answer["kind"] != "timing" or answer["workloads"][0]["problem"]:
        raise SystemExit(f"the harness says: {answer.get('error') or answer['workloads'][0]['problem']}")
    return answer["workloads"][0]


def compared(harness: bench.GpuBench, incumbent: str, candidate: str, dims: dict[str, int], seed: int) -> tuple[str, float, float, int]:
    """(decision, estimate, relative half width, batches) as the judge comes to them."""
    slow: list[float] = []
    fast: list[float] = []
    for batch in range(BATCHES):
        found = measured(harness, incumbent, candidate, dims, seed + 1000 * batch)
        slow += [p["incumbent_s"] for p in found["pairs"]]
        fast += [p["candidate_s"] for p in found["pairs"]]
        interval = speedup_interval([Paired("w", 1.0, tuple(slow), tuple(fast))], confidence=corrected(CONFIDENCE, BATCHES, 1))
        decision = decide(interval, LEAST, batch + 1, BATCHES, 1, confidence=CONFIDENCE)
        if decision != "more":
            break
    return decision, interval.estimate, (interval.high - interval.low) / 2, batch + 1


def median_us(found: dict, which: str = "candidate_s") -> float:
    return 1e6 * statistics.median(p[which] for p in found["pairs"])


def judged(harness: bench.GpuBench, incumbent: str, tag: str, dims: dict[str, int]) -> tuple[float, float]:
    """Seconds of the correctness job and of one timing job of a candidate that was not seen before."""
    candidate = bench.kernel(tag=tag)
    distributions = ("as_given", "scaled", "shifted", "outliers", "near_zero")
    cases = [bench.case(dims, seed=i, distribution=d) for i, d in enumerate(distributions)]
    cases += [bench.case({"M": 37, "N": 61}), bench.case({"M": dims["M"] - 3, "N": dims["N"] - 1})]
    begun = time.perf_counter()
    checked = harness.check(candidate, *cases, baseline=incumbent)
    between = time.perf_counter()
    if checked["kind"] != "correctness" or any(r["status"] != "passed" for r in checked["cases"]):
        raise SystemExit(f"the harness says: {checked}")
    measured(harness, incumbent, candidate, dims, 77, warm=4)
    return between - begun, time.perf_counter() - between


def planted(harness: bench.GpuBench) -> tuple[int, int]:
    """(rounds, fewer rounds): the extra work that makes about 200 us, and 2 % of the time less."""
    low, high = 512, 4096
    first, second = (median_us(measured(harness, softmax(n), softmax(n, "copy"), WIDE, 5)) for n in (low, high))
    slope = (second - first) / (high - low)
    rounds = low + (LONG_S * 1e6 - first) / slope
    return round(rounds / 16) * 16, round((rounds - 0.02 * LONG_S * 1e6 / slope) / 16) * 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--same", type=int, default=40, help="comparisons of a kernel with itself")
    parser.add_argument("--planted", type=int, default=10, help="comparisons with a planted gain of 2 %%")
    wanted = parser.parse_args()
    harness = bench.GpuBench(Path(tempfile.mkdtemp(prefix="judge-gpu-")) / "harness")
    incumbent = bench.kernel(tag="incumbent")
    dims = {"M": 12288, "N": 4096}
    begun = time.perf_counter()
    judged(harness, incumbent, "first", dims)
    print(f"first judged candidate, cold           {time.perf_counter() - begun:8.2f} s", flush=True)
    spent = [judged(harness, incumbent, f"warm {i}", dims) for i in range(5)]
    kernel_us = median_us(measured(harness, incumbent, bench.kernel(tag="size"), dims, 3))
    checking, timing = (statistics.median(part) for part in zip(*spent, strict=True))
    total = f"{checking + timing:8.2f} s: correctness {checking:.2f}, timing {timing:.2f}"
    print(f"warm judged candidate ({kernel_us:.0f} us kernel)   {total}", flush=True)
    rounds, fewer = planted(harness)
    long_us = median_us(measured(harness, softmax(rounds), softmax(rounds, "copy"), WIDE, 6))
    for name, which, times in (("A/A", rounds, wanted.same), ("planted 2 %", fewer, wanted.planted)):
        begun = time.perf_counter()
        seen = [compared(harness, softmax(rounds), softmax(which, f"{name} {i}"), WIDE, 100 + i) for i in range(times)]
        each = (time.perf_counter() - begun) / max(times, 1)
        accepted = sum(decision == "faster" for decision, *_ in seen)
        strays = [abs(estimate - 1) for _, estimate, _, _ in seen]
        print(
            f"{name:12} {long_us:4.0f} us kernel: {accepted:3} of {times} accepted; estimates {min(e for _, e, _, _ in seen):.4f} to "
            f"{max(e for _, e, _, _ in seen):.4f}, median off {statistics.median(strays):.4f}, half width "
            f"{statistics.median(w for _, _, w, _ in seen):.4f}, batches {statistics.mean(b for *_, b in seen):.1f}, {each:.2f} s each",
            flush=True,
        )
    harness.close()


if __name__ == "__main__":
    main()
