"""What a run came to, for people and for programs; `show` and `report` without a run in progress."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from graph.artifacts import FinalBenchmark, VersionMemory
from graph.report.render import gain, ratio
from graph.state import State
from graph.workspace import Workspace
from tools.artifacts import UNBOUNDED, Artifact, Interval
from tools.records import Records


class Summary(Artifact):
    """The object that `--json` prints last."""

    status: Literal["finished", "unfinished"]
    stop_reason: str | None
    workspace: str
    baseline_s: float | None
    """Objective time of v0 in the final benchmark (Σ weight × median)."""
    best_s: float | None
    """baseline_s / speedup."""
    speedup: float | None
    """baseline / best by paired rounds, each in a process of its own; 1 where no version was accepted."""
    ci: tuple[float, float] | None
    """Of `speedup`; None: no version was accepted, or too few rounds."""
    verdicts: dict[str, str]
    """v<N> -> outcome."""
    commits: tuple[str, ...]
    disturbed: bool = Field(default=False, exclude=True)
    """Others kept the machine busy while the final benchmark ran."""

    def sentence(self) -> str:
        """The last line of a run."""
        accepted = sum(outcome == "accept" for outcome in self.verdicts.values())
        report = Path(self.workspace) / "report.md"
        if self.status == "unfinished":
            done = f"{accepted} of {len(self.verdicts)} iterations accepted so far"
            return f"unfinished: {done}; where no process works on it, `python -m graph resume {self.workspace}` goes on"
        seen = f"; see {report}" if report.exists() else ""
        tail = f"{accepted} of {len(self.verdicts)} iterations accepted; stopped: {self.stop_reason or 'not yet'}{seen}"
        if self.speedup is None or self.baseline_s is None or self.best_s is None:
            return f"{self.status}: {tail}"
        low, high = self.ci or (1 / UNBOUNDED, UNBOUNDED)
        speedup = Interval(estimate=self.speedup, low=low, high=high) if accepted else None
        doubts = ["others kept the machine busy"] if self.disturbed else []
        doubts += ["the interval includes 1"] if speedup and speedup.low <= 1 else []
        doubt = f" ({', '.join(doubts)})" if doubts else ""
        return f"{self.status}: {gain(self.baseline_s, self.best_s, speedup)}{doubt}; {tail}"


def summarise(root: Path, state: State) -> Summary:
    """From the final state and the records of a workspace."""
    from tools.repository import Repository

    benchmark = None
    if state.get("report"):
        benchmark = FinalBenchmark.model_validate(Records(root).get(state["report"]).payload)
    overall = benchmark.overall.get("baseline") if benchmark else None
    return Summary(
        status="finished" if state.get("report") else "unfinished",
        stop_reason=state.get("stop"),
        workspace=str(root),
        baseline_s=benchmark.objective_s.get("baseline") if benchmark else None,
        best_s=benchmark.objective_s.get(benchmark.best) if benchmark else None,
        speedup=overall.estimate if overall else 1.0 if benchmark else None,
        ci=(overall.low, overall.high) if overall and overall.bounded else None,
        verdicts={f"v{m.iteration}": m.verdict for m in versions(root) if m.iteration > 0},
        disturbed=benchmark.disturbed if benchmark else False,
        commits=tuple(commit.id for commit in reversed(Repository(root).log())),
    )


def versions(root: Path) -> tuple[VersionMemory, ...]:
    """memory/v<N>.json of every closed version, in order."""
    paths = sorted((root / "memory").glob("v*.json"), key=lambda path: int(path.stem[1:]))
    return tuple(VersionMemory.model_validate_json(path.read_bytes()) for path in paths)


def stored_state(workspace: Workspace) -> State:
    """The state in the workspace's checkpoint; empty when there is none yet."""
    import sqlite3
    from typing import cast

    from langgraph.checkpoint.sqlite import SqliteSaver

    path = workspace.private / "checkpoint.sqlite"
    if not path.exists():
        return State()
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        found = SqliteSaver(connection).get_tuple({"configurable": {"thread_id": "run"}})
        return cast(State, dict(found.checkpoint["channel_values"])) if found else State()
    finally:
        connection.close()


def show(path: Path, *, as_json: bool) -> str:
    """Where a run stands: the summary and a line for each version."""
    from graph import workspace as workspaces

    workspace = workspaces.peek(path)
    summary = summarise(workspace.root, stored_state(workspace))
    if as_json:
        return summary.model_dump_json()
    lines = [summary.sentence()]
    for memory in versions(workspace.root):
        what = "+".join(memory.methods) or "baseline"
        masked = "  (masked)" if memory.masked else ""
        lines.append(f"v{memory.iteration:<3} {memory.verdict:<18} {ratio(memory.speedup):<26} {what}{masked}")
    return "\n".join(lines)
