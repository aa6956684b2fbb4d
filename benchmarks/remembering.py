"""What a run gains from the one before: `python -m benchmarks.remembering > benchmarks/results/experience.md`.

The quickstart's softmax is run twice with one empty KERNELWRIGHT_HOME and once more with another empty one, and what
was judged is counted from the runs' own event logs. Candidates are the same when their ids are, and these are hashes of
their sources.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from graph.artifacts import VersionMemory
from graph.workspace import events
from graph.workspace.versions import read_versions
from knowledge_base.experience.status import STATUS_ORDER, method_status
from knowledge_base.pages.wiki import HOME_VARIABLE

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "configs" / "quickstart.yaml"


class RunOutcome(NamedTuple):
    """One run."""

    judged: tuple[str, ...]
    """Ids of the candidates, in the order in which they were judged; ablations are none."""
    memories: tuple[VersionMemory, ...]

    @property
    def best(self) -> str:
        """Id of the last accepted candidate; empty: none was."""
        return next((m.candidate or "" for m in reversed(self.memories) if m.iteration and m.verdict == "accept"), "")

    def until(self, candidate: str) -> int | None:
        """Judged candidates up to and with `candidate`."""
        return self.judged.index(candidate) + 1 if candidate in self.judged else None

    def iteration(self, candidate: str) -> int | None:
        """That which accepted `candidate`."""
        return next((m.iteration for m in self.memories if m.candidate == candidate and m.verdict == "accept"), None)

    def outcomes(self, *wanted: str) -> set[tuple[str, str]]:
        """(incumbent, candidate), by their marks, of which experience was told that they are `wanted`."""
        return {
            (a.before, a.after)
            for m in self.memories
            for a in m.attempts
            if method_status(a.verdict, a.effect) in wanted
        }


def run(home: Path) -> RunOutcome:
    """The quickstart in a process of its own, as a user starts it."""
    done = subprocess.run(
        [sys.executable, "-m", "graph", "run", str(CONFIG), "--quiet", "--json"],
        cwd=home,
        env={**os.environ, HOME_VARIABLE: str(home), "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    workspace = Path(home, json.loads(done.stdout.splitlines()[-1])["workspace"])
    log = events.read_events(workspace / ".kernelwright" / "events.jsonl")
    return RunOutcome(tuple(e.details["candidate"] for e in log if e.kind == "candidate"), read_versions(workspace))


def table(first: RunOutcome, second: RunOutcome, control: RunOutcome) -> str:
    """The three runs side by side."""
    rows = [
        "| | first, nothing remembered | second, remembers the first | control, nothing remembered |",
        "|---|---|---|---|",
        _row("judged candidates in all", (str(len(one.judged)) for one in (first, second, control))),
        _row(
            "judged until the first run's best kernel",
            (_format_count(one.until(first.best)) for one in (first, second, control)),
        ),
        _row(
            "iteration that accepted it", (_format_count(one.iteration(first.best)) for one in (first, second, control))
        ),
    ]
    for name, wanted in (("rejected", ("avoid",)), ("rejected or left open", ("avoid", "pending"))):
        again = [len(first.outcomes(*wanted) & one.outcomes(*STATUS_ORDER)) for one in (second, control)]
        rows.append(
            _row(f"judged again from the same kernel, though the first run had {name} it", ("-", *map(str, again)))
        )
    return "\n".join(rows)


def _row(name: str, cells: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _format_count(count: int | None) -> str:
    return "not reached" if count is None else str(count)


def describe_run(name: str, seen: RunOutcome) -> str:
    """A description of one run with a line for each version."""
    lines = [f"{name}:", ""]
    for memory in seen.memories:
        if memory.iteration:
            gain = f"{memory.speedup.estimate:.2f}×" if memory.speedup else "not timed"
            lines.append(
                f"- v{memory.iteration}: {memory.verdict}, {gain}: {', '.join(memory.methods) or 'no method'} "
                f"({memory.candidate})"
            )
    return "\n".join(lines)


def main() -> None:
    """Three runs and the page."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, second, control = run(Path(one)), run(Path(one)), run(Path(other))
    print("# What a run gains from the one before\n")
    print(
        "`python -m benchmarks.remembering > benchmarks/results/experience.md`: the quickstart's softmax (C++), "
        "three runs of the playbook"
    )
    print(
        "on one machine. Counts, from the runs' logs and memories; the factors are those of the runs and vary "
        "with the machine.\n"
    )
    print(table(first, second, control))
    for name, seen in (("First run", first), ("Second run", second), ("Control", control)):
        print(f"\n{describe_run(name, seen)}")


if __name__ == "__main__":
    main()
