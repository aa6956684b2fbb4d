"""Timed samples of kernels over a ring of inputs: flush, call, check the process, verify later."""

import os
import random
import statistics
import time
from collections.abc import Callable

from harness.device import telemetry
from harness.memory.input_ring import SECRET_RANDOM, OutputVerdict, Ring, numeric_at_timed_shape, secret_seed
from harness.workers.cpu_kernel import KernelError, KernelProcess, TrainSample

FINGERPRINT_POSITIONS = 256
"""Secret places of each output that are read right after a call and again at the end."""
EARLIER_RESULT_SHARE = 0.5
"""Share of the calls whose output holds the result of an earlier call on other inputs beforehand; the others find
poison."""
CLOCK_SLACK_S, CLOCK_SLACK_SHARE = 3e-4, 0.25
"""How much more the supervisor's clock may show beyond the kernel's own for the candidate than for the incumbent, in
the median."""
THREAD_EXIT_WAIT_MS = 20
"""Milliseconds for which a thread may be listed after the call, whatever it does."""
SLEEPING_THREAD_WAIT_MS = 100
"""Milliseconds after which a thread that does not run counts as the driver's, on a GPU."""
THREAD_EXIT_CPU_S = 1e-3
"""What it may run for beyond them, on its way out."""
TRAILING_WORK_S, TRAILING_WORK_SHARE = 3e-5, 0.05
"""How long a device may go on after the last event of a train, in the median."""
COLD_CACHE_FACTOR = 2
"""The ring and what lies between two uses of a buffer exceed this many times the last-level cache."""


class BrokenRuleError(Exception):
    """A timed call broke a rule; `culprit` is the library's name."""

    def __init__(self, culprit: str, text: str, *, policy: bool = False):
        super().__init__(text)
        self.culprit = culprit
        self.policy = policy
        """The values may be right, but not how it came by them."""


class ClockError(BrokenRuleError):
    """The kernel's own clock and the supervisor's do not agree."""


class RecordedCall:
    """A call that was made: its address and slot, and its output's fingerprint right afterwards."""

    def __init__(self, name: str, at: int, slot: int, seen):
        self.name, self.at, self.slot, self.seen = name, at, slot, seen


class ProcessStateCheck:
    """State of a process after the warm-up (floating-point flags, OpenMP threads, affinity, number of threads), and the
    check that each call keeps it."""

    def __init__(self, kernel: KernelProcess, flags: int, omp: int):
        self.kernel, self.flags, self.omp = kernel, flags, omp
        self.threads = 0

    def settle(self) -> None:
        """Record the number of threads; called after each workload's warm-up, when the thread pools exist."""
        self.threads = self.kernel.threads()

    def check(self, name: str, sample: TrainSample) -> None:
        if sample.flags != (self.flags, self.flags):
            raise BrokenRuleError(name, "changed the floating-point mode of the process (rounding, flush-to-zero)")
        if self.omp and sample.omp and sample.omp != self.omp:
            raise BrokenRuleError(name, f"changed the number of OpenMP threads from {self.omp} to {sample.omp}")
        if self.kernel.affinity != self._affinity():
            raise BrokenRuleError(name, "changed the cores that the process may use")
        if self.threads and self._stray_threads():
            raise BrokenRuleError(name, "left a thread running after the call")

    def _stray_threads(self) -> bool:
        """Whether a thread is left running. A joined thread may be listed for a moment, and for longer on busy cores,
        but then it does not run. On a GPU the driver starts threads when a kernel makes streams; they sleep."""
        ran = 0.0
        for turn in range(100 * THREAD_EXIT_WAIT_MS):
            if self.kernel.threads() <= self.threads:
                return False
            if turn >= THREAD_EXIT_WAIT_MS:
                now = telemetry.ThreadTimes(self.kernel.pid).ran
                ran = ran or now
                if now > ran + THREAD_EXIT_CPU_S:
                    return True
            if turn >= SLEEPING_THREAD_WAIT_MS and self.kernel.launches:
                self.threads = self.kernel.threads()
                return False
            time.sleep(0.001)
        return True

    def _affinity(self) -> set[int]:
        return os.sched_getaffinity(self.kernel.pid) if self.kernel.pid else set()


class TimingSession:
    """Timed samples on one workload's ring in one process."""

    def __init__(
        self,
        kernel: KernelProcess,
        ring: Ring,
        numeric: dict,
        widen: list | None,
        *,
        flush: int,
        calm: ProcessStateCheck | None,
        owner: str = "candidate",
    ):
        self.kernel, self.ring, self.widen = kernel, ring, widen
        self.numeric = numeric_at_timed_shape(numeric, widen)
        self.flush, self.calm = flush, calm
        self.places = [SECRET_RANDOM.random() for _ in range(FINGERPRINT_POSITIONS)]
        self.calls: list[RecordedCall] = []
        self.written: list[int] = []
        """Slots of the last train, until they are cleared."""
        self.clocks: dict[str, list[tuple[float, float]]] = {}
        self.trailing_s: dict[str, list[float]] = {}
        self.max_error = 0.0
        self.tolerance: float | None = None
        self.scalar_changes = ring.sets.scalar_changes
        self.owner = owner
        """The kernel at fault for what its process does outside of calls."""
        self._ask(owner, kernel.map, ring)

    @staticmethod
    def _ask(name: str, request: Callable, *arguments):
        """Return what a request of the kernel's process returns; BrokenRuleError of `name` where the kernel fails."""
        try:
            return request(*arguments)
        except KernelError as error:
            raise BrokenRuleError(name, str(error)) from error

    def announce(self, name: str, at: list[int], slots: list[int]) -> None:
        """Tell the process the next train's addresses; new inputs are drawn afterwards."""
        self._ask(name, self.kernel.prepare, self.kernel.train(self.ring, at, slots))

    def sample(
        self, name: str, at: list[int], slots: list[int], *, flush: bool = True, keep: bool = True, replay: bool = False
    ) -> TrainSample:
        """Run a train of calls over the addresses `at`, each of which writes to its slot of `slots`; `replay`: by the
        graph that was captured of them."""
        ring = self.ring
        if self.kernel.launches and self.scalar_changes != ring.sets.scalar_changes:
            # A kernel's process on a GPU got the scalars when it mapped the buffers.
            self.scalar_changes = ring.sets.scalar_changes
            self._ask(name, self.kernel.map, ring)
        packed = self.kernel.train(ring, at, slots)
        if flush and keep and not self.kernel.launches:
            self._leave_earlier_results(at, slots)
        ring.restore(at, slots, cold=flush)
        if flush:
            ring.flush(at, slots)
            if self.flush:
                self._ask(name, self.kernel.flush, self.flush)
        self._ask(self.owner, self.kernel.check_idle)
        result = self._ask(name, self.kernel.run, name, packed, len(at), *[True] * replay)
        if keep:
            written = dict(zip(slots, at, strict=True))  # a slot used twice holds the last call
            self.clocks.setdefault(name, []).append((result.wall, result.accounted_s))
            self.written = list(written)
            self.calls = [call for call in self.calls if call.slot not in written]
            self.trailing_s.setdefault(name, []).append(result.trailing_s)
            seen = ring.slots.fingerprints(list(written), self.places)
            self.calls += [
                RecordedCall(name, a, s, print_) for (s, a), print_ in zip(written.items(), seen, strict=True)
            ]
        if self.calm:
            self.calm.check(name, result)
        return result

    def _leave_earlier_results(self, at: list[int], slots: list[int]) -> None:
        """Put into about every second slot, instead of poison, what an earlier call computed from other inputs, so that
        no call can rely on what it finds in its output."""
        ring, written = self.ring, {}
        for call in self.calls:
            written.setdefault(ring.set_id(call.at), []).append(call.slot)
        for address, slot in zip(at, slots, strict=True):
            others = [found for made, found in written.items() if made != ring.set_id(address)]
            if others and SECRET_RANDOM.random() < EARLIER_RESULT_SHARE:
                ring.slots.copy(SECRET_RANDOM.choice(SECRET_RANDOM.choice(others)), slot)

    def run_unchecked(self, name: str, at: list[int], slots: list[int]) -> TrainSample:
        """Run a train without a spin before it and without a check of its outputs; an empty train shows what the order
        itself costs."""
        before, self.kernel.spin = self.kernel.spin, False
        self.ring.restore(at, slots)
        try:
            return self._ask(name, self.kernel.run, name, self.kernel.train(self.ring, at, slots), len(at))
        finally:
            self.kernel.spin = before

    def verify(self) -> None:
        """Check every call since the last `verify`; BrokenRuleError names the kernel at fault."""
        ring, calls = self.ring, self.calls
        self.calls = []
        names = {call.name for call in calls}
        # The incumbent, which other calls have shown to be harmless, is named where it ran alone.
        self._ask(min(names, default="candidate"), self.kernel.check_mappings)
        slots = [call.slot for call in calls]
        now, intact = ring.slots.fingerprints(slots, self.places), ring.slots.intact(slots)
        for call, seen, whole in zip(calls, now, intact, strict=True):
            if seen != call.seen:
                raise BrokenRuleError(call.name, "went on writing its output after it had returned")
            if not whole:
                raise BrokenRuleError(call.name, "wrote outside its output (the guard band beside it is changed)")
        entries = [{"at": c.at, "slot": c.slot, "tag": f"{c.name}/{ring.set_id(c.at)}"} for c in calls]
        for call, answer in zip(calls, ring.check(entries), strict=True):
            if not answer["full"]:
                continue
            verdict = OutputVerdict(answer["outputs"], self.numeric, self.widen)
            self.max_error = max(self.max_error, verdict.max_error or 0.0)
            self.tolerance = verdict.tolerance
            if not verdict.ok:
                raise BrokenRuleError(call.name, f"is wrong on a timed call: {verdict.reason}")

    def check_no_trailing_work(self) -> None:
        """BrokenRuleError where the candidate's work goes on after the train's last event."""
        left = statistics.median(self.trailing_s.get("candidate", [0.0]))
        if left > TRAILING_WORK_S + TRAILING_WORK_SHARE * statistics.median(
            own for _, own in self.clocks.get("candidate", [(0.0, 0.0)])
        ):
            raise BrokenRuleError(
                "candidate", f"left work running on another stream for {left:.2g} s after the one given was done"
            )

    def check_clocks_agree(self) -> None:
        """ClockError where the supervisor's clock exceeds the process's own times by more for the candidate than for
        the incumbent."""
        beyond = {name: statistics.median(wall - own for wall, own in seen) for name, seen in self.clocks.items()}
        if set(beyond) < {"incumbent", "candidate"}:
            return
        wall = statistics.median(wall for wall, _ in self.clocks["candidate"])
        if beyond["candidate"] - beyond["incumbent"] > CLOCK_SLACK_S + CLOCK_SLACK_SHARE * wall:
            raise ClockError("candidate", f"took {wall:.2g} s by the supervisor's clock, much longer than by its own")

    def check_inputs_intact(self, name: str) -> None:
        """BrokenRuleError where the inputs have changed. Called once for each workload as a second line of defence: the
        kernels' process cannot map the inputs for writing."""
        if not self.ring.inputs_intact():
            raise BrokenRuleError(name, "changed its inputs")

    def clear(self, slots: int) -> None:
        """Poison the first `slots` output slots and forget the calls that wrote to them. On a GPU about every second
        one gets an earlier call's result instead; on a CPU, `sample` sees to that."""
        self.calls = [call for call in self.calls if call.slot >= slots]
        earlier = (SECRET_RANDOM.choice(self.written),) if self.kernel.launches and self.written else ()
        self.ring.slots.poison(list(range(slots)), *earlier)
        self.written = []


def make_sets(oracle, dims: dict, distinct: int, first: list[dict]) -> list[list[dict]]:
    """Arguments of `distinct` value sets with ids from 0 on; `first` is set 0, which exists already, and the others
    have secret seeds."""
    return [first] + [
        oracle.call("make_inputs", id=i, dims=dims, seed=secret_seed(), distribution="as_given")["args"]
        for i in range(1, distinct)
    ]


def ring_size(set_bytes: int, cache: int, calls: int, memory: int) -> tuple[int, int, int]:
    """(distinct value sets, addresses, bytes to flush before each sample) so that no call finds its buffers in the
    cache."""
    wanted = COLD_CACHE_FACTOR * cache // max(set_bytes, 1) + 1
    fits = max(memory // 4 // max(set_bytes, 1), 3)
    addresses = min(max(3, wanted, 2 * calls), 128, fits)
    flush = 0 if addresses * set_bytes > COLD_CACHE_FACTOR * cache else COLD_CACHE_FACTOR * cache
    distinct = 2 if set_bytes > 8 << 20 else 3 if set_bytes > 1 << 20 else 6
    return min(addresses, distinct), addresses, flush


def pick_addresses(order: random.Random, addresses: range, calls: int) -> tuple[list[int], list[int]]:
    """Random addresses for the two samples of a pair, different ones for each sample where there are enough."""
    first = order.sample(addresses, min(2 * calls, len(addresses)))
    half = max(len(first) // 2, 1)
    a, b = first[:half], first[half:] or first[:half]
    return [a[i % len(a)] for i in range(calls)], [b[i % len(b)] for i in range(calls)]


def baseline_errors(request: dict, ring: Ring) -> list | None:
    """The frozen baseline's largest errors over the ring's value sets, which widen the tolerance; None without one or
    when it fails.

    One set is not enough: the largest error of another one can be more than twice as large.
    """
    if "baseline" not in request["libraries"]:
        return None
    found = []
    try:
        kernel = ring.backend.kernel({"baseline": request["libraries"]["baseline"]})
        try:
            kernel.load("baseline")
            kernel.map(ring)
            for at in range(min(len(ring.sets.made), ring.addresses)):
                ring.slots.poison([0])
                ring.restore([at], [0])
                kernel.run("baseline", kernel.train(ring, [at], [0]), 1)
                found.append(
                    OutputVerdict(ring.check([{"at": at, "slot": 0}])[0]["outputs"], request["task"]["numeric"])
                )
        finally:
            kernel.close()
    except KernelError:
        return None
    if not all(verdict.ok for verdict in found):
        return None
    return [
        max((e for e in errors if e is not None), default=None)
        for errors in zip(*(v.errors for v in found), strict=True)
    ]


class TelemetryMeter:
    """Measures the machine's state during a batch: load, and the CPU time that other processes took."""

    def __init__(self, where, clock):
        self.backend, self.supervisor, self.clock = where, where.supervisor, clock
        self.load = telemetry.load_average()
        self.start, self.counted, self.own = (
            clock(),
            telemetry.busy_and_stolen_by_core(),
            self.supervisor.own_cpu_seconds(),
        )

    def read(self) -> dict:
        """The batch's telemetry; called when the kernels' processes have ended, so that their time counts as ours."""
        seconds = self.clock() - self.start
        cores = telemetry.busy_and_stolen_since(self.counted)
        taken = sum(busy for busy, _ in cores) - (self.supervisor.own_cpu_seconds() - self.own)
        available = max(seconds * len(cores), 1e-9)
        # What was counted is less than we took ourselves: a sandbox that does not count.
        told = bool(cores) and taken > -0.05 * available
        return {
            "load_before": self.load,
            "load_after": telemetry.load_average(),
            "foreign_cpu_fraction": min(max(taken / available, 0.0), 1.0) if told else None,
            "stolen_fraction": min(max(stolen for _, stolen in cores) / max(seconds, 1e-9), 1.0) if told else None,
            "cores": len(cores) or len(os.sched_getaffinity(0)),
            "seconds": seconds,
            **self.backend.telemetry(),
        }
