"""The account of a run's time (F7): wall seconds of its processes, device seconds of its jobs, set aside before each and settled after."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from tools.artifacts import Device, DeviceKind, Finished, Job, digest
from tools.errors import BudgetError, DeviceBusyError, InfrastructureError
from tools.executors.base import Executor

Emit = Callable[[str, Mapping[str, str]], None]
TICK_S = 1.0
"""A kill loses no more of the wall time than this."""


class Clock:
    """Wall seconds of a run, summed over the processes that worked on it and written down while they do: pauses between them are not in it.

    A thread of this process writes twenty bytes once in TICK_S, into a file that is open already; jobs run in processes of their own.
    """

    def __init__(self, path: Path) -> None:
        self.before = wall_s(path)
        """Seconds of the processes before this one."""
        self._began = time.monotonic()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True, name="clock")
        self._thread.start()

    def seconds(self) -> float:
        """By now."""
        return self.before + time.monotonic() - self._began

    def close(self) -> None:
        """Write the time down for the last time. Safe to call twice."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            os.close(self._file)

    def _tick(self) -> None:
        over = False
        while not over:
            over = self._over.wait(TICK_S)
            with contextlib.suppress(OSError):  # a full disk is for those to say who have evidence to keep
                os.pwrite(self._file, f"{self.seconds():019.3f}\n".encode(), 0)


def wall_s(path: Path) -> float:
    """What a Clock has written to `path` so far; 0 where there is nothing."""
    try:
        return float(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return 0.0


class Metered(Executor):
    """Passes jobs on and keeps account of them; what is left of a run's wall time is the orchestrator's own.

    Before a job begins, the log says how long it may take at most; after it, what it took. Of one without an end in the log, for a kill
    took its process and with it the job, `graph.events.device_s` counts all the time until the kill, and never more than was set aside.
    """

    def __init__(self, inner: Executor, emit: Emit, clock: Callable[[], float], before: Mapping[str, float]) -> None:
        """`clock`: wall seconds of the run. `before`: seconds that earlier processes of the run spent on each kind of device."""
        self.inner = inner
        self.emit = emit
        self.clock = clock
        self._spent = defaultdict[str, float](float, before)
        self._held: dict[int, tuple[str, float]] = {}
        """Job under way -> its kind of device, and the seconds that are set aside for it."""
        self._numbers = itertools.count()
        self._settled = threading.Condition()
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
        """That the jobs of the run which have ended took on a kind of device."""
        with self._settled:
            return self._spent[device]

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    @cached_property
    def _devices(self) -> tuple[Device, ...]:
        # Looked at once: a run stays on its devices, and each look reads many files of the system.
        return self.inner.devices()

    def run(self, job: Job) -> Finished:
        return self.within(job, None)

    def within(self, job: Job, cap: float | None) -> Finished:
        """Run `job` so that the jobs on its kind of device take no more than `cap` seconds in all; None: there is no cap.

        Set aside is the job's own time limit: no figure of earlier jobs bounds what the next one takes. Where less is left, the limit is
        cut to that, since limits are generous (minutes) and to refuse would leave most of a small cap unspent. While others are under way
        a job that does not fit beside them waits for them to settle. BudgetError when nothing is left, or when the job did not end within
        what was: nothing that it left counts then, for or against what it ran. The cap is passed by no more than ending a process takes.
        """
        self.begin()
        number, held = self._set_aside(job, cap)
        cut = held < job.limits.wall_s
        given = job.model_copy(update={"limits": job.limits.model_copy(update={"wall_s": held})}) if cut else job
        device = job.needs.device
        named = {"job": digest(job.model_dump_json())[:16], "argv": " ".join(job.argv[:2]), "number": str(number), "device": device}
        start, used = time.perf_counter(), None
        try:
            self.emit("job", {**named, "state": "started", "held": f"{held:.4f}", "at": f"{self.clock():.4f}"})
            finished = self.inner.run(given)
            used = finished.usage.wall_s
            if cut and finished.timed_out:
                raise self._cut_short(job, cap)
            return finished
        except DeviceBusyError:
            used = 0.0
            raise
        except InfrastructureError as error:
            # What a harness without time dies of is the cap, not the machine.
            if cut and time.perf_counter() - start >= held:
                raise self._cut_short(job, cap) from error
            raise
        finally:
            elapsed = time.perf_counter() - start
            used = min(elapsed, held) if used is None else used
            with self._settled:
                del self._held[number]
                self._spent[device] += used
                self._settled.notify_all()
            # The job's time as the orchestrator saw it has waiting for the device in it.
            self.emit("job", {**named, "state": "finished", "used": f"{used:.4f}", "s": f"{elapsed:.4f}"})
            if self._abandoned.is_set():
                # Whatever it left says nothing about the kernel.
                raise KeyboardInterrupt

    def _set_aside(self, job: Job, cap: float | None) -> tuple[int, float]:
        device, wanted = job.needs.device, job.limits.wall_s
        with self._settled:
            while cap is not None and self._others(device) and self._spent[device] + sum(self._others(device)) + wanted > cap:
                self._settled.wait()
                self.begin()
            if cap is not None:
                left = cap - self._spent[device] - sum(self._others(device))
                if left <= 0:
                    raise BudgetError(f"budget.device_s: {self._spent[device]:.0f} s of {cap:.0f} s are spent")
                wanted = min(wanted, left)
            number = next(self._numbers)
            self._held[number] = device, wanted
            return number, wanted

    def _others(self, device: str) -> list[float]:
        return [held for kind, held in self._held.values() if kind == device]

    def _cut_short(self, job: Job, cap: float | None) -> BudgetError:
        return BudgetError(f"budget.device_s: {cap:.0f} s are spent; a job that may take {job.limits.wall_s:.0f} s was cut short")

    def close(self) -> None:
        self._ended.set()
        self.inner.close()


class Capped(Executor):
    """Passes jobs on while the cap on a kind of device leaves time for them; BudgetError from then on.

    What was asked before, records answer without a job.
    """

    def __init__(self, inner: Metered, device: DeviceKind, cap: float) -> None:
        """`cap`: seconds of all jobs of the run on `device`, those that did not come through here included."""
        self.inner = inner
        self.device = device
        self.cap = cap

    def devices(self) -> tuple[Device, ...]:
        return self.inner.devices()

    def run(self, job: Job) -> Finished:
        return self.inner.within(job, self.cap if job.needs.device == self.device else None)

    def close(self) -> None:
        self.inner.close()
