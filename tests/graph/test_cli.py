"""The commands as a user meets them: one quick run, and everything that can be asked of its workspace afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from graph.__main__ import main
from graph.artifacts import FinalBenchmark, VersionMemory
from graph.lifecycle import run as runs
from graph.nodes.propose import tried
from graph.report import final
from graph.report.content.summary import stored_state, versions
from graph.workspace import completeness
from graph.workspace import folder as workspaces
from graph.workspace.compatibility import told
from knowledge_base.__main__ import main as ask
from knowledge_base.experience.log import Experience
from tests.graph.conftest import ROOT, TASK, FinishedRun
from tools.artifacts import Interval
from tools.executors.base import Device
from tools.executors.local import Local
from tools.store.records import Records, key
from tools.store.repository import Repository

KEYS = {"status", "stop_reason", "workspace", "baseline_s", "best_s", "speedup", "ci", "verdicts", "commits", "awaited"}
KEYS |= {"objective", "disturbed", "disturbed_verdicts", "against", "budget_reached", "usd", "cost_unknown", "tokens", "device_s", "wall_s"}


def succeeded(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The stdout of a command that must end with 0 and say nothing on stderr."""
    code = main(argv)
    said = capsys.readouterr()
    assert code == 0 and not said.err, said.err
    return said.out


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one sentence of a command that must end with 2."""
    code = main(argv)
    said = capsys.readouterr().err.strip()
    assert code == 2, said
    assert said.startswith("error: ") and "\n" not in said
    return said


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout.decode(errors="replace")


def accepted(root: Path) -> int:
    """The iteration accepted last."""
    return max(memory.iteration for memory in versions(root) if memory.verdict == "accept")


# ---------------------------------------------------------------- what is said


def test_json_is_one_object_at_the_end(finished: FinishedRun, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(finished.stdout.splitlines()[-1])
    assert found["status"] == "finished" and found["workspace"] == str(finished.root)
    assert found["stop_reason"] in ("iterations", "patience", "near_peak", "target", "exhausted")
    assert found["speedup"] == pytest.approx(found["baseline_s"] / found["best_s"], rel=1e-9)
    low, high = found["ci"]
    # On a busy machine the final benchmark of an accepted version may well include 1.
    assert 0 < low <= found["speedup"] <= high and high > 1
    assert found["verdicts"]["v1"] == "accept"
    assert found["objective"] == "total_time" and isinstance(found["disturbed"], bool)
    assert set(found["disturbed_verdicts"]) <= set(found["verdicts"])
    assert found["commits"] == git(finished.root, "rev-list", "--reverse", "HEAD").split()
    assert json.loads(succeeded(capsys, "show", str(finished.root), "--json")) == found


def test_a_pipe_gets_plain_lines(finished: FinishedRun) -> None:
    *lines, page, workspace = finished.stdout.splitlines()[:-1]
    assert page.split() == ["report", str(finished.root / "report.html")] and workspace.split() == ["workspace", str(finished.root)]
    while lines[-1].startswith("  over "):
        lines.pop()
    assert "\x1b" not in finished.stdout and "\r" not in finished.stdout
    for node in ("preflight", "retrieve_specs", "establish_baseline", "profile", "plan", "write", "judge", "gate", "learn", "finalise"):
        assert any(re.match(rf" *\d* {node} +\d+\.\d\d s", line) for line in lines), node
    assert any(re.match(r" +[0-9a-f]{12} +passed", line) for line in lines)
    assert lines[-1].startswith("finished: ") and "(baseline / speed-up), " in lines[-1]
    assert lines[-1].split(";")[0].removeprefix("finished: ") in lines[-2], "the last node and the summary tell different figures"


def test_every_verdict_names_the_version_that_it_was_compared_with(finished: FinishedRun) -> None:
    kernels = {memory.candidate: f"v{memory.iteration}" for memory in versions(finished.root) if memory.verdict in ("accept", "baseline")}
    parents = {str(memory.iteration): kernels[memory.parent] for memory in versions(finished.root) if memory.iteration}
    log = [json.loads(line) for line in (finished.root / ".kernelwright" / "events.jsonl").read_text().splitlines()]
    for kind in ("candidate", "verdict"):
        told = [event["details"] for event in log if event["kind"] == kind]
        assert {one["iteration"] for one in told} == set(parents)
        for one in told:
            parent = parents[one["iteration"]]
            assert one["parent"] == parent
            if one["outcome"] in ("accept", "passed"):
                assert f" over {parent}" in one["summary"]
            elif kind == "verdict":
                assert one["summary"].startswith(f"against {parent}: ")


def test_the_oldest_logs_still_make_a_report(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the first versions: jobs had neither a number nor a device."""
    log = copied / ".kernelwright" / "events.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    for event in (one for one in events if one["kind"] == "job"):
        event["details"] = {name: event["details"][name] for name in ("job", "argv", "state", "s") if name in event["details"]}
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    succeeded(capsys, "show", str(copied))
    assert "are written from" in succeeded(capsys, "report", str(copied))


def task(root: Path) -> str:
    """A record as a version without one of its fields would have kept it."""
    record = Records(root).find(key("task"))
    assert record is not None
    (root / "records" / f"{record.id}.json").unlink()
    kept = Records(root).add(record.model_copy(update={"payload": {**record.payload, "task": None}}))
    git(root, "add", "-A", "records")
    git(root, "commit", "-qm", "another version")
    return f"task of a Loaded there (record {kept.id})"


def memory(root: Path) -> str:
    path = root / "memory" / "v1.json"
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "verdict"}))
    git(root, "commit", "-qam", "another version")
    return "verdict of a VersionMemory there (memory/v1.json)"


def envelope(root: Path) -> str:
    path = sorted((root / "records").glob("*.json"))[0]
    path.write_text(json.dumps({**json.loads(path.read_text()), "later": 1}))
    git(root, "commit", "-qam", "another version")
    return f"later of a Record there (record {path.stem})"


@pytest.mark.parametrize(
    ("older", "words"),
    [
        (task, ("report",)),
        (task, ("restart", "v1")),
        (memory, ("mask", "v1")),
        (envelope, ("show",)),
    ],
)
def test_what_another_version_wrote_is_named(
    older: Callable[[Path], str], words: tuple[str, ...], copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = older(copied)
    verb, *rest = words
    assert f"error: {copied}: {named} is not as this version writes it; use" in refused(capsys, verb, str(copied), *rest)


def test_a_memory_that_was_cut_short_is_named(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied / "memory" / "v0.json"
    path.write_bytes(path.read_bytes()[:40])
    assert "memory/v0.json cannot be read" in refused(capsys, "report", str(copied))
    with pytest.raises(ValidationError) as raised:
        FinalBenchmark.model_validate({})
    assert told(raised.value, copied) is None, "another error, which it must not hide"


class Elsewhere(Local):
    """A machine without the run's device."""

    def devices(self) -> tuple[Device, ...]:
        return ()


def test_a_report_needs_no_device(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = copied / "settings.yaml"
    settings.write_text(yaml.safe_dump({**yaml.safe_load(settings.read_text()), "executor": "tests.graph.test_cli:Elsewhere"}))
    before = (copied / "report.md").read_text()
    (copied / "report.md").unlink()
    assert "report.md" in succeeded(capsys, "report", str(copied))
    assert (copied / "report.md").read_text().splitlines()[:5] == before.splitlines()[:5]
    assert "no CPU here" in refused(capsys, "resume", str(copied))


def test_a_benchmark_below_what_the_verdicts_say_is_said_to_be(copied: Path) -> None:
    with runs.opened(copied, reading=True) as services:
        state = stored_state(services.workspace)
        assert "Less than the verdicts say" not in final.reports(state, services)["report.md"]
        kept = services.records.get(state["report"])
        found = FinalBenchmark.model_validate(kept.payload)
        less = found.model_copy(update={"overall": {**found.overall, "baseline": Interval(estimate=1.05, low=1.04, high=1.06)}})
        doctored = services.keep("final", less, parents=kept.parents, best="doctored")
        texts = final.reports({**state, "report": doctored.id}, services)
    assert "**Less than the verdicts say**" in texts["report.md"] and "<strong>Less than the verdicts say</strong>" in texts["report.html"]
    assert all("1.05×" in text for text in texts.values())


# ---------------------------------------------------------------- what lies in the workspace


def test_the_workspace_is_whole_and_what_is_hidden_is_nobody_elses(finished: FinishedRun, tmp_path: Path) -> None:
    root = finished.root
    readme = (root / "README.md").read_text()
    assert all(f"## {title}" in readme for title in ("Hardware Spec", "Roofline", "Stop Conditions"))
    written = ("env_check.md", "baseline_report.md", "report.md", "report.html", "benchmark.md", "task/reference.py", "task/task.json")
    assert all((root / name).read_text().strip() for name in written)
    assert (root / "task" / "kernel.cpp").read_text() == (TASK / "kernel.cpp").read_text()
    assert Repository(root).is_clean()
    (tmp_path / "usual").touch()
    usual = (tmp_path / "usual").stat().st_mode & 0o777
    assert {(root / name).stat().st_mode & 0o777 for name in ("report.md", "report.html", "README.md", "settings.yaml")} == {usual}
    assert (root / ".kernelwright").stat().st_mode & 0o077 == 0, "what is hidden is nobody else's"
    assert not [name for name in git(root, "ls-files").split() if name.startswith(".kernelwright/")]
    assert {"checkpoint.sqlite", "events.jsonl", "lock", "secret"} <= {path.name for path in (root / ".kernelwright").iterdir()}
    assert (root / ".kernelwright" / "secret").stat().st_mode & 0o077 == 0
    memories = versions(root)
    assert [memory.iteration for memory in memories] == list(range(len(memories))) and len(memories) >= 2
    for memory in memories:
        assert completeness.audit(root, memory.iteration, closed=True) == () and not memory.masked
    assert (root / "current_iteration.txt").read_text() == f"{memories[-1].iteration}\n"
    best = next(r for r in Records(root) if r.kind == "candidate" and r.payload["files"]["kernel.cpp"] == kernel(root))
    assert best.payload["methods"] == list(memories[accepted(root)].methods)


def kernel(root: Path) -> str:
    return (root / "kernel.cpp").read_text()


def test_the_kernel_can_be_tried_by_hand_and_a_wrong_one_is_found(finished: FinishedRun, tmp_path: Path) -> None:
    root = Path(shutil.copytree(finished.root, tmp_path / "copy", symlinks=True))
    done = subprocess.run([sys.executable, "test_kernel.py"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and float(done.stdout.split()[4].rstrip(",")) < 1e-4, done.stderr
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "test_kernel.py"], cwd=root, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout
    (root / "kernel.cpp").write_text((TASK / "kernel.cpp").read_text().replace("/ total;", "/ total + 0.1f;"))
    done = subprocess.run([sys.executable, "test_kernel.py"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.strip().endswith("is wrong")


def test_a_workspace_is_found_by_its_name(recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(recorded.parents[1])
    assert main(["show", recorded.name]) == 0 and capsys.readouterr().out.startswith("finished")


def test_every_record_and_citation_that_is_named_exists(finished: FinishedRun, capsys: pytest.CaptureFixture[str]) -> None:
    known = {record.id for record in Records(finished.root)}
    pages = [finished.root / "report.md", finished.root / "benchmark.md", *finished.root.glob("versions/*/*.md")]
    for page in pages:
        named = set(re.findall(r"(?<![0-9a-z.])(?:records? |`)((?:[0-9a-f]{16}(?:`?, `?)?)+)", page.read_text()))
        identities = {identity for found in named for identity in re.findall(r"[0-9a-f]{16}", found)}
        assert identities <= known, page
        assert identities, f"{page} names no evidence"
    assert ask(["lint", "--workspace", str(finished.root)]) == 0
    assert int(capsys.readouterr().out.split()[-4]) > 10


def test_every_commit_has_its_trailers(finished: FinishedRun) -> None:
    commits = Repository(finished.root).log()
    assert commits[-1].subject == "baseline v0"
    assert set(commits[0].trailers) == {"Report"}
    known = {record.id for record in Records(finished.root)}
    assert commits[0].trailers["Report"] in known
    for commit in commits[1:]:
        assert {"Version", "Task", "Candidate", "Verdict", "Evidence", "Protocol"} <= set(commit.trailers)
        assert commit.trailers["Evidence"] in known
        changed = git(finished.root, "show", "--name-only", "--format=", commit.id).split()
        word = commit.subject.split(" ")[0]
        assert ("kernel.cpp" in changed) == (word in ("accept", "baseline"))
        if word == "accept":
            assert {"Speedup", "Confidence"} <= set(commit.trailers)


# ---------------------------------------------------------------- afterwards


def test_resuming_a_finished_run_does_nothing(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = git(copied, "rev-parse", "HEAD")
    records = sorted(path.name for path in (copied / "records").iterdir())
    shown = json.loads(succeeded(capsys, "show", str(copied), "--json"))
    assert json.loads(succeeded(capsys, "resume", str(copied), "--quiet", "--json")) == shown and set(shown) == KEYS
    assert succeeded(capsys, "resume", str(copied), "--quiet") == ""
    assert sorted(path.name for path in (copied / "records").iterdir()) == records
    assert git(copied, "rev-parse", "HEAD") == before and Repository(copied).is_clean()


def test_a_workspace_in_use_names_its_holder(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = workspaces.reopen(copied)
    try:
        command = [sys.executable, "-m", "graph", "resume", str(copied)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert f"in use by process {os.getpid()};" in done.stderr
        assert succeeded(capsys, "show", str(copied)), "looking needs no lock"
    finally:
        held.close()
    succeeded(capsys, "resume", str(copied), "--quiet")


def test_a_kernel_changed_by_hand_stops_a_resume(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = kernel(copied) + "// mine\n"
    (copied / "kernel.cpp").write_text(changed)
    before = git(copied, "rev-parse", "HEAD")
    said = refused(capsys, "resume", str(copied))
    assert "kernel.cpp" in said and "git checkout" in said
    assert kernel(copied) == changed and git(copied, "rev-parse", "HEAD") == before


@pytest.mark.parametrize(("name", "old", "new"), [("reference.py", "\n", "\n\n"), ("task.json", '"ieee"', '"tf32"')])
def test_a_task_changed_by_hand_stops_a_resume(copied: Path, name: str, old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied / "task" / name
    path.write_text(path.read_text().replace(old, new, 1))
    assert name in refused(capsys, "resume", str(copied))


def test_somebody_elses_repository_is_left_alone(tmp_path: Path, copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    git(foreign, "init", "-q")
    assert "not a Kernelwright workspace" in refused(capsys, "resume", str(foreign))
    (copied / ".gitignore").write_text("*.o\n")
    for verb in ("resume", "verify", "report"):
        assert "somebody else's git repository" in refused(capsys, verb, str(copied))
    shutil.rmtree(copied / ".git")
    assert "no .git" in refused(capsys, "resume", str(copied))


# ---------------------------------------------------------------- mask, restart


def test_a_masked_version_is_invisible(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied / "memory" / "v1.json"
    commits = len(git(copied, "rev-list", "HEAD").split())
    assert seen(copied) == [memory.iteration for memory in versions(copied)[1:]]
    assert "invisible" in succeeded(capsys, "mask", str(copied), "v1")
    memory = VersionMemory.model_validate_json(path.read_bytes())
    assert memory.masked and memory.attempts and all(attempt.masked for attempt in memory.attempts)
    assert 1 not in seen(copied)
    assert "(masked)" in succeeded(capsys, "show", str(copied))
    attempt = memory.attempts[0]
    assert not Experience(None).like(attempt.operator, attempt.language, attempt.architecture, bottleneck=attempt.bottleneck)
    assert len(git(copied, "rev-list", "HEAD").split()) == commits + 1
    assert git(copied, "show", "--name-only", "--format=%s", "HEAD").split("\n\n") == ["mask v1", "memory/v1.json\n"]
    assert main(["mask", str(copied), "v0"]) == 2 and "v0: is the baseline" in capsys.readouterr().err
    succeeded(capsys, "unmask", str(copied), "v0")  # Which an earlier version let be masked.
    succeeded(capsys, "mask", str(copied), "v1")
    assert len(git(copied, "rev-list", "HEAD").split()) == commits + 1

    assert "now visible" in succeeded(capsys, "unmask", str(copied), "v1")
    assert 1 in seen(copied)
    found = Experience(None).like(attempt.operator, attempt.language, attempt.architecture, bottleneck=attempt.bottleneck)
    assert {a.evidence for a in found} == {a.evidence for a in memory.attempts}
    succeeded(capsys, "resume", str(copied), "--quiet")


def seen(root: Path) -> list[int]:
    """The iterations that a planner would be told of."""
    with runs.opened(root) as services:
        return sorted({item.iteration for item in tried(services)})


def test_unknown_versions_are_named(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb, version in (("mask", "v9"), ("unmask", "1"), ("restart", "../v1")):
        said = refused(capsys, verb, str(copied), version)
        assert repr(version) in said and "v0, v1" in said
