"""The account of a run's time (F7): device seconds of its jobs and its remaining wall time.

The caps bind the jobs of the search. The jobs that every run needs count and are never refused or cut short: the
environment, the roofs at the start, v0's build, check and A/A blocks, and the final benchmark.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from agents.models.ledger import RemainingTime, format_seconds
from graph.settings import Budget
from tools.artifacts import digest
from tools.errors import BudgetError, DeviceBusyError, InfrastructureError
from tools.executors.base import Device, DeviceKind, Executor, FinishedJob, Job
from tools.executors.toolchain import Toolchain

Emit = Callable[[str, Mapping[str, str]], None]


@dataclass(frozen=True)
class Limit:
    """A cap on the time of jobs or exchanges."""

    key: str
    """The key of the cap in the config."""
    cap: float
    """The cap in seconds."""
    reserved_s: float = 0.0
    """Seconds of the cap that are reserved for the final benchmark."""

    @property
    def is_wall(self) -> bool:
        """The cap is on wall time, else on device time."""
        return self.key == "budget.wall_s"

    def sentence(self, spent: float) -> str:
        """Return the sentence that says that the cap is reached after `spent` seconds."""
        kept = (
            f", and {format_seconds(self.reserved_s)} are set aside for the final benchmark" if self.reserved_s else ""
        )
        return f"{self.key}: {format_seconds(spent)} of {format_seconds(self.cap)} are spent{kept}"


def time_limits(budget: Budget, reserved_s: float = 0.0) -> tuple[Limit, ...]:
    """Return the caps on time that are set; `reserved_s` seconds of the device's are kept for the final benchmark."""
    on_device = () if budget.device_s is None else (Limit("budget.device_s", budget.device_s, reserved_s),)
    return (*on_device, Limit("budget.wall_s", budget.wall_s))


class MeteredExecutor(Executor):
    """Passes jobs to another executor and counts their device seconds.

    An event before each job says how long it may take, and an event after it how long it took. For a job without an
    end, whose process was killed, `graph.workspace.events.device_seconds` counts the time until the kill.
    """

    def __init__(self, inner: Executor, emit: Emit, clock: Callable[[], float], before: Mapping[str, float]) -> None:
        """`clock`: wall seconds of the run. `before`: seconds that jobs of earlier processes of the run took, by kind
        of device."""
        self.inner = inner
        self.answers_at_once, self.is_elsewhere = inner.answers_at_once, inner.is_elsewhere
        self.emit = emit
        self.clock = clock
        self._spent = defaultdict[str, float](float, before)
        self._remembered: tuple[tuple[Device, ...], Toolchain | None] = (), None
        self._before_jobs: Callable[[], None] | None = None
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        self.stopping = threading.Event()
        """Set by Ctrl-C: the current job finishes, and no other begins."""
        self._abandoned = threading.Event()
        self._ended = threading.Event()

    def raise_if_stopping(self) -> None:
        """Raise KeyboardInterrupt after Ctrl-C, when no job or exchange may begin."""
        if self.stopping.is_set():
            raise KeyboardInterrupt

    def end_jobs(self) -> None:
        """End the running jobs, whose results are lost. Does not wait, so a signal handler can call it."""
        self._abandoned.set()
        threading.Thread(target=self._close_until_ended, daemon=True).start()

    def _close_until_ended(self) -> None:
        # Again until no job is left: a warm server that dies is started once more before its job is given up.
        while not self._ended.wait(0.1):
            self.inner.close()

    def device_seconds(self, device: str) -> float:
        """Return the seconds that the run's ended jobs took on a kind of device."""
        return self._spent[device]

    def reached_limit(self, bounds: Iterable[Limit], device: str) -> str | None:
        """Return a sentence about the first limit that leaves no time for a job on a kind of device; None: all leave
        time."""
        return next(
            (one.sentence(self._spent_s(one, device)) for one in bounds if self._remaining_s(one, device) <= 0), None
        )

    def time_for_exchange(self, budget: Budget) -> RemainingTime:
        """Return the wall time left for an exchange with a model; raise KeyboardInterrupt if no exchange may begin."""
        self.raise_if_stopping()
        limit = Limit("budget.wall_s", budget.wall_s)
        return RemainingTime(self._remaining_s(limit, ""), limit.sentence(limit.cap))

    def remember(
        self, devices: tuple[Device, ...], toolchain: Toolchain | None, before_jobs: Callable[[], None]
    ) -> None:
        """Answer until the first job that there are this toolchain and these devices (none: as found).

        `before_jobs` is called before that job, and raises an error if the machine of the run is elsewhere.
        """
        self._remembered, self._before_jobs = (devices, toolchain), before_jobs

    def _require_machine(self) -> None:
        with self._guard:
            if self._before_jobs is not None:
                self._remembered = (), None
                self._before_jobs()
                self._before_jobs = None

    def toolchain(self, ask: Callable[[Executor], Toolchain]) -> Toolchain:
        return self._remembered[1] or self.inner.toolchain(ask)

    def devices(self) -> tuple[Device, ...]:
        return self._remembered[0] or self._devices

    @cached_property
    def _devices(self) -> tuple[Device, ...]:
        # Looked at once: a run stays on its devices, and each look reads many files of the system.
        return self.inner.devices()

    def available_memory(self) -> int:
        return self.inner.available_memory()

    def gather(self, requests: Iterable[Callable[[], object]]) -> None:
        self.inner.gather(requests)

    def run(self, job: Job) -> FinishedJob:
        return self.run_within(job, ())

    def run_within(self, job: Job, bounds: tuple[Limit, ...]) -> FinishedJob:
        """Run `job` under the limits `bounds` and return its result.

        The job gets its own time limit, cut to the time that the tightest cap leaves. Raises BudgetError when nothing
        is left, or when the job does not end within the cut limit; its results are then ignored. A cap is exceeded by
        no more than the time to end a process. Jobs run one at a time, except for compilers, which no cap counts.
        """
        self.raise_if_stopping()
        self._require_machine()
        device, allowed_s = job.needs.device, job.limits.wall_s
        tightest: Limit | None = None
        for limit in bounds:
            left = self._remaining_s(limit, device)
            if left < allowed_s:
                allowed_s, tightest = left, limit
        if tightest and allowed_s <= 0:
            raise BudgetError(tightest.sentence(self._spent_s(tightest, device)))
        limited_job = (
            job.model_copy(update={"limits": job.limits.model_copy(update={"wall_s": allowed_s})}) if tightest else job
        )
        job_details = {
            "job": digest(job.model_dump_json())[:16],
            "argv": " ".join(job.argv[:2]),
            "number": str(next(self._numbers)),
            "device": device,
        }
        start, used_s = time.perf_counter(), None
        try:
            self.emit(
                "job", {**job_details, "state": "started", "held": f"{allowed_s:.4f}", "at": f"{self.clock():.4f}"}
            )
            finished = self.inner.run(limited_job)
            used_s = finished.usage.wall_s
            if tightest and finished.timed_out:
                raise _cut_short_error(job, tightest)
            return finished
        except DeviceBusyError:
            used_s = 0.0
            raise
        except InfrastructureError as error:
            # What a harness without time dies of is the cap, not the machine.
            if tightest and time.perf_counter() - start >= allowed_s:
                raise _cut_short_error(job, tightest) from error
            raise
        finally:
            elapsed = time.perf_counter() - start
            used_s = min(elapsed, allowed_s) if used_s is None else used_s
            self._spent[device] += used_s
            # The job's time as the orchestrator saw it has waiting for the device in it.
            self.emit("job", {**job_details, "state": "finished", "used": f"{used_s:.4f}", "s": f"{elapsed:.4f}"})
            if self._abandoned.is_set():
                # The result of an aborted job says nothing about the kernel.
                raise KeyboardInterrupt

    def _spent_s(self, limit: Limit, device: str) -> float:
        return self.clock() if limit.is_wall else self._spent[device]

    def _remaining_s(self, limit: Limit, device: str) -> float:
        return limit.cap - limit.reserved_s - self._spent_s(limit, device)

    def close(self) -> None:
        self._ended.set()
        self.inner.close()


def _cut_short_error(job: Job, limit: Limit) -> BudgetError:
    return BudgetError(
        f"{limit.sentence(limit.cap - limit.reserved_s)}; a job that may take {job.limits.wall_s:.0f} s was cut short"
    )


@dataclass(frozen=True, eq=False)
class CappedExecutor(Executor):
    """Passes jobs to the metered executor while the caps leave time, and raises BudgetError afterwards."""

    inner: MeteredExecutor
    device: DeviceKind
    """The kind of device whose seconds are capped."""
    budget: Budget
    reserved_s: float = 0.0
    """Seconds of the cap that are reserved for the final benchmark."""
    on_cap: Callable[[str], object] = lambda reason: None
    """Called with a sentence about the cap that was reached."""

    def devices(self) -> tuple[Device, ...]:
        return self.inner.devices()

    def available_memory(self) -> int:
        return self.inner.available_memory()

    def gather(self, requests: Iterable[Callable[[], object]]) -> None:
        self.inner.gather(requests)

    def toolchain(self, ask: Callable[[Executor], Toolchain]) -> Toolchain:
        return self.inner.toolchain(ask)

    def run(self, job: Job) -> FinishedJob:
        bounds = (
            one for one in time_limits(self.budget, self.reserved_s) if one.is_wall or job.needs.device == self.device
        )
        try:
            return self.inner.run_within(job, tuple(bounds))
        except BudgetError as error:
            self.on_cap(str(error))
            raise

    def reached_limit(self) -> str | None:
        """Return a sentence about the cap that leaves no time for a job on the device; None: all leave time."""
        return self.inner.reached_limit(time_limits(self.budget, self.reserved_s), self.device)

    def close(self) -> None:
        self.inner.close()
