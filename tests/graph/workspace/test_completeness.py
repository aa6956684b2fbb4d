"""The audit of a version's artifacts, and what in a workspace is not the run's own."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graph.__main__ import main
from graph.lifecycle.rendering import replay
from graph.lifecycle.verify import unexpected_changes
from graph.workspace import drift
from graph.workspace import folder as workspaces
from graph.workspace.completeness import audit_closed_versions, audit_version
from graph.workspace.drift import POINTER_FILE
from tests.graph.conftest import printed_json
from tests.support import Capsys
from tools.errors import WorkspaceError
from tools.store.repository import Repository


def test_audit_of_a_complete_workspace_is_empty(copied: Path, capsys: Capsys) -> None:
    assert audit_closed_versions(copied) == () and main(["audit", str(copied)]) == 0
    assert capsys.readouterr().out == (
        "every closed version is complete and follows from its records; nothing was measured, and records are not signed\n"
    )


FAULTS: list[tuple[str, Any, str]] = [
    ("versions/v1/hypothesis.md", None, "versions/v1/hypothesis.md is missing"),
    ("versions/v1/bench.json", " \n", "versions/v1/bench.json is empty"),
    ("versions/v1/branches/", None, "versions/v1/branches/ is missing"),
    ("versions/v0/roofline.json", {"target": {}}, "versions/v0/roofline.json: KernelRoofline.record"),
    ("versions/v1/bench.json", {"any": 1}, "versions/v1/bench.json: tuple"),
    ("versions/v1/methods.json", [{"method": "x"}], "versions/v1/methods.json: 0.axis is not as its schema says"),
    ("versions/v1/attribution.json", {"not_available": "no time"}, "versions/v1/attribution.json: "),
    (
        "versions/v1/ablations/openmp-parallel-outer.json",
        {},
        "versions/v1/ablations/openmp-parallel-outer.json: iteration",
    ),
    ("versions/v3/ablations/none.md", "Not done.\n", "gives no known reason for what it lacks: 'Not done.'"),
    (
        "versions/v1/correctness.md",
        "# Correctness\n\nN/A: no time.\n",
        "gives no known reason for what it lacks: 'N/A: no time.'",
    ),
    (
        "versions/v1/evidence.md",
        "# Evidence for v1\n\n## Queries\n\n- (kernel) exp\n",
        "no line that begins with '- (bottleneck) '",
    ),
    (
        "versions/v1/hypothesis.md",
        "# v0 → v1\n\nFrom kernel `x`.\n\n## vector-exp (compute)\n",
        "no line that begins with '- change: '",
    ),
    (
        "versions/v1/analysis.md",
        "It is fast.\n",
        "versions/v1/analysis.md has no line that begins with '# Analysis of '",
    ),
    ("memory/v2.json", None, "memory/v2.json is missing"),
    ("memory/v2.json", {"schema_version": 2}, "memory/v2.json: schema_version"),
    ("versions/v1/verdict.json", None, "versions/v1/verdict.json is missing: v2 is out of order"),
    ("versions/v5/a.md", "x", "versions/v5 is out of order"),
    (POINTER_FILE, "1\n", "versions/v3 is out of order"),
]
"""File -> what is put in its place (None: it is taken away) -> what is said."""


def test_audit_names_what_is_missing_empty_hollow_or_out_of_order(copied: Path, capsys: Capsys) -> None:
    """Until now any text would do: `x` in each file was complete."""
    for name, content, told in FAULTS:
        path = copied / name
        path.parent.mkdir(exist_ok=True)
        if content is None:
            subprocess.run(["rm", "-r", str(path)], check=True)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        assert any(told in fault for fault in audit_closed_versions(copied)), (told, audit_closed_versions(copied))
        assert main(["audit", str(copied), "--json"]) == 1 and name.rstrip("/") in capsys.readouterr().out
        subprocess.run("git checkout -q . && git clean -fdq", shell=True, cwd=copied, check=True)


def test_what_is_not_there_needs_one_of_the_reasons(copied: Path) -> None:
    version = copied / "versions" / "v1"
    (version / "correctness.md").write_text("# Correctness\n\nN/A: no candidate came as far as this check.\n")
    (version / "attribution.json").write_text('{"not_available": "no candidate became champion"}')
    (version / "methods.json").write_text("[]")
    (version / "hypothesis.md").write_text("# v0 → v1\n\nFrom kernel `x`.\n")
    assert audit_version(copied, 1, closed=True) == ()


# ---------------------------------------------------------------- drift


@pytest.mark.parametrize(
    "name", ["kernel.cpp", POINTER_FILE, "versions/v4/a stray.md", "records/a note.md", "versions/v2/staged.md"]
)
def test_what_others_changed_stops_the_run_is_named_by_every_verb_and_ended_by_the_advice(
    copied: Path, name: str, capsys: Capsys
) -> None:
    """The pointer and whatever lay below the next version passed, and were committed."""
    path = copied / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("7\n")
    if "staged" in name:
        subprocess.run(["git", "add", name], cwd=copied, check=True)
    head = Repository(copied).head()
    for verb, code in (["resume", 2], ["report", 2], ["mask", 2], ["restart", 2], ["audit", 1], ["show", 0]):
        assert main([verb, str(copied), *(["v1"] if verb in ("mask", "restart") else [])]) == code
        said = "".join(capsys.readouterr())
        assert f"{name} changed outside the run; `" in said, verb
    assert main(["show", str(copied), "--json"]) == 0 and printed_json(capsys)["drift"] == [name]
    (found,) = unexpected_changes(Repository(copied), replay(Repository(copied)))
    assert found.outcome == "disagree" and name in found.reason
    assert Repository(copied).head() == head and path.read_text() == "7\n", "nothing is lost without being asked"
    for command in re.findall(r"`((?:git|rm) .+?)`", said):
        subprocess.run(shlex.split(command), cwd=copied, check=True)
    assert main(["resume", str(copied), "--quiet"]) == 0 and drift.drifted_paths(Repository(copied)) == ()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("update-index --assume-unchanged report.md", "report.md changed outside the run"),
        ("config core.worktree ../../clean", "report.md changed outside the run"),
        ("replace HEAD HEAD~1", ".git/refs/replace/"),
    ],
    ids=["flag", "worktree", "replacement"],
)
def test_what_git_hides_is_named(copied: Path, command: str, said: str, capsys: Capsys) -> None:
    shutil.copytree(copied, copied.parent / "clean")
    subprocess.run(["git", *command.split()], cwd=copied, check=True)
    if "report" in said:
        (copied / "report.md").write_text("999×\n")
    assert main(["audit", str(copied)]) == 1 and said in "".join(capsys.readouterr())
    found = unexpected_changes(Repository(copied), replay(Repository(copied)))
    assert [one.outcome for one in found] == ["disagree"] and said in found[0].reason


def test_a_pointer_that_a_commit_moved_is_found_though_the_commit_has_a_trailer_of_ours(
    copied: Path, capsys: Capsys
) -> None:
    assert main(["audit", str(copied)]) == 0 and main(["resume", str(copied), "--quiet"]) == 0
    (copied / POINTER_FILE).write_text("9\n")
    trailer = ["-m", "report", "-m", "Report: 0123456789abcdef"]
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, "commit", "-qa", *trailer], cwd=copied, check=True)
    made = str(Repository(copied).head())
    capsys.readouterr()
    for verb, code in (("audit", 1), ("resume", 2)):
        assert main([verb, str(copied)]) == code
        said = "".join(capsys.readouterr())
        assert f"commit {made[:12]} was not made by this run" in said and "undo it with `git reset`" in said
    subprocess.run(["git", "reset", "-q", "--hard", "HEAD~1"], cwd=copied, check=True)
    assert main(["audit", str(copied)]) == 0 and main(["resume", str(copied), "--quiet"]) == 0


def test_what_a_killed_gate_left_is_the_runs_own_and_nothing_else_goes_with_its_commit(copied: Path) -> None:
    workspace = workspaces.reopen(copied)
    repository, head = workspace.repository, workspace.repository.head()
    written = {POINTER_FILE: "4\n", "versions/v4/analysis.md": "x\n"}
    workspace.write(written)
    assert repository.drift() == tuple(written) and drift.drifted_paths(repository) == ()
    stray = copied / "versions" / "v4" / "fake.md"
    stray.write_text("x\n")
    with pytest.raises(WorkspaceError, match=r"versions/v4/fake\.md changed outside"):
        workspace.commit(tuple(written), "close v4", {"Version": "v4"}, head)
    with pytest.raises(WorkspaceError, match=r"versions/v4/fake\.md changed outside"):
        workspace.commit(["versions/v4", POINTER_FILE], "close v4", {"Version": "v4"}, head)
    stray.unlink()
    made = workspace.commit(["versions/v4", POINTER_FILE], "close v4", {"Version": "v4"}, head)
    assert repository.changed_paths(str(head), made) == tuple(written)
    (copied / POINTER_FILE).write_text("3\n")
    assert drift.drifted_paths(repository) == (POINTER_FILE,), "what the run wrote before its last commit is no excuse"
    workspace.close()
