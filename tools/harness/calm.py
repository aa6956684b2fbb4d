"""What a kernel's process may not do beside its calls, and whether other programs disturbed a measurement."""

import os
import time

import telemetry
from kernels import Kernel, Sample

DIRTY_SHARE, DIRTY_S = 0.10, 100e-6
"""A measurement is disturbed when others made it wait for a core for longer than this share of it plus these seconds."""
IDLE_SHARE, IDLE_S = 0.25, 2e-3
"""CPU time that a process may use while it has been asked for nothing: this share of that time, where it is at least these seconds."""


class BrokenRuleError(Exception):
    """A kernel broke a rule.

    `culprit` is the library's name; `kind` is "wrong" (values), "late" (writes after the return), "bounds" (the guard band), "inputs",
    "process" (threads, processes, flags, affinity), "clock", or "died" (crash, exit, time limit, cannot be loaded).
    """

    def __init__(self, culprit: str, text: str, kind: str):
        super().__init__(text)
        self.culprit, self.kind = culprit, kind


class Calm:
    """The process as it was after the warm-up: flags, OpenMP threads, affinity, number of threads, no other process, at rest."""

    def __init__(self, kernel: Kernel, flags: int, omp: int):
        self.kernel, self.flags, self.omp = kernel, flags, omp
        self.threads = 0
        self.restless = False
        """The frozen kernel, which was there first, keeps the process busy itself; so nobody else can be blamed for it."""
        self.rest = 0.0, 0.0

    def settle(self) -> None:
        """Call after each workload's warm-up: the pools of threads are now there."""
        self.threads = self.kernel.threads()

    def check(self, name: str, sample: Sample) -> None:
        """Call after each sample."""
        if sample.flags != (self.flags, self.flags):
            raise BrokenRuleError(name, "changed the floating-point mode of the process (rounding, flush-to-zero)", "process")
        if self.omp and sample.omp and sample.omp != self.omp:
            raise BrokenRuleError(name, f"changed the number of OpenMP threads from {self.omp} to {sample.omp}", "process")
        if self.kernel.affinity != self._affinity():
            raise BrokenRuleError(name, "changed the cores that the process may use", "process")
        if self.kernel.processes():
            raise BrokenRuleError(name, "started another process", "process")
        if self.threads and self._stray_threads():
            raise BrokenRuleError(name, "left a thread running after the call", "process")

    def begin_rest(self) -> None:
        """From now to `end_rest` the process is asked for nothing."""
        self.rest = time.perf_counter(), self.kernel.cpu()

    def end_rest(self, name: str, *, frozen: bool) -> None:
        """BrokenRuleError when it was busy all the same; a frozen kernel's restlessness is only noted."""
        idle, burned = time.perf_counter() - self.rest[0], self.kernel.cpu() - self.rest[1]
        if idle < IDLE_S or burned < IDLE_SHARE * idle or self.restless:
            return
        if not frozen:
            raise BrokenRuleError(name, f"went on computing after it had returned ({burned:.2g} s of CPU time in {idle:.2g} s)", "process")
        self.restless = True

    def _stray_threads(self) -> bool:
        """A joined thread may still be listed for a moment."""
        for _ in range(20):
            if self.kernel.threads() <= self.threads:
                return False
            time.sleep(0.001)
        return True

    def _affinity(self) -> set[int]:
        return os.sched_getaffinity(self.kernel.pid) if self.kernel.pid else set()


class Watch:
    """Tells whether other programs disturbed a measurement.

    That threads had to wait for a core is not enough: a kernel with more threads than cores makes its own wait, and must not get rid of
    its slow pairs in that way. So a measurement counts as disturbed only as far as foreign CPU time can explain the waiting. Foreign is
    what the whole machine used (or the host took away) less what the harness's processes and all their threads, the ended ones too,
    used. The machine's own account is kept in ticks, too coarse for one pair; so the number of other runnable threads just before each
    sample, when all of ours sleep, is a second estimate, and the larger counts.
    """

    def __init__(self, pids: list[int], kernels: list[int]):
        """`pids`: every process of ours, and of these `kernels` are the ones that are timed."""
        self.pids, self.kernels = pids, kernels
        self.begin()

    def begin(self) -> None:
        self.others: list[int] = []
        self.start, self.busy, self.own, self.waited = time.perf_counter(), telemetry.busy(), self._own(), self._waited()

    def look(self) -> None:
        """Call when our processes sleep, just before a sample."""
        self.others.append(max(telemetry.runnable() - 1, 0))

    def disturbed(self, seconds: float) -> bool:
        """Was what was measured since `begin`, `seconds` long in all, disturbed by others?"""
        return disturbed(seconds, self._waited() - self.waited, self.foreign(seconds))

    def foreign(self, seconds: float) -> float:
        """CPU seconds of others since `begin`, of which `seconds` were timed."""
        ticks = telemetry.busy() - self.busy - (self._own() - self.own) - 2 / telemetry.TICK
        seen = seconds * sum(self.others) / len(self.others) if self.others else 0.0
        return max(ticks, seen, 0.0)

    def _own(self) -> float:
        return sum(telemetry.cpu(pid) for pid in self.pids)

    def _waited(self) -> float:
        return sum(telemetry.run_delay(pid) for pid in self.kernels)


def disturbed(seconds: float, waited: float, foreign: float) -> bool:
    """The rule: only waiting that foreign CPU time can explain counts."""
    return min(waited, foreign) > DIRTY_SHARE * seconds + DIRTY_S


class Meter:
    """Telemetry of a batch: load, and the CPU time that others took."""

    def __init__(self, supervisor, clock):
        self.supervisor, self.clock = supervisor, clock
        self.load = telemetry.load()
        self.start, self.busy, self.own = clock(), telemetry.busy(), supervisor.own_cpu()

    def read(self) -> dict:
        """Call when the kernels' processes have ended, so that their time is counted as ours."""
        seconds = self.clock() - self.start
        taken = telemetry.busy() - self.busy - (self.supervisor.own_cpu() - self.own)
        cores = os.cpu_count() or 1
        return {
            "load_before": self.load,
            "load_after": telemetry.load(),
            "foreign_cpu_fraction": min(max(taken / max(seconds * cores, 1e-9), 0.0), 1.0),
            "seconds": seconds,
        }
