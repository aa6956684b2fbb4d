"""A run killed at every node boundary and inside judge, gate and commit ends as if nothing had happened (F8)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from graph import events
from graph.report.summary import stored_state, summarise, versions
from graph.verify import verify
from graph.workspace import peek
from tools.records import Records
from tools.repository import Repository

MANY = 120
"""Deaths after which something is wrong: the run is not getting on."""


def live_through(folder: Path, config: Path) -> tuple[Path, int]:
    """Start the run and take it up again until it ends by itself; returns its workspace and how often it died."""
    verb = ["run", str(config)]
    for deaths in range(MANY):
        done = subprocess.run([sys.executable, "-m", "tests.graph.killer", str(folder), *verb], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return workspace(folder), deaths
        assert done.returncode == -9, done.stderr[-2000:]
        found = workspace(folder)
        # Before its task is on record a run cannot be resumed; starting again loses nothing.
        verb = ["resume", str(found)] if any(r.kind == "task" for r in Records(found)) else verb
    raise AssertionError(f"still not finished after {MANY} deaths")


def workspace(folder: Path) -> Path:
    return sorted((folder / "workspaces").iterdir())[-1]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_killed_everywhere(tmp_path: Path, config: Path) -> None:
    root, deaths = live_through(tmp_path, config)
    places = (tmp_path / "deaths").read_text().splitlines()
    assert deaths > 20
    for node in (
        "preflight",
        "retrieve_specs",
        "establish_baseline",
        "profile",
        "plan",
        "write",
        "judge",
        "select",
        "gate",
        "learn",
        "finalise",
    ):
        assert any(place.startswith(f"node {node} started") for place in places), node
        assert any(place.startswith(f"node {node} finished") for place in places), node
    inside = {"commit started 1", "commit written 1", "commit finished 1", "commit written report", "judge build", "judge correctness"}
    assert inside <= set(places)

    log = events.read(root / ".kernelwright" / "events.jsonl")
    measured = Counter(event.details["key"] for event in log if event.kind == "record")
    assert max(measured.values()) == 1, "a finished measurement was repeated"

    repository = Repository(root)
    commits = repository.log()
    assert max(Counter(c.trailers["Version"] for c in commits if "Version" in c.trailers).values()) == 1, "a commit was doubled"
    assert repository.drift() == ()

    records = Records(root)
    for record in records:
        assert records.get(record.id) == record
        for sha in record.blobs.values():
            records.blobs.get(sha)

    memories = versions(root)
    assert [m.iteration for m in memories] == list(range(len(memories)))
    summary = summarise(root, stored_state(peek(root)))
    assert summary.status == "finished" and summary.speedup is not None
    assert "accept" in summary.verdicts.values()
    # A busy machine may take so much of a gain away that one look is inconclusive; a second one is fair.
    looks = [{v.outcome for v in verify(root, every=True)} for _ in range(2)]
    assert "disagree" not in set.union(*looks)
    assert {"agree"} in looks
