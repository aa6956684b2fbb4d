"""One line a node and candidate, none for the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from agents.models.ledger import Ledger, Spent, unpriced, unsaid
from graph.budget.metering import Metered
from graph.build import _timed
from graph.console.dashboard import Dashboard
from graph.console.lines import Plain
from graph.console.live import view
from graph.services import Services
from graph.state import State
from graph.workspace.events import Event, Events, read
from tools.executors.local import LocalExecutor
from tools.store.records import Blobs, Records


def event(kind: str, **details: str) -> Event:
    return Event(kind=kind, seconds=0.0, details=details)


FINISHED = event("node", node="profile", state="finished", iteration="1", s="0.5", summary="memory-bound")
CANDIDATE = event("candidate", candidate="0123456789ab", outcome="passed", summary="2.00x [1.90, 2.10]  simd-loop")
STARTED = event("node", node="profile", state="started", iteration="1")


def test_a_line_a_node_and_candidate_and_quiet_still_says_what_ctrl_c_does() -> None:
    lines: list[str] = []
    quiet: list[str] = []
    for one in (
        STARTED,
        FINISHED,
        CANDIDATE,
        event("job", argv="g++", s="0.1"),
        event("interrupt", workspace="workspaces/softmax"),
    ):
        Plain(lines.append)(one)
        Plain(quiet.append, only="interrupt")(one)
    assert quiet == lines[2:] and "`python -m graph resume workspaces/softmax`" in quiet[0]
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
        Plain(lines.append)(FINISHED.model_copy(update={"details": {**FINISHED.details, **spent.told()}}))
    assert [line.partition("memory-bound")[2] for line in lines] == [
        "  [1,234 tokens]",
        "  [1,234 tokens, $0.5000 and more]",
        "",
        "  [1,234 tokens, $0.0000]",
    ]
    Plain(lines.append)(
        event("exchange", role="coder", state="unusable", why="models.coder: no usable Drafts was given")
    )
    assert lines[-1].endswith("models.coder: no usable Drafts was given")


def test_what_a_kernel_says_does_not_command_the_terminal() -> None:
    said = "build: \x1b]0;owned\x07\x1b[2J\x9b31m\r\nsecond [1.9, 2.1] Δ é"
    lines: list[str] = []
    Plain(lines.append)(event("candidate", candidate="0123456789ab", outcome="failed", summary=said))
    board = Dashboard().see_all(
        (
            event("drafted", candidate="0123456789ab", methods="simd", knobs=""),
            event("candidate", candidate="0123456789ab", outcome="failed", stage="build", reason=said),
        )
    )
    board.taken_up = 0.0, 0.0
    for text in (*lines, *map(str, view(board, 200, 40, 0.0))):
        assert text.isprintable() and "\x1b" not in text
    assert "second [1.9, 2.1] Δ é" in lines[0]


def test_iterations_never_go_backwards(tmp_path: Path) -> None:
    """A plan with nothing left gives its iteration back, and the end belongs to none."""

    def plan(state: State, services: Services) -> State:
        return State(iteration=state["iteration"] - 1, summary="nothing left")

    def finalise(state: State, services: Services) -> State:
        return State(summary="done")

    lines: list[str] = []
    executor = Metered(
        LocalExecutor(Blobs(tmp_path / "blobs"), tmp_path / "scratch"), lambda kind, details: None, lambda: 0.0, {}
    )
    told = SimpleNamespace(
        emit=lambda kind, details: Plain(lines.append)(event(kind, **details)),
        ledger=Ledger(Records(tmp_path)),
        executor=executor,
    )
    for name, work, iteration in (("plan", plan, 2), ("finalise", finalise, 1)):
        _timed(name, work)(State(iteration=iteration), SimpleNamespace(context=told))
    assert [line.split()[:2] for line in lines] == [["2", "plan"], ["finalise", "0.00"]]


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path) -> None:
    log = Events(tmp_path / "events.jsonl")
    log.emit("node", {"node": "plan"})
    with log.path.open("a") as file:
        file.write('{"kind": "no')
    assert [e.details for e in read(log.path)] == [{"node": "plan"}]
