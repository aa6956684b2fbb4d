"""One line a node and candidate, none for the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from agents.models.ledger import Ledger, Spent, unpriced, unsaid
from graph.budget.metering import MeteredExecutor
from graph.build import _node_with_events
from graph.console.lines import event_line
from graph.console.status import RunStatus
from graph.console.terminal import Progress
from graph.services import Services
from graph.state import State
from graph.workspace.events import Event, Events, read_events
from tools.executors.local import LocalExecutor
from tools.store.records import Blobs, Records


def event(kind: str, **details: str) -> Event:
    return Event(kind=kind, seconds=0.0, details=details)


FINISHED = event("node", node="profile", state="finished", iteration="1", s="0.5", summary="memory-bound")
CANDIDATE = event("candidate", candidate="0123456789ab", outcome="passed", summary="2.00x [1.90, 2.10]  simd-loop")
STARTED = event("node", node="profile", state="started", iteration="1")


def test_a_line_a_node_and_candidate_and_a_quiet_run_still_says_what_ctrl_c_does() -> None:
    lines: list[str] = []
    complaints: list[str] = []
    interrupt = event("interrupt", workspace="workspaces/softmax")
    for quiet in (False, True):
        with Progress(lines.append, complaints.append, quiet=quiet) as progress:
            for one in (STARTED, FINISHED, CANDIDATE, event("job", argv="g++", s="0.1"), interrupt):
                progress.observers[0](one)
    assert complaints == lines[2:] and "`python -m graph resume workspaces/softmax`" in complaints[0]
    assert "profile" in lines[0] and "memory-bound" in lines[0] and "0.50 s" in lines[0]
    assert "0123456789ab" in lines[1] and "2.00x" in lines[1]


def test_what_is_not_known_of_a_cost_is_not_said_on_every_line() -> None:
    lines: list[str] = []
    took = {"exchanges": 1, "input": 1200, "cached": 0, "written": 0, "output": 34, "seconds": 1.0}
    for usd, unknown, unseen in (
        (0.0, (unpriced("own"),), 0),
        (0.5, (unpriced("own"),), 0),
        (0.0, (unsaid("Command"),), 1),
        (0.0, (), 0),
    ):
        counts = {**took, "input": 0, "output": 0} if unseen else took
        spent = Spent(**counts, usd=usd, unknown=unknown, unseen=unseen)
        lines.append(event_line(FINISHED.model_copy(update={"details": {**FINISHED.details, **spent.told()}})) or "")
    assert [line.partition("memory-bound")[2] for line in lines] == [
        "  [1,234 tokens]",
        "  [1,234 tokens, $0.5000 and more]",
        "",
        "  [1,234 tokens, $0.0000]",
    ]
    unusable = event("exchange", role="coder", state="unusable", why="models.coder: no usable Drafts was given")
    assert (event_line(unusable) or "").endswith("models.coder: no usable Drafts was given")


def test_what_a_kernel_says_does_not_command_the_terminal() -> None:
    said = "build: \x1b]0;owned\x07\x1b[2J\x9b31m\r\nsecond [1.9, 2.1] Δ é"
    line = event_line(event("candidate", candidate="0123456789ab", outcome="failed", summary=said))
    status = RunStatus()
    status.add(event("drafted", candidate="0123456789ab", methods="simd", knobs=""))
    status.add(event("candidate", candidate="0123456789ab", outcome="failed", stage="build", reason=said))
    for text in (line or "", status.rows["0123456789ab"].result):
        assert text.isprintable() and "\x1b" not in text and "second [1.9, 2.1] Δ é" in text


def test_iterations_never_go_backwards(tmp_path: Path) -> None:
    """A plan with nothing left gives its iteration back, and the end belongs to none."""

    def plan(state: State, services: Services) -> State:
        return State(iteration=state["iteration"] - 1, summary="nothing left")

    def finalise(state: State, services: Services) -> State:
        return State(summary="done")

    lines: list[str] = []
    executor = MeteredExecutor(
        LocalExecutor(Blobs(tmp_path / "blobs"), tmp_path / "scratch"), lambda kind, details: None, lambda: 0.0, {}
    )
    told = SimpleNamespace(
        emit=lambda kind, details: lines.extend(filter(None, [event_line(event(kind, **details))])),
        ledger=Ledger(Records(tmp_path)),
        executor=executor,
    )
    for name, work, iteration in (("plan", plan, 2), ("finalise", finalise, 1)):
        _node_with_events(name, work)(State(iteration=iteration), SimpleNamespace(context=told))
    assert [line.split()[:2] for line in lines] == [["2", "plan"], ["finalise", "0.00"]]


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path) -> None:
    log = Events(tmp_path / "events.jsonl")
    log.emit("node", {"node": "plan"})
    with log.path.open("a") as file:
        file.write('{"kind": "no')
    assert [e.details for e in read_events(log.path)] == [{"node": "plan"}]
