"""A second run on the same kernel begins where the first one arrived. Counts only: what the machine's noise decides
is not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph.workspace import events
from graph.workspace.versions import read_versions
from knowledge_base.artifacts import Attempt
from knowledge_base.experience.log import Experience
from knowledge_base.experience.status import method_status
from tests.graph.conftest import ATTEMPTS, QUICK, TASK, configured, graph
from tools.store.records import Records


def run(folder: Path, name: str, iterations: int) -> tuple[list[str], list[Attempt]]:
    """The candidates that a quick run judged, in order, and what it told experience; all runs of `folder` share one
    log."""
    search = {**QUICK["search"], "iterations": iterations, "methods_per_iteration": 1}
    path = configured(folder, name=name, workspaces=str(folder / name), search=search)
    done = graph("run", str(path), "--quiet", home=folder / "home")
    assert done.returncode == 0, done.stderr
    (root,) = (folder / name).iterdir()
    log = events.read_events(root / ".kernelwright" / "events.jsonl")
    judged = [event.details["candidate"] for event in log if event.kind == "candidate"]
    return judged, [attempt for memory in read_versions(root) for attempt in memory.attempts]


@pytest.mark.slow
def test_the_second_run_starts_where_the_first_arrived_and_repeats_no_failure(tmp_path: Path) -> None:
    first, told = run(tmp_path, "first", 1)
    assert len(first) == 2, "two candidates of one method are judged when nothing is known"
    kept = Experience(tmp_path / "home").attempts()
    assert {one.after for one in kept} == {one.after for one in told} and all(
        one.commit and one.before and one.findings for one in kept
    )
    second, again = run(tmp_path, "second", 1)
    won = [one for one in told if method_status(one.verdict, one.effect) == "resolved"]
    if won:
        assert len(second) == 1 and [one.after for one in again] == [one.after for one in won], (
            "the winner alone is judged, and at once"
        )
    rejected = {(one.before, one.after) for one in told if method_status(one.verdict, one.effect) == "avoid"}
    assert not rejected & {(one.before, one.after) for one in again}


@pytest.mark.slow
def test_a_method_that_a_plan_named_itself_is_a_page_that_a_run_on_a_sibling_kernel_retrieves_and_cites(
    tmp_path: Path,
) -> None:
    sibling, page = tmp_path / "sibling", tmp_path / "home" / "overlay" / "own" / "cpp-vector-exp.md"
    sibling.mkdir()
    for file in TASK.iterdir():
        (sibling / file.name).write_text(file.read_text().replace(" / ", " * "))

    def last(task: Path, name: str) -> tuple[Path, dict[str, Any]]:
        search = {"iterations": 1, "candidates": 1, "patience": 1}
        models = {"default": {"provider": "tests.agents.through_tools:Naming"}}
        path = configured(tmp_path, task=str(task), workspaces=str(tmp_path / name), search=search, models=models)
        done = graph("run", str(path), home=tmp_path / "home")
        assert done.returncode == 0, done.stderr
        (root,) = (tmp_path / name).iterdir()
        return root, {record.kind: record.payload for record in Records(root)}

    for attempt in range(ATTEMPTS):
        # While others keep the machine busy noise may hide every gain.
        if not page.exists():
            _, records = last(TASK, str(attempt))
            (planned,) = records["plan"]["methods"]
            assert (planned["method"], planned["hypothesis"]["citations"]) == ("own:vector-exp", [])
    text = page.read_text()
    root, records = last(sibling, "next")
    first, (planned,) = records["dossier"]["methods"][0], records["plan"]["methods"]
    assert first["head"]["id"] == "own:vector-exp" and text.endswith(first["body"])
    assert (
        planned["hypothesis"]["citations"] == first["head"]["sources"]
        and f"record {first['head']['sources'][0]}" in text
    )
    assert "own:vector-exp" in (root / "report.md").read_text()
