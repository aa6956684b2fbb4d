"""Samples of kernels over a ring: exchange elements, flush, call, look at the process, fingerprint; later verify."""

import os
import random
import statistics
import time

from harness.device import telemetry
from harness.memory.input_ring import CHANCE, SWAPS, Ring, Verdict
from harness.workers.cpu_kernel import Kernel, KernelError, Sample

PLACES = 256
"""Secret places of each output that are read right after a call and again at the end."""
SAMPLED = 0.15
"""Share of the calls whose outputs are compared with a reference of exactly their inputs, whatever the rest looks
like."""
SLACK_S, SLACK_SHARE = 3e-4, 0.25
"""How much more the supervisor's clock may show beyond the kernel's own for the candidate than for the incumbent, in
the median."""
BRIEFLY = 20
"""Milliseconds for which a thread may be listed after the call, whatever it does."""
ENDING_S = 1e-3
"""What it may run for beyond them, on its way out."""
LEFT_S, LEFT_SHARE = 3e-5, 0.05
"""How long a device may go on after the last event of a train, in the median."""
COLD = 2
"""The ring and what lies between two uses of a buffer exceed this many times the last-level cache."""


class BrokenRuleError(Exception):
    """A timed call broke a rule; `culprit` is the library's name."""

    def __init__(self, culprit: str, text: str, *, wrong: bool = False, policy: bool = False):
        super().__init__(text)
        self.culprit = culprit
        self.wrong = wrong
        """The values were wrong; nothing else was broken."""
        self.policy = policy
        """The values may be right, but not how it came by them."""


class ClockError(BrokenRuleError):
    """The kernel's own clock and the supervisor's do not agree."""


class Call:
    """One call made: where, with which exchanges, and what its output looked like right afterwards."""

    def __init__(self, name: str, at: int, slot: int, swaps: list, seen):
        self.name, self.at, self.slot, self.swaps, self.seen = name, at, slot, swaps, seen


class Calm:
    """The process as it was after the warm-up: flags, OpenMP threads, affinity, number of threads."""

    def __init__(self, kernel: Kernel, flags: int, omp: int):
        self.kernel, self.flags, self.omp = kernel, flags, omp
        self.threads = 0

    def settle(self) -> None:
        """Call after each workload's warm-up: the pools of threads are now there."""
        self.threads = self.kernel.threads()

    def check(self, name: str, sample: Sample) -> None:
        if sample.flags != (self.flags, self.flags):
            raise BrokenRuleError(name, "changed the floating-point mode of the process (rounding, flush-to-zero)")
        if self.omp and sample.omp and sample.omp != self.omp:
            raise BrokenRuleError(name, f"changed the number of OpenMP threads from {self.omp} to {sample.omp}")
        if self.kernel.affinity != self._affinity():
            raise BrokenRuleError(name, "changed the cores that the process may use")
        if self.threads and self._stray_threads():
            raise BrokenRuleError(name, "left a thread running after the call")

    def _stray_threads(self) -> bool:
        """A joined thread may still be listed for a moment; while others keep the cores busy for longer, but then
        nothing of ours runs."""
        ran = 0.0
        for turn in range(100 * BRIEFLY):
            if self.kernel.threads() <= self.threads:
                return False
            if turn >= BRIEFLY:
                now = telemetry.Threads(self.kernel.pid).ran
                ran = ran or now
                if now > ran + ENDING_S:
                    return True
            time.sleep(0.001)
        return True

    def _affinity(self) -> set[int]:
        return os.sched_getaffinity(self.kernel.pid) if self.kernel.pid else set()


class Session:
    """Samples on one workload's ring in one process."""

    def __init__(self, kernel: Kernel, ring: Ring, numeric: dict, widen: list | None, *, flush: int, calm: Calm | None):
        self.kernel, self.ring, self.numeric, self.widen = kernel, ring, numeric, widen
        self.flush, self.calm = flush, calm
        self.places = [CHANCE.random() for _ in range(PLACES)]
        self.calls: list[Call] = []
        self.clocks: dict[str, list[tuple[float, float]]] = {}
        self.left: dict[str, list[float]] = {}
        self.max_error = 0.0
        self.tolerance: float | None = None
        self.exchange = True
        self.swaps = SWAPS
        kernel.map(ring)

    def sample(self, name: str, at: list[int], slots: list[int], *, flush: bool = True, keep: bool = True) -> Sample:
        """A train of calls over `at` addresses, each writing to its own of `slots`."""
        ring, swaps = self.ring, {}
        if keep and self.exchange:
            swaps = ring.swap(sorted(set(at)), self.swaps)
        packed = self.kernel.train(ring, at, slots)
        try:
            if flush:
                ring.flush(at, slots)
                if self.flush:
                    self.kernel.flush(self.flush)
            result = self.kernel.run(name, packed, len(at))
        except KernelError as error:
            raise BrokenRuleError(name, str(error)) from error
        finally:
            ring.unswap(swaps)
        if keep:
            written = dict(zip(slots, at, strict=True))  # a slot used twice holds the last call
            self.clocks.setdefault(name, []).append((result.wall, result.told))
            self.calls = [call for call in self.calls if call.slot not in written]
            self.left.setdefault(name, []).append(result.left)
            seen = ring.slots.fingerprints(list(written), self.places)
            self.calls += [
                Call(name, a, s, swaps.get(a, []), print_) for (s, a), print_ in zip(written.items(), seen, strict=True)
            ]
        if self.calm:
            self.calm.check(name, result)
        return result

    def order(self, name: str, at: list[int], slots: list[int]) -> Sample:
        """A train with its launches in sight, whose outputs are not looked at; an empty one shows what the order
        itself costs."""
        before, self.kernel.spin = self.kernel.spin, False
        try:
            return self.kernel.run(name, self.kernel.train(self.ring, at, slots), len(at))
        except KernelError as error:
            raise BrokenRuleError(name, str(error)) from error
        finally:
            self.kernel.spin = before

    def verify(self) -> None:
        """Check every call made since the last time; BrokenRuleError names the one to blame."""
        ring, calls = self.ring, self.calls
        self.calls = []
        slots = [call.slot for call in calls]
        now, intact = ring.slots.fingerprints(slots, self.places), ring.slots.intact(slots)
        for call, seen, whole in zip(calls, now, intact, strict=True):
            if seen != call.seen:
                raise BrokenRuleError(call.name, "went on writing its output after it had returned")
            if not whole:
                raise BrokenRuleError(call.name, "wrote outside its output (the guard band beside it is changed)")
        entries = [
            {
                "at": c.at,
                "slot": c.slot,
                "swaps": c.swaps,
                "tag": f"{c.name}/{ring.value(c.at)}",
                "full": c.name != "incumbent" and CHANCE.random() < SAMPLED,
            }
            for c in calls
        ]
        for call, answer in zip(calls, ring.check(entries), strict=True):
            if not answer["full"]:
                continue
            verdict = Verdict(answer["outputs"], self.numeric, self.widen)
            self.max_error = max(self.max_error, verdict.max_error or 0.0)
            self.tolerance = verdict.tolerance
            if not verdict.ok:
                raise BrokenRuleError(call.name, f"is wrong on a timed call: {verdict.reason}", wrong=True)

    def nothing_left(self) -> None:
        """No work may go on behind the last event."""
        left = statistics.median(self.left.get("candidate", [0.0]))
        if left > LEFT_S + LEFT_SHARE * statistics.median(own for _, own in self.clocks.get("candidate", [(0.0, 0.0)])):
            raise BrokenRuleError(
                "candidate", f"left work running on another stream for {left:.2g} s after the one given was done"
            )

    def clocks_agree(self) -> None:
        """The process's own times against the supervisor's clock: what lies between must be alike for both kernels;
        else a ClockError."""
        beyond = {name: statistics.median(wall - own for wall, own in seen) for name, seen in self.clocks.items()}
        if set(beyond) < {"incumbent", "candidate"}:
            return
        wall = statistics.median(wall for wall, _ in self.clocks["candidate"])
        if beyond["candidate"] - beyond["incumbent"] > SLACK_S + SLACK_SHARE * wall:
            raise ClockError("candidate", f"took {wall:.2g} s by the supervisor's clock, much longer than by its own")

    def inputs_intact(self, name: str) -> None:
        """Once a workload: the kernels' process cannot map the inputs for writing, so this only guards against the
        unforeseen."""
        if not self.ring.inputs_intact():
            raise BrokenRuleError(name, "changed its inputs")

    def clear(self, slots: int) -> None:
        """Poison the first `slots`; what was noted about them is void."""
        self.calls = [call for call in self.calls if call.slot >= slots]
        self.ring.slots.poison(list(range(slots)))


def make_sets(oracle, dims: dict, seed: int, distinct: int, first: list[dict]) -> list[list[dict]]:
    """`distinct` value sets with ids 0..; set 0 is there already."""
    return [first] + [
        oracle.call("make", id=i, dims=dims, seed=seed + i, distribution="as_given")["args"] for i in range(1, distinct)
    ]


def ring_size(set_bytes: int, cache: int, calls: int, memory: int) -> tuple[int, int, int]:
    """(distinct value sets, addresses, bytes to flush before each sample) so that no call finds its buffers in the
    cache."""
    wanted = COLD * cache // max(set_bytes, 1) + 1
    fits = max(memory // 4 // max(set_bytes, 1), 3)
    addresses = min(max(3, wanted, 2 * calls), 128, fits)
    flush = 0 if addresses * set_bytes > COLD * cache else COLD * cache
    distinct = 2 if set_bytes > 8 << 20 else 3 if set_bytes > 1 << 20 else 6
    return min(addresses, distinct), addresses, flush


def pick(order: random.Random, addresses: int, calls: int) -> tuple[list[int], list[int]]:
    """Addresses for the two samples of a pair: different ones, each in a random run through the ring."""
    first = order.sample(range(addresses), min(2 * calls, addresses))
    half = max(len(first) // 2, 1)
    a, b = first[:half], first[half:] or first[:half]
    return [a[i % len(a)] for i in range(calls)], [b[i % len(b)] for i in range(calls)]


def baseline_errors(request: dict, ring: Ring) -> list | None:
    """The frozen baseline's own errors on address 0, which widen the tolerance; None without one or when it fails."""
    if "baseline" not in request["libraries"]:
        return None
    try:
        kernel = ring.place.kernel({"baseline": request["libraries"]["baseline"]})
        try:
            kernel.load("baseline")
            kernel.map(ring)
            ring.slots.poison([0])
            kernel.run("baseline", kernel.train(ring, [0], [0]), 1)
        finally:
            kernel.close()
    except KernelError:
        return None
    verdict = Verdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], request["task"]["numeric"])
    return verdict.errors if verdict.ok else None


class Meter:
    """Telemetry of a batch: load, and the CPU time that others took."""

    def __init__(self, where, clock):
        self.place, self.supervisor, self.clock = where, where.supervisor, clock
        self.load = telemetry.load()
        self.start, self.counted, self.own = (
            clock(),
            telemetry.counted(),
            self.supervisor.own_cpu(),
        )

    def read(self) -> dict:
        """Call when the kernels' processes have ended, so that their time is counted as ours."""
        seconds = self.clock() - self.start
        cores = telemetry.since(self.counted)
        taken = sum(busy for busy, _ in cores) - (self.supervisor.own_cpu() - self.own)
        available = max(seconds * len(cores), 1e-9)
        # What was counted is less than we took ourselves: a sandbox that does not count.
        told = bool(cores) and taken > -0.05 * available
        return {
            "load_before": self.load,
            "load_after": telemetry.load(),
            "foreign_cpu_fraction": min(max(taken / available, 0.0), 1.0) if told else None,
            "stolen_fraction": min(max(stolen for _, stolen in cores) / max(seconds, 1e-9), 1.0) if told else None,
            "cores": len(cores) or len(os.sched_getaffinity(0)),
            "seconds": seconds,
            **self.place.telemetry(),
        }
