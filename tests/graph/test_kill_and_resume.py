"""A run killed at every node boundary and inside judge, gate and commit ends as if nothing had happened (F8)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.lifecycle.verify import accepted_commits, verify
from graph.report.content.summary import summarise
from graph.workspace import events
from graph.workspace.folder import open_read_only
from graph.workspace.versions import read_state, read_versions
from knowledge_base.experience.log import Experience
from tests.graph.conftest import TRIES, gain_of
from tests.support import run_captured
from tools.store.records import Records
from tools.store.repository import Commit, Repository

MANY = 200
"""Deaths after which something is wrong: the run is not getting on."""
MEASURED = {"build", "correctness", "timing", "calibration", "confirmation", "benchmark", "roof"}
BOUNDARIES = (
    "preflight",
    "retrieve_specs",
    "establish_baseline",
    "profile",
    "retrieve_evidence",
    "plan",
    "write",
    "judge",
    "select",
)
INSIDE = (
    "commit started 1",
    "commit written 1",
    "commit finished 1",
    "commit written report",
    "judge build",
    "judge correctness",
    "judge timing",
    "record verdict",
    "record timing",
    "record confirmation",
    "record calibration",
    "record attribution",
    "record benchmark",
)


def live_through(folder: Path, config: Path, enough: Callable[[Path], bool] = lambda root: False) -> tuple[Path, int]:
    """Start the run and take it up again until it ends by itself or is far `enough`, looking at what lies there
    after each death."""
    verb = ["run", str(config)]
    seen: dict[str, str] = {}
    for deaths in range(MANY):
        command = [sys.executable, "-m", "tests.graph.killer", str(folder), *verb]
        done = run_captured(command)
        if done.returncode == 0:
            return workspace(folder), deaths
        assert done.returncode == -9, done.stderr[-2000:]
        found = workspace(folder)
        nothing_is_lost(found, seen)
        if enough(found):
            return found, deaths
        # Before its task is on record a run cannot be resumed; starting again loses nothing.
        if any(record.kind == "task" for record in Records(found)):
            verb = ["resume", str(found)]
        else:
            seen.clear()
    raise AssertionError(f"still not finished after {MANY} deaths")


def nothing_is_lost(root: Path, seen: dict[str, str]) -> None:
    """After any death: every record can be read and has its blobs, and what was finished before is still there
    unchanged."""
    records = Records(root, root / ".kernelwright" / "blobs")
    there = {record.id: record.key for record in records}
    assert seen.items() <= there.items(), "a finished record is gone"
    assert max(Counter(there.values()).values(), default=1) == 1, "a question has two answers"
    seen.update(there)
    for record in records:
        for sha in record.blobs.values():
            assert (root / "blobs" / sha).is_file(), f"record {record.id} has lost a blob"


def workspace(folder: Path) -> Path:
    return sorted((folder / "workspaces").iterdir())[-1]


def repeated(log: tuple[events.Event, ...]) -> list[str]:
    """Jobs that were started again although their answer had been recorded."""
    last, answered, again = "", set(), []
    for event in log:
        if event.kind == "job" and event.details["state"] == "started" and event.details["job"] in answered:
            again.append(event.details["argv"])
        elif event.kind == "job" and event.details["state"] == "finished":
            last = event.details["job"]
        elif event.kind == "record" and event.details["kind"] in MEASURED:
            answered.add(last)
    return again


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_everywhere(tmp_path: Path, config: Path) -> None:
    root, deaths = live_through(tmp_path, config)
    places = (tmp_path / "deaths").read_text().splitlines()
    assert deaths > 60
    for node in (*BOUNDARIES, "attribute", "gate", "learn", "finalise"):
        assert any(place.startswith(f"node {node} started") for place in places), node
        assert any(place.startswith(f"node {node} finished") for place in places), node
    assert set(INSIDE) <= set(places)

    log = events.read_events(root / ".kernelwright" / "events.jsonl")
    new = Counter(event.details["key"] for event in log if event.kind == "record")
    assert max(new.values()) == 1, "a record was made twice"
    assert repeated(log) == [], "a finished measurement was repeated"

    repository = Repository(root)
    commits = repository.log()
    assert max(Counter(c.trailers["Version"] for c in commits if "Version" in c.trailers).values()) == 1, (
        "a commit was doubled"
    )
    assert sum("Report" in c.trailers for c in commits) == 1
    assert repository.drift() == ()

    attempts = Experience(None).attempts()
    assert attempts and max(Counter((a.evidence, a.methods) for a in attempts).values()) == 1, (
        "an outcome was learnt twice"
    )

    memories = read_versions(root)
    assert [m.iteration for m in memories] == list(range(len(memories)))
    summary = summarise(root, read_state(open_read_only(root)))
    assert summary.status == "finished" and summary.speedup is not None
    assert "accept" in summary.verdicts.values()
    verified(root, accepted_commits(repository))


def verified(root: Path, commits: tuple[Commit, ...]) -> None:
    """No commit is called wrong, and the one that claims most is reproduced.

    A busy machine may take so much of a gain away that one look is inconclusive; another one is fair. A small gain
    beside the large one can stay hidden for as long as others are at work, so of the rest only a refutation counts.
    """
    most = max(commits, key=gain_of)
    for commit in commits:
        (found,) = verify(root, commit.id)
        looks = [found]
        while commit is most and found.outcome == "inconclusive" and len(looks) < TRIES:
            (found,) = verify(root, commit.id)
            looks.append(found)
        said = "; ".join(look.sentence() for look in looks)
        assert found.outcome != "disagree", said
        assert commit is not most or found.outcome == "agree", said
