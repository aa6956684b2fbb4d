"""Device seconds are set aside before a job and settled after it, wall seconds are those of the processes: also when they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from agents.models.ledger import Caps
from graph.budget.metering import Capped, Metered
from graph.limits import Sent
from graph.workspace import events
from graph.workspace.clock import TICK_S, Clock, wall_s
from graph.workspace.events import Event
from tools.errors import BudgetError, DeviceBusyError, DiskFullError, HarnessError
from tools.executors.base import Device, Executor, Finished, Job, Limits, Needs, Usage
from tools.executors.local import Local
from tools.store.records import Blobs

FOREVER = ("sleep", "600")


def job(limit_s: float, *argv: str, device: str = "cpu") -> Job:
    needs = Needs.model_validate({"device": device})
    return Job(files={}, argv=argv or ("true",), limits=Limits(wall_s=limit_s), needs=needs)


class Booked(Executor):
    """Somebody's executor: a job takes what its second argument says, its limit at most, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()

    def devices(self) -> tuple[Device, ...]:
        return ()

    def run(self, job: Job) -> Finished:
        limit, wanted = job.limits.wall_s, float(job.argv[1])
        self.begun.append(limit)
        self.entered.release()
        assert self.go.wait(60)
        return Finished(exit_code=0, timed_out=wanted > limit, files={}, usage=Usage(wall_s=min(wanted, limit)))

    def close(self) -> None:
        pass


def metered(inner: Executor, before: float = 0.0, log: list[dict[str, str]] | None = None) -> Metered:
    said = [] if log is None else log
    return Metered(inner, lambda kind, details: said.append(dict(details)), lambda: 0.0, {Sent("cpu"): before})


def capped_at(account: Metered, device_s: float) -> Capped:
    """The judge's jobs, under a cap of the whole run."""
    return Capped(account, "gatekeeper", "cpu", Caps(device_s=device_s))


def free() -> Booked:
    inner = Booked()
    inner.go.set()
    return inner


def test_a_job_that_cannot_be_logged_gives_back_what_was_set_aside() -> None:
    full = [DiskFullError("no room")] * 2

    def emit(kind: str, details: Mapping[str, str]) -> None:
        if full:
            raise full.pop()

    capped = capped_at(Metered(free(), emit, lambda: 0.0, {}), 100.0)
    with pytest.raises(DiskFullError):
        capped.run(job(60, "x", "10"))
    again = threading.Thread(target=capped.run, args=(job(60, "x", "10"),), daemon=True)
    again.start()
    again.join(10)
    assert not again.is_alive(), "it waits for a job that never began"


class Failing(Booked):
    def __init__(self, error: Exception, after_s: float = 0.0) -> None:
        super().__init__()
        self.error = error
        self.after_s = after_s

    def run(self, job: Job) -> Finished:
        time.sleep(self.after_s)
        raise self.error


def test_a_harness_that_dies_costs_its_time_and_is_the_caps_fault_only_when_its_time_was_up() -> None:
    busy = metered(Failing(DeviceBusyError("others are there"), 0.01))
    with pytest.raises(DeviceBusyError):
        busy.run(job(60))
    assert busy.seconds("cpu") == 0, "a device that others hold costs nothing"
    account = metered(Failing(HarnessError("gone"), 0.01))
    with pytest.raises(HarnessError):
        capped_at(account, 100.0).run(job(60))
    assert 0.01 <= account.seconds("cpu") < 60
    with pytest.raises(BudgetError):
        capped_at(metered(Failing(HarnessError("gone"), 0.01), before=99.999), 100.0).run(job(60))


def test_a_real_job_is_ended_where_the_cap_is(tmp_path: Path) -> None:
    with Local(Blobs(tmp_path / "blobs"), tmp_path / "scratch") as local:
        account = metered(local)
        with pytest.raises(BudgetError, match="cut short"):
            capped_at(account, 0.3).run(job(300, *FOREVER))
        assert account.seconds("cpu") >= 0.3


# ---------------------------------------------------------------- kills


KILLED = """
import os, signal, sys, time
from pathlib import Path
from graph.workspace.events import Events
from agents.models.ledger import Caps
from graph.workspace.clock import Clock
from graph.budget.metering import Capped, Metered
from tools.executors.base import Job, Limits
from tools.executors.local import Local
from tools.store.records import Blobs
folder = Path(sys.argv[1])
clock = Clock(folder / "wall_s")
log = Events(folder / "events.jsonl", (lambda event: print(event.details["state"], flush=True),))
log.emit("start", {"state": "started", "wall_s": "0"})
metered = Metered(Local(Blobs(folder / "blobs"), folder / "scratch"), log.emit, clock.seconds, {})
metered.enter(2)
Capped(metered, "gatekeeper", "cpu", Caps(device_s=float(sys.argv[2]))).run(Job(files={}, argv=("sleep", "600"), limits=Limits(wall_s=500)))
"""


def killed_in_a_job(folder: Path, cap: float, after_ticks: int) -> None:
    """A process that is killed with a job under way, once its clock has ticked so often."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder), str(cap)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline().strip() for _ in range(2)] == ["started", "started"]
    at = wall_s(folder / "wall_s")
    while wall_s(folder / "wall_s") < at + after_ticks * TICK_S * 0.9:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_killed_job_never_counts_for_more_than_was_set_aside(tmp_path: Path) -> None:
    log = [
        Event(kind="start", seconds=0, details={"state": "started", "wall_s": "0"}),
        Event(kind="job", seconds=1, details={"state": "started", "number": "0", "device": "cpu", "held": "5", "at": "10"}),
        Event(kind="start", seconds=2, details={"state": "ready", "s": "1"}),
        Event(kind="start", seconds=3, details={"state": "reopened", "wall_s": "400"}),
        # Numbers begin anew in each process.
        Event(kind="job", seconds=4, details={"state": "started", "number": "0", "device": "cpu", "held": "7", "at": "401"}),
        Event(kind="job", seconds=5, details={"state": "finished", "number": "0", "device": "cpu", "used": "2", "s": "3"}),
    ]
    assert events.device_s(log, 900) == {"cpu": 7}
    assert events.device_s(log[:2], 12) == {"cpu": 3}
    assert events.device_s(log[:2], 900) == {"cpu": 5}


# ---------------------------------------------------------------- wall time


def test_the_clock_counts_its_processes_and_no_pause(tmp_path: Path) -> None:
    path = tmp_path / "wall_s"
    assert wall_s(path) == 0
    for _ in range(3):
        before = wall_s(path)
        clock = Clock(path)
        assert clock.before == before
        clock.close()
        clock.close()
        assert before <= wall_s(path) <= clock.seconds() + 0.001
    path.write_text("0000000012345.500\n")
    clock = Clock(path)
    assert clock.seconds() >= 12345.5
    clock.close()
    assert wall_s(path) >= 12345.5
