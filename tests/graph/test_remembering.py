"""A second run on the same kernel begins where the first one arrived. Counts only: what the machine's noise decides is not asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.report.content.summary import versions
from graph.workspace import events
from knowledge_base.artifacts import Attempt
from knowledge_base.experience.log import Experience
from knowledge_base.experience.status import status
from tests.graph.conftest import QUICK, configured, graph


def run(folder: Path, name: str, iterations: int) -> tuple[list[str], list[Attempt]]:
    """The candidates that a quick run judged, in order, and what it told experience; all runs of `folder` share one log."""
    search = {**QUICK["search"], "iterations": iterations, "methods_per_iteration": 1}
    path = configured(folder, name=name, workspaces=str(folder / name), search=search)
    done = graph("run", str(path), "--quiet", home=folder / "home")
    assert done.returncode == 0, done.stderr
    (root,) = (folder / name).iterdir()
    log = events.read(root / ".kernelwright" / "events.jsonl")
    judged = [event.details["candidate"] for event in log if event.kind == "candidate"]
    return judged, [attempt for memory in versions(root) for attempt in memory.attempts]


@pytest.mark.slow
def test_the_second_run_starts_where_the_first_arrived_and_repeats_no_failure(tmp_path: Path) -> None:
    first, told = run(tmp_path, "first", 1)
    assert len(first) == 2, "two candidates of one method are judged when nothing is known"
    kept = Experience(tmp_path / "home").attempts()
    assert {one.after for one in kept} == {one.after for one in told} and all(one.commit and one.before and one.findings for one in kept)
    second, again = run(tmp_path, "second", 1)
    won = [one for one in told if status(one.verdict, one.effect) == "resolved"]
    if won:
        assert len(second) == 1 and [one.after for one in again] == [one.after for one in won], "the winner alone is judged, and at once"
    rejected = {(one.before, one.after) for one in told if status(one.verdict, one.effect) == "avoid"}
    assert not rejected & {(one.before, one.after) for one in again}
