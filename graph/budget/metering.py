"""The account of a run's time (F7): device seconds of its jobs, set aside before each and settled after; what is
left of its wall time.

The caps bind the jobs of the search. What there is no run or no report without counts and is never refused or cut: the
environment, the roofs at the start, v0's build, check and A/A, and the final benchmark.
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

Emit = Callable[[str, Mapping[str, str]], None]


@dataclass(frozen=True)
class Limit:
    """One cap on time, as it binds a job or an exchange."""

    key: str
    """Its key in the config."""
    cap: float
    """In seconds."""
    aside: float = 0.0
    """Seconds of it that are kept for the final benchmark."""

    @property
    def of_wall(self) -> bool:
        """Whether it is on wall time; else it is on the device's."""
        return self.key == "budget.wall_s"

    def sentence(self, spent: float) -> str:
        """Say that it is reached."""
        kept = f", and {format_seconds(self.aside)} are set aside for the final benchmark" if self.aside else ""
        return f"{self.key}: {format_seconds(spent)} of {format_seconds(self.cap)} are spent{kept}"


def limits_of(budget: Budget, aside: float = 0.0) -> tuple[Limit, ...]:
    """Return the caps on time that are set; `aside` seconds of the device's are kept for the final benchmark."""
    on_device = () if budget.device_s is None else (Limit("budget.device_s", budget.device_s, aside),)
    return (*on_device, Limit("budget.wall_s", budget.wall_s))


class Metered(Executor):
    """Passes jobs on and keeps account of them; what is left of a run's wall time is the orchestrator's own.

    Before a job begins, the log says how long it may take at most; after it, what it took. Of one without an end in the
    log, for a kill took its process and with it the job, `graph.workspace.events.device_s` counts all the time until
    the kill, and never more than was set aside.
    """

    def __init__(self, inner: Executor, emit: Emit, clock: Callable[[], float], before: Mapping[str, float]) -> None:
        """`clock`: wall seconds of the run. `before`: seconds that jobs of earlier processes of the run took, by kind
        of device."""
        self.inner = inner
        self.emit = emit
        self.clock = clock
        self._spent = defaultdict[str, float](float, before)
        self._numbers = itertools.count()
        self.stopping = threading.Event()
        """Set by Ctrl-C: what is under way comes to its end, and nothing more begins."""
        self._abandoned = threading.Event()
        self._ended = threading.Event()

    def begin(self) -> None:
        """KeyboardInterrupt when nothing more shall begin."""
        if self.stopping.is_set():
            raise KeyboardInterrupt

    def abandon(self) -> None:
        """End the jobs that run, whose results are lost; to be called from a signal handler, so it does not wait."""
        self._abandoned.set()
        threading.Thread(target=self._end_all, daemon=True).start()

    def _end_all(self) -> None:
        # Again until no job is left: a warm server that dies is started once more before its job is given up.
        while not self._ended.wait(0.1):
            self.inner.close()

    def seconds(self, device: str) -> float:
        """Return the seconds that the run's ended jobs took on a kind of device."""
        return self._spent[device]

    def reached(self, bounds: Iterable[Limit], device: str) -> str | None:
        """The first cap of `bounds` that leaves nothing for another job on a kind of device, in one sentence."""
        return next((one.sentence(self._used(one, device)) for one in bounds if self._left(one, device) <= 0), None)

    def exchange(self, budget: Budget) -> RemainingTime:
        """What is left of the wall time for an exchange with a model; KeyboardInterrupt when none shall begin."""
        self.begin()
        limit = Limit("budget.wall_s", budget.wall_s)
        return RemainingTime(self._left(limit, ""), limit.sentence(limit.cap))

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    @cached_property
    def _devices(self) -> tuple[Device, ...]:
        # Looked at once: a run stays on its devices, and each look reads many files of the system.
        return self.inner.devices()

    def run(self, job: Job) -> FinishedJob:
        return self.within(job, ())

    def within(self, job: Job, bounds: tuple[Limit, ...]) -> FinishedJob:
        """Run `job` under `bounds`.

        Set aside is the job's own time limit: no figure of earlier jobs bounds what the next one takes. Where a cap
        leaves less, the limit is cut to that, since limits are generous (minutes) and to refuse would leave most of a
        small cap unspent. BudgetError when nothing is left, or when the job did not end within what was, with the cap
        that left least: nothing that the job left counts then, for or against what it ran. A cap is passed by no more
        than ending a process takes. Jobs are run one at a time, but for compilers, which no cap on a device's seconds
        counts.
        """
        self.begin()
        device, held = job.needs.device, job.limits.wall_s
        tightest: Limit | None = None
        for limit in bounds:
            left = self._left(limit, device)
            if left < held:
                held, tightest = left, limit
        if tightest and held <= 0:
            raise BudgetError(tightest.sentence(self._used(tightest, device)))
        given = job.model_copy(update={"limits": job.limits.model_copy(update={"wall_s": held})}) if tightest else job
        named = {
            "job": digest(job.model_dump_json())[:16],
            "argv": " ".join(job.argv[:2]),
            "number": str(next(self._numbers)),
            "device": device,
        }
        start, used = time.perf_counter(), None
        try:
            self.emit("job", {**named, "state": "started", "held": f"{held:.4f}", "at": f"{self.clock():.4f}"})
            finished = self.inner.run(given)
            used = finished.usage.wall_s
            if tightest and finished.timed_out:
                raise _cut_short(job, tightest)
            return finished
        except DeviceBusyError:
            used = 0.0
            raise
        except InfrastructureError as error:
            # What a harness without time dies of is the cap, not the machine.
            if tightest and time.perf_counter() - start >= held:
                raise _cut_short(job, tightest) from error
            raise
        finally:
            elapsed = time.perf_counter() - start
            used = min(elapsed, held) if used is None else used
            self._spent[device] += used
            # The job's time as the orchestrator saw it has waiting for the device in it.
            self.emit("job", {**named, "state": "finished", "used": f"{used:.4f}", "s": f"{elapsed:.4f}"})
            if self._abandoned.is_set():
                # Whatever it left says nothing about the kernel.
                raise KeyboardInterrupt

    def _used(self, limit: Limit, device: str) -> float:
        return self.clock() if limit.of_wall else self._spent[device]

    def _left(self, limit: Limit, device: str) -> float:
        return limit.cap - limit.aside - self._used(limit, device)

    def close(self) -> None:
        self._ended.set()
        self.inner.close()


def _cut_short(job: Job, limit: Limit) -> BudgetError:
    return BudgetError(
        f"{limit.sentence(limit.cap - limit.aside)}; a job that may take {job.limits.wall_s:.0f} s was cut short"
    )


@dataclass(frozen=True, eq=False)
class Capped(Executor):
    """Passes jobs on while the caps on time leave any for them; BudgetError from then on.

    What was asked before, records answer without a job.
    """

    inner: Metered
    device: DeviceKind
    """The kind whose seconds are capped."""
    budget: Budget
    aside: float = 0.0
    """Seconds of the run's cap that are kept for the final benchmark."""
    tell: Callable[[str], object] = lambda reason: None
    """Is told which cap was reached, also where whoever wanted the job can do without."""

    def devices(self) -> tuple[Device, ...]:
        return self.inner.devices()

    def run(self, job: Job) -> FinishedJob:
        bounds = (one for one in limits_of(self.budget, self.aside) if one.of_wall or job.needs.device == self.device)
        try:
            return self.inner.within(job, tuple(bounds))
        except BudgetError as error:
            self.tell(str(error))
            raise

    def reached(self) -> str | None:
        """The cap that leaves nothing for another job on the device, in one sentence."""
        return self.inner.reached(limits_of(self.budget, self.aside), self.device)

    def close(self) -> None:
        self.inner.close()
