"""One line a node and candidate, none for the rest."""

from __future__ import annotations

from graph.console.lines import event_line
from graph.console.status import RunStatus
from graph.console.terminal import Progress
from graph.workspace.events import Event, Events, read_events


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


def test_what_a_kernel_says_does_not_command_the_terminal() -> None:
    said = "build: \x1b]0;owned\x07\x1b[2J\x9b31m\r\nsecond [1.9, 2.1] Δ é"
    line = event_line(event("candidate", candidate="0123456789ab", outcome="failed", summary=said))
    status = RunStatus()
    status.add(event("drafted", candidate="0123456789ab", methods="simd", knobs=""))
    status.add(event("candidate", candidate="0123456789ab", outcome="failed", stage="build", reason=said))
    for text in (line or "", status.rows["0123456789ab"].result):
        assert text.isprintable() and "\x1b" not in text and "second [1.9, 2.1] Δ é" in text


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path) -> None:
    log = Events(tmp_path / "events.jsonl")
    log.emit("node", {"node": "plan"})
    with log.path.open("a") as file:
        file.write('{"kind": "no')
    assert [e.details for e in read_events(log.path)] == [{"node": "plan"}]
