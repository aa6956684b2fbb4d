"""Caps on time of the run: each sets aside, settles and names itself, over kills and processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from graph.budget import reserve
from graph.budget.metering import CappedExecutor, MeteredExecutor
from graph.lifecycle.version_commands import apply_changes
from graph.settings import Budget, Settings, load
from graph.workspace import events
from graph.workspace.clock import TICK_S, Clock, read_wall_seconds
from graph.workspace.events import Event
from tests.support import one_sentence
from tools.errors import BudgetError, DeviceBusyError, HarnessError
from tools.executors.base import Device, Executor, FinishedJob, Job, JobUsage, Limits, Needs
from tools.executors.local import LocalExecutor
from tools.store.blobs import Blobs


def job(limit_s: float, *argv: str, device: str = "cpu") -> Job:
    needs = Needs.model_validate({"device": device})
    return Job(files={}, argv=argv or ("true",), limits=Limits(wall_s=limit_s), needs=needs)


class Booked(Executor):
    """Somebody's executor: a job takes what its second argument says, its limit at most."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    def devices(self) -> tuple[Device, ...]:
        return ()

    def run(self, job: Job) -> FinishedJob:
        limit, wanted = job.limits.wall_s, float(job.argv[1])
        self.begun.append(limit)
        return FinishedJob(exit_code=0, timed_out=wanted > limit, files={}, usage=JobUsage(wall_s=min(wanted, limit)))

    def close(self) -> None:
        pass


class Failing(Booked):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def run(self, job: Job) -> FinishedJob:
        time.sleep(0.01)
        raise self.error


def account(
    inner: Executor, before: dict[str, float] | None = None, clock: Callable[[], float] = lambda: 0.0
) -> MeteredExecutor:
    return MeteredExecutor(inner, lambda kind, details: None, clock, before or {})


def test_a_cap_sets_aside_cuts_refuses_and_is_named() -> None:
    inner, told, names = Booked(), list[str](), "budget.device_s: 100 s of 100 s are spent"
    coder = CappedExecutor(account(inner), "cpu", Budget(device_s=100), on_cap=told.append)
    coder.run(job(60, "x", "10"))
    coder.run(job(60, "x", "50"))
    with pytest.raises(BudgetError) as cut:
        coder.run(job(60, "x", "50"))
    assert str(cut.value).startswith(names) and str(cut.value).endswith("; a job that may take 60 s was cut short")
    assert inner.begun == [60, 60, 40]
    with pytest.raises(BudgetError) as refused:
        coder.run(job(60, "x", "1"))
    assert str(refused.value).startswith(names) and len(inner.begun) == 3
    assert coder.reached_limit() == str(refused.value) and told == [str(cut.value), str(refused.value)]
    # Another kind of device has its own time, and is under no cap.
    coder.run(job(60, "x", "60", device="cuda"))
    assert inner.begun[-1] == 60


def test_v0_and_the_final_benchmark_count_and_are_never_refused_or_cut() -> None:
    inner = Booked()
    metered = account(inner)
    search = CappedExecutor(metered, "cpu", Budget(device_s=200))
    metered.run(job(90, "x", "90"))
    search.run(job(200, "x", "110"))
    assert inner.begun == [90, 110]
    metered.run(job(90, "x", "90"))
    assert inner.begun[-1] == 90 and metered.device_seconds("cpu") == 290
    assert search.reached_limit() == "budget.device_s: 290 s of 200 s are spent"


def test_what_the_final_benchmark_needs_is_no_ones_to_spend() -> None:
    inner = Booked()
    search = CappedExecutor(account(inner), "cpu", Budget(device_s=100), reserved_s=70)
    search.run(job(60, "x", "25"))
    with pytest.raises(
        BudgetError, match="30 s of 100 s are spent, and 70 s are set aside for the final benchmark; a job"
    ):
        search.run(job(60, "x", "25"))
    assert inner.begun == [30, 5]


def test_a_harness_that_dies_costs_its_time_and_is_the_caps_fault_only_when_its_time_was_up() -> None:
    caps = Budget(device_s=100)
    busy = account(Failing(DeviceBusyError("others are there")))
    with pytest.raises(DeviceBusyError):
        busy.run(job(60))
    assert busy.device_seconds("cpu") == 0, "a device that others hold costs nothing"
    dying = account(Failing(HarnessError("gone")))
    with pytest.raises(HarnessError):
        CappedExecutor(dying, "cpu", caps).run(job(60))
    assert 0.01 <= dying.device_seconds("cpu") < 60
    with pytest.raises(BudgetError):
        CappedExecutor(account(dying.inner, {"cpu": 99.999}), "cpu", caps).run(job(60))


def test_a_real_job_is_ended_where_the_cap_is(tmp_path: Path) -> None:
    with LocalExecutor(Blobs(tmp_path / "blobs"), tmp_path / "scratch") as local:
        metered = account(local)
        with pytest.raises(BudgetError, match="cut short"):
            CappedExecutor(metered, "cpu", Budget(device_s=0.3)).run(job(300, "sleep", "600"))
        assert metered.device_seconds("cpu") >= 0.3


# ---------------------------------------------------------------- processes


KILLED = """
import sys
from pathlib import Path
from graph.workspace.events import Events
from graph.workspace.clock import Clock
from graph.budget.metering import CappedExecutor, MeteredExecutor
from graph.settings import Budget
from tools.executors.base import Job, Limits
from tools.executors.local import LocalExecutor
from tools.store.blobs import Blobs
folder = Path(sys.argv[1])
clock = Clock(folder / "wall_s")
log = Events(folder / "events.jsonl", (lambda event: print(event.details["state"], flush=True),))
log.emit("start", {"state": "started", "wall_s": "0"})
metered = MeteredExecutor(LocalExecutor(Blobs(folder / "blobs"), folder / "scratch"), log.emit, clock.seconds, {})
CappedExecutor(metered, "cpu", Budget(device_s=1000)).run(Job(files={}, argv=("sleep", "600"), limits=Limits(wall_s=500)))
"""


def test_a_killed_job_never_counts_for_more_than_was_set_aside(tmp_path: Path) -> None:
    log = [
        Event(kind="start", seconds=0, details={"state": "started", "wall_s": "0"}),
        Event(
            kind="job", seconds=1, details={"state": "started", "number": "0", "device": "cpu", "held": "5", "at": "10"}
        ),
        Event(kind="start", seconds=2, details={"state": "ready", "s": "1"}),
        Event(kind="start", seconds=3, details={"state": "reopened", "wall_s": "400"}),
        # Numbers begin anew in each process.
        Event(
            kind="job",
            seconds=4,
            details={"state": "started", "number": "0", "device": "cpu", "held": "7", "at": "401"},
        ),
        Event(
            kind="job", seconds=5, details={"state": "finished", "number": "0", "device": "cpu", "used": "2", "s": "3"}
        ),
    ]
    assert events.device_seconds(log, 900) == {"cpu": 7}
    assert events.device_seconds(log[:2], 12) == {"cpu": 3}
    assert events.device_seconds(log[:2], 900) == {"cpu": 5}


def test_a_job_that_a_kill_ended_counts(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline().strip() for _ in range(2)] == ["started", "started"]
    at = read_wall_seconds(tmp_path / "wall_s")
    while read_wall_seconds(tmp_path / "wall_s") < at + TICK_S * 0.9:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    died = read_wall_seconds(tmp_path / "wall_s")
    spent = events.device_seconds(events.read_events(tmp_path / "events.jsonl"), died)
    assert spent.keys() == {"cpu"} and 0 < spent["cpu"] <= died + TICK_S
    search = CappedExecutor(account(Booked(), spent), "cpu", Budget(device_s=spent["cpu"] / 2))
    with pytest.raises(BudgetError, match=r"budget\.device_s"):
        search.run(job(60, "x", "1"))
    # The pause until somebody resumes is not in it, and what comes after does not change what was.
    clock = Clock(tmp_path / "wall_s")
    assert clock.before == died
    events.Events(tmp_path / "events.jsonl").emit("start", {"state": "reopened", "wall_s": f"{clock.before:.4f}"})
    clock.close()
    assert events.device_seconds(events.read_events(tmp_path / "events.jsonl"), died + 5000) == pytest.approx(spent)


def test_wall_time_binds_the_jobs_of_roles_on_every_device() -> None:
    inner, now = Booked(), [70.0]
    metered = account(inner, clock=lambda: now[0])
    judge = CappedExecutor(metered, "cuda", Budget(wall_s=100))
    judge.run(job(60, "x", "5"))
    with pytest.raises(
        BudgetError, match=r"^budget\.wall_s: 100 s of 100 s are spent; a job that may take 60 s was cut short$"
    ):
        judge.run(job(60, "x", "50"))
    now[0] = 101.0
    with pytest.raises(BudgetError, match=r"^budget\.wall_s: 101 s of 100 s are spent$"):
        judge.run(job(60, "x", "1"))
    assert inner.begun == [30, 30]
    metered.run(job(60, "x", "1"))
    assert inner.begun[-1] == 60, "v0 and the final benchmark are never cut"


def test_the_clock_counts_its_processes_and_no_pause(tmp_path: Path) -> None:
    path = tmp_path / "wall_s"
    assert read_wall_seconds(path) == 0
    for _ in range(3):
        before = read_wall_seconds(path)
        clock = Clock(path)
        assert clock.before == before
        clock.close()
        clock.close()
        assert before <= read_wall_seconds(path) <= clock.seconds() + 0.001
    path.write_text("0000000012345.500\n")
    clock = Clock(path)
    assert clock.seconds() >= 12345.5
    clock.close()
    assert read_wall_seconds(path) >= 12345.5


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("usd", "must be KEY=VALUE"),
        ("dollars=1", "budget.dollars: unknown key"),
        ("usd.each=1", "usd holds a value and no keys"),
        ("device=3", "budget.device: unknown key; did you mean 'device_s'?"),
        ("wall_s=0", "budget.wall_s: must be greater than 0"),
    ],
)
def test_a_cap_that_cannot_be_is_refused_in_one_sentence(config: Path, said: str, sentence: str) -> None:
    with one_sentence("--set", sentence):
        apply_changes(load(config), ["budget.usd=5", f"budget.{said}"])


def test_caps_are_set_by_their_keys_and_said_as_they_are(config: Path) -> None:
    values = {"device_s": 9, "wall_s": 0.04}
    said = apply_changes(load(config), [f"budget.{key}={value}" for key, value in values.items()]).budget.caps_by_key()
    assert {key: said[key] for key in values} == {key: f"{value} s" for key, value in values.items()}


# ---------------------------------------------------------------- the final benchmark


def with_more(config: Path, **more: object) -> Settings:
    data = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**data, **more}))
    return load(config)


def test_the_estimate_grows_with_what_the_benchmark_does(config: Path) -> None:
    plain = with_more(config, benchmark={"eager": False, "compile": False})
    framed = with_more(config, benchmark={"eager": True, "compile": True})
    rounds = with_more(config, judge={"benchmark_rounds": 40})
    base = reserve.estimate_benchmark_seconds(0.01, 1, plain, "cpu")
    assert (
        0
        < base
        < reserve.estimate_benchmark_seconds(0.02, 1, plain, "cpu")
        < reserve.estimate_benchmark_seconds(0.02, 3, plain, "cpu")
    )
    assert (
        base
        < reserve.estimate_benchmark_seconds(0.01, 1, framed, "cpu")
        < reserve.estimate_benchmark_seconds(0.01, 1, framed, "cuda")
    )
    assert reserve.estimate_benchmark_seconds(0.01, 1, framed, "cpu") < reserve.estimate_benchmark_seconds(
        0.01, 1, rounds, "cpu"
    )
