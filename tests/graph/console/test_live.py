"""The live view at a pseudo-terminal, fed with the events of a recorded run, and Ctrl-C at a real one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console, ConsoleDimensions

from graph.__main__ import main
from graph.budget.metering import MeteredExecutor
from graph.console.lines import event_line
from graph.console.live import LiveView, render_status
from graph.console.status import RunStatus
from graph.report.final import FILES, MARKDOWN
from graph.workspace.events import Event, read_events
from tests.graph.conftest import SHORT, configured, git
from tests.graph.terminal import AtTerminal, Terminal
from tools.artifacts import Bound
from tools.errors import KernelwrightError
from tools.executors.base import Job, Limits
from tools.executors.local import LocalExecutor
from tools.store.blobs import Blobs
from tools.store.repository import Repository

RUN = read_events(Path(__file__).parent / "quickstart-events.jsonl")
"""Of `configs/quickstart.yaml` in C++, stopped with Ctrl-C and resumed on the way; those of records left out."""
FIRST = next(i for i, event in enumerate(RUN) if event.kind == "judge" and event.details["stage"] == "timing")
"""The first candidate is about to be timed."""


class Clock:
    """Stands where the last event stands."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Own(Console):
    """Measures the terminal that it writes to; rich asks the process's own."""

    @property
    def size(self) -> ConsoleDimensions:
        return ConsoleDimensions(*os.get_terminal_size(self.file.fileno()))


class Replay:
    """A live view at a terminal, fed with events at their own times."""

    def __init__(self, width: int, height: int = 40) -> None:
        self.terminal = Terminal(width, height)
        self.clock = Clock()
        self.file = os.fdopen(os.dup(self.terminal.fd), "w", encoding="utf-8")
        self.live = LiveView(Own(file=self.file, _environ={"TERM": "screen-256color"}), self.clock)

    def feed(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self.clock.now = event.seconds
            self.live(event)
            self.terminal.read()


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Iterator[Replay]:
    made = Replay(*request.param)
    with made.live:
        yield made
    made.terminal.read()
    made.file.close()
    made.terminal.close()


def shown(text: str) -> list[str]:
    """The rows of the view: what stands below the last empty row."""
    return text.rpartition("\n\n")[2].splitlines()


def drawn(status: RunStatus, width: int, now: float = 0.0) -> list[str]:
    """The lines of the view at a terminal of a width."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(render_status(status, now))
    return [text.rstrip() for text in capture.get().splitlines()]


def status_after(*events: Event) -> RunStatus:
    status = RunStatus()
    for event in events:
        status.add(event)
    return status


@pytest.mark.parametrize("replay", [(80,), (200,)], indirect=True)
def test_the_view_shows_the_current_activity_and_the_candidates(replay: Replay) -> None:
    # The job begins: what stands there now stands until it ends.
    replay.feed(RUN[: FIRST + 2])
    assert RUN[FIRST + 1].kind == "job"
    rows = shown(replay.terminal.seen)
    assert rows[0].startswith("v1 judge · parent v0 · since ")
    assert rows[1] == "best      v0, the baseline"
    assert rows[2].startswith("headroom  Δ ") and " %, limit " in rows[2] and rows[2].endswith(" %)")
    assert rows[3].startswith("budget    wall ") and "/3600 s  device " in rows[3] and "(no cap)" in rows[3]
    first = RUN[FIRST].details["candidate"]
    assert rows[4].split()[:3] == [first, "timing", "1/2"] and rows[5].split()[1] == "waiting"
    wide = replay.terminal.screen.columns == 200
    assert ("SCHEDULE=" in rows[4]) is wide and rows[4].endswith("…") is not wide
    assert not replay.terminal.clean, "the cursor would blink about"


@pytest.mark.parametrize("replay", [(80,), (200,), (33, 12)], indirect=True)
def test_finished_lines_scroll_and_nothing_else_stays(replay: Replay) -> None:
    replay.feed(RUN)
    replay.live.__exit__(None, None, None)
    replay.terminal.read()
    left, width = replay.terminal.scrolled, replay.terminal.screen.columns
    finished = [text for event in RUN if (text := event_line(event))]
    assert len(finished) > 20 and b"\x1b[32m" in replay.terminal.written
    expected = "".join(text + " " * (-len(text) % width) for text in finished)
    assert left.rstrip() == expected.rstrip()
    assert replay.terminal.clean


@pytest.mark.parametrize("replay", [(80,)], indirect=True)
def test_nothing_is_drawn_while_a_job_runs(replay: Replay) -> None:
    replay.feed(RUN[: FIRST + 2])
    replay.terminal.written = b""
    replay.terminal.read(2.5)
    assert replay.live.status.running_jobs == 1 and replay.terminal.written == b""


def test_it_draws_four_times_a_second_at_most_and_once_more_for_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    moments: list[float] = []
    monkeypatch.setattr("graph.console.live.render_status", lambda status, now: moments.append(now) or "")
    made = Replay(80)
    made.clock.now = RUN[0].seconds
    with made.live:
        made.feed(RUN)
    made.terminal.close()
    jobs = [event.seconds for event in RUN if event.kind == "job" and event.details["state"] == "started"]
    for begin in moments:
        within = [sum(begin <= moment < begin + 1 for moment in one) for one in (moments, jobs)]
        # rich asks once more when it begins and when it ends.
        assert within[0] <= 4 + within[1] + 2


@pytest.mark.parametrize("bound", ["", *get_args(Bound)])
def test_at_80_columns_the_headroom_is_whole(bound: str) -> None:
    status = status_after(*RUN[: FIRST + 1])
    gaps = dict.fromkeys(("total", "compute", "memory", "latency"), "1")
    status.add(Event(kind="headroom", seconds=0.0, details={"bound": bound, **gaps}))
    (line,) = [text for text in drawn(status, 80) if text.startswith("headroom")]
    assert line.endswith(", Δl 100.0 %)") and (f"limit {bound}" if bound else "not profiled") in line


def test_outcomes_and_the_best_version_are_shown_with_candidates_in_progress_first() -> None:
    gate = next(i for i, event in enumerate(RUN) if event.kind == "verdict")
    verdict = RUN[gate].details
    assert verdict["outcome"] == "accept"
    status = status_after(*RUN[: gate + 1])
    text = "\n".join(drawn(status, 200))
    interval = f"{float(verdict['speedup']):.3g}× [{float(verdict['low']):.3g}, {float(verdict['high']):.3g}]"
    assert f"best      v1  {interval} over v0" in text
    assert f"{verdict['candidate']}  accept" in text and "passed" in text and "champion without " in text
    told = {"candidate": "0123456789ab", "methods": "m", "knobs": "", "iteration": "1"}
    status.add(Event(kind="drafted", seconds=0.0, details=told))
    assert drawn(status, 80)[5].split()[:2] == ["0123456789ab", "waiting"]


@pytest.mark.parametrize("parent", [{"parent": "v1"}, {}])
def test_the_best_is_over_the_version_that_it_was_compared_with(parent: dict[str, str]) -> None:
    """Not over the iteration before it, which may have lost; logs without the parent are read too."""
    status = RunStatus()
    for iteration, outcome, of in (("1", "accept", {}), ("2", "reject_perf", {}), ("3", "accept", parent)):
        details = {"iteration": iteration, "candidate": "c", "outcome": outcome, "speedup": "2", "summary": ""}
        status.add(Event(kind="verdict", seconds=0.0, details={**details, "low": "1.9", "high": "2.1", **of}))
    assert status.best == "v3  2× [1.9, 2.1] over v1" and status.parent == "v3"


def test_what_is_paid_stands_beside_its_caps() -> None:
    caps = {"wall_s": "3600", "device_s": "600", "usd": "5", "tokens": "100000", "device": "cpu", "spent_wall_s": "30"}
    paid = {"spent": "…", "spent_usd": "0.520000", "spent_tokens": "12345"}
    status = status_after(
        Event(kind="caps", seconds=100.0, details=caps),
        Event(kind="job", seconds=101.0, details={"state": "finished", "device": "cpu", "used": "2.5", "s": "90"}),
        Event(kind="exchange", seconds=102.0, details={"role": "coder", "state": "started"}),
    )
    assert "asking the coder" in status.activity()
    finished = {"role": "coder", "state": "finished", **paid}
    status.add(Event(kind="exchange", seconds=103.0, details=finished))
    assert status.budget(110.0) == "wall 40/3600 s  device 2/600 s  $0.52/5  12345/100000 tokens"
    status.add(Event(kind="exchange", seconds=104.0, details={**finished, "spent_unknown": "why"}))
    assert "at least $0.52/5" in status.budget(110.0)


# ------------------------------------------------------------ Ctrl-C


def test_a_job_that_is_abandoned_ends_at_once_and_nothing_begins(tmp_path: Path) -> None:
    executor = MeteredExecutor(
        LocalExecutor(Blobs(tmp_path / "blobs"), tmp_path / "scratch"), lambda kind, details: None, lambda: 0.0, {}
    )
    job = Job(files={}, argv=("sleep", "600"), limits=Limits(wall_s=600.0))
    ended: list[type[BaseException]] = []

    def work() -> None:
        try:
            executor.run(job)
        except (KeyboardInterrupt, KernelwrightError) as error:
            ended.append(type(error))

    with executor:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join(1.0)
        assert worker.is_alive()
        executor.stopping.set()
        executor.end_jobs()
        worker.join(30.0)
        assert ended == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt):
            executor.run(job)


def wait_until_alone(folder: Path) -> None:
    """No other process may work under the folder."""
    end = time.monotonic() + 120
    while left := [
        place for place in Path("/proc").glob("[0-9]*/cwd") if os.path.realpath(place).startswith(str(folder))
    ]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


@pytest.mark.slow
def test_ctrl_c_drains_and_a_second_one_does_not_and_a_report_between_is_no_change_by_somebody_else(
    tmp_path: Path,
) -> None:
    run = AtTerminal("run", str(configured(tmp_path, **SHORT)))
    run.terminal.until(lambda: " judge " in run.terminal.seen, 120)
    root = next((tmp_path / "workspaces").iterdir())
    run.press()
    run.terminal.until(lambda: "stopping: " in run.terminal.scrolled or run.process.poll() is not None, 30)
    told = run.process.poll() is None
    assert run.ended() == 130 and run.terminal.clean, run.terminal.seen
    assert told, "it was not said at once"
    said = run.terminal.scrolled
    assert (
        said.count(f"`python -m graph resume {root}` continues the run where it stopped") == 2
        and "Traceback" not in said
    )
    log = read_events(root / ".kernelwright" / "events.jsonl")
    stopped = next(i for i, event in enumerate(log) if event.kind == "interrupt")
    jobs = [
        (at > stopped, event.details["state"], event.details["number"])
        for at, event in enumerate(log)
        if event.kind == "job"
    ]
    begun, ended = (
        {(after, number) for after, state, number in jobs if state == wanted} for wanted in ("started", "finished")
    )
    assert not [number for after, number in begun if after], "nothing new begins"
    assert {number for _, number in begun} == {number for _, number in ended}, "what was being measured came to its end"

    assert main(["report", str(root)]) == 0
    repository = Repository(root)
    assert set(repository.drift()) & set(FILES), "the report stands beside what git holds"
    midway = (root / MARKDOWN).read_text()

    again = AtTerminal("resume", str(root), environment={"NO_COLOR": "1"}, width=200)
    again.terminal.until(lambda: " judge " in again.terminal.seen, 120)
    again.press()
    again.terminal.until(lambda: "stopping: " in again.terminal.scrolled, 30)
    again.press()
    assert b"\x1b[3" not in again.terminal.written, "NO_COLOR is heard"
    assert again.ended() == 130 and again.terminal.clean and "Traceback" not in again.terminal.scrolled, (
        again.terminal.seen
    )
    wait_until_alone(root)

    plain = AtTerminal("resume", str(root), environment={"TERM": "dumb"})
    assert plain.ended() == 0, plain.terminal.seen
    assert b"\x1b" not in plain.terminal.written and b"finished: " in plain.terminal.written
    assert (root / MARKDOWN).read_text() != midway
    assert not repository.drift() and sum("Report" in commit.trailers for commit in repository.log()) == 1
    closed = repository.find_commit("Version", "v1")
    assert closed and closed not in git(root, "log", "--format=%H", "--", "report.md")
