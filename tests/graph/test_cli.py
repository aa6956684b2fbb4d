"""The commands as a user meets them: one quick run, and everything that can be asked of its workspace afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from graph.__main__ import main
from graph.artifacts import FinalBenchmark, JudgedTrial
from graph.lifecycle import run as runs
from graph.lifecycle.recovery import state_after_mask
from graph.lifecycle.rendering import replay
from graph.lifecycle.verify import _chosen_commits
from graph.nodes.evaluate import judge
from graph.nodes.propose import tried_versions
from graph.report.content.view import gather_report, report_basis
from graph.state import Branch, State
from graph.workspace import completeness
from graph.workspace import folder as workspaces
from graph.workspace.versions import read_state, read_versions
from knowledge_base.__main__ import main as ask
from knowledge_base.experience.log import Experience
from tests.graph.conftest import ROOT, TASK, FinishedRun, git, refused
from tests.support import Capsys, run_captured
from tools.artifacts import Record, Unmeasured
from tools.store.records import Records, record_key
from tools.store.repository import Repository

KEYS = {
    *[
        "status",
        "stop_reason",
        "workspace",
        "baseline_s",
        "best_s",
        "speedup",
        "over_function",
        "doubts",
        "ci",
        "verdicts",
        "commits",
        "awaited",
        "objective",
        "disturbed",
    ],
    *["disturbed_verdicts", "against", "budget_reached", "usd", "cost_unknown", "tokens", "device_s", "wall_s"],
}


def succeeded(capsys: Capsys, *argv: str) -> str:
    """The stdout of a command that must end with 0 and say nothing on stderr."""
    code = main(argv)
    said = capsys.readouterr()
    assert code == 0 and not said.err, said.err
    return said.out


def shown_json(capsys: Capsys, root: Path) -> dict[str, Any]:
    """What `show --json` prints of a workspace."""
    return cast(dict[str, Any], json.loads(succeeded(capsys, "show", str(root), "--json")))


def accepted(root: Path) -> int:
    """The iteration accepted last."""
    return max(memory.iteration for memory in read_versions(root) if memory.verdict == "accept")


# ---------------------------------------------------------------- what is said


def test_json_is_one_object_at_the_end(finished: FinishedRun, capsys: Capsys) -> None:
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
    assert shown_json(capsys, finished.root) == found


def test_torch_is_timed_once_beside_v0_and_shown_wherever_it_matters(finished: FinishedRun) -> None:
    root = finished.root
    held = [record for record in Records(root) if record.kind == "benchmark"]
    (bar,) = (record for record in held if set(record.payload["candidates"]) == {"baseline"})
    assert len(held) == 2 and read_state(workspaces.open_read_only(root))["frameworks"] == bar.id
    for page in ("report.md", "versions/v0/analysis.md", "versions/v1/analysis.md"):
        assert f" Record `{bar.id}`." in (root / page).read_text() and "Beside torch (wall" in (root / page).read_text()


def test_a_pipe_gets_plain_lines(finished: FinishedRun) -> None:
    *lines, page, workspace, why = finished.stdout.splitlines()[:-1]
    assert why.startswith("  it stopped because ")
    assert page.split() == ["report", str(finished.root / "report.html")] and workspace.split() == [
        "workspace",
        str(finished.root),
    ]
    while lines[-1].startswith("  over "):
        lines.pop()
    assert "\x1b" not in finished.stdout and "\r" not in finished.stdout
    for node in (
        "preflight",
        "retrieve_specs",
        "establish_baseline",
        "profile",
        "plan",
        "write",
        "judge",
        "gate",
        "learn",
        "finalise",
    ):
        assert any(re.match(rf" *\d* {node} +\d+\.\d\d s", line) for line in lines), node
    assert any(re.match(r" +[0-9a-f]{12} +passed", line) for line in lines)
    assert lines[-1].startswith("finished: ") and "(baseline / speed-up), " in lines[-1]
    assert lines[-1].split(";")[0].removeprefix("finished: ") in lines[-2], (
        "the last node and the summary tell different figures"
    )


@pytest.mark.parametrize(
    ("pattern", "change", "said"),
    [
        ("memory/v1.json", lambda text: text.replace('"verdict"', '"verdikt"', 1), " of a VersionMemory "),
        ("records/*.json", lambda text: json.dumps({**json.loads(text), "later": 1}), "later of a Record "),
        ("memory/v0.json", lambda text: text[:40], "memory/v0.json cannot be read"),
    ],
    ids=["a memory of another version", "a record of another version", "cut short"],
)
def test_a_file_that_this_version_cannot_read_is_named(
    copied: Path, pattern: str, change: Callable[[str], str], said: str, capsys: Capsys
) -> None:
    path = sorted(copied.glob(pattern))[0]
    path.write_text(change(path.read_text()))
    told = refused(capsys, "show", str(copied))
    assert said in told and path.stem in told


# ---------------------------------------------------------------- what lies in the workspace


def test_the_workspace_is_whole_and_what_is_hidden_is_nobody_elses(finished: FinishedRun, tmp_path: Path) -> None:
    root = finished.root
    readme = (root / "README.md").read_text()
    assert all(f"## {title}" in readme for title in ("Hardware Spec", "Roofline", "Stop Conditions"))
    written = (
        "env_check.md",
        "baseline_report.md",
        "report.md",
        "report.html",
        "benchmark.md",
        "task/reference.py",
        "task/task.json",
    )
    assert all((root / name).read_text().strip() for name in written)
    assert (root / "task" / "kernel.cpp").read_text() == (TASK / "kernel.cpp").read_text()
    assert Repository(root).drift() == ()
    (tmp_path / "usual").touch()
    usual = (tmp_path / "usual").stat().st_mode & 0o777
    assert {
        (root / name).stat().st_mode & 0o777 for name in ("report.md", "report.html", "README.md", "settings.yaml")
    } == {usual}
    assert (root / ".kernelwright").stat().st_mode & 0o077 == 0, "what is hidden is nobody else's"
    assert not [name for name in git(root, "ls-files").split() if name.startswith(".kernelwright/")]
    assert {"checkpoint.sqlite", "events.jsonl", "lock", "secret"} <= {
        path.name for path in (root / ".kernelwright").iterdir()
    }
    assert (root / ".kernelwright" / "secret").stat().st_mode & 0o077 == 0
    asked = [path.name for path in sorted((root / "prompts").iterdir())]
    assert asked[0] == "01-profiler_analyst.md" and len(asked) == sum(
        record.kind == "exchange" for record in Records(root)
    )
    assert all(f"prompts/{name}" in (root / "report.md").read_text() for name in asked)
    memories = read_versions(root)
    assert [memory.iteration for memory in memories] == list(range(len(memories))) and len(memories) >= 2
    for memory in memories:
        assert completeness.audit_version(root, memory.iteration, closed=True) == () and not memory.masked
    assert (root / "current_iteration.txt").read_text() == f"{memories[-1].iteration}\n"
    best = next(r for r in Records(root) if r.kind == "candidate" and r.payload["files"]["kernel.cpp"] == kernel(root))
    assert best.payload["methods"] == list(memories[accepted(root)].methods)


def kernel(root: Path) -> str:
    return (root / "kernel.cpp").read_text()


def test_the_kernel_can_be_tried_by_hand_and_a_wrong_one_is_found(finished: FinishedRun, tmp_path: Path) -> None:
    root = Path(shutil.copytree(finished.root, tmp_path / "copy", symlinks=True))
    done = run_captured([sys.executable, "test_kernel.py"], cwd=root)
    assert done.returncode == 0 and float(done.stdout.split()[4].rstrip(",")) < 1e-4, done.stderr
    tested = run_captured([sys.executable, "-m", "pytest", "-q", "test_kernel.py"], cwd=root)
    assert tested.returncode == 0, tested.stdout
    (root / "kernel.cpp").write_text((TASK / "kernel.cpp").read_text().replace("/ total;", "/ total + 0.1f;"))
    done = run_captured([sys.executable, "test_kernel.py"], cwd=root)
    assert done.returncode == 1 and done.stderr.strip().endswith("is wrong")


def test_a_workspace_is_found_by_its_name(recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    monkeypatch.chdir(recorded.parents[1])
    assert main(["show", recorded.name]) == 0 and capsys.readouterr().out.startswith("finished")


def test_every_record_and_citation_that_is_named_exists(finished: FinishedRun, capsys: Capsys) -> None:
    known = {record.id for record in Records(finished.root)}
    pages = [finished.root / "report.md", finished.root / "benchmark.md", *finished.root.glob("versions/*/*.md")]
    for page in pages:
        named = set(re.findall(r"(?<![0-9a-z.])(?:records? |`)((?:[0-9a-f]{16}(?:`?, `?)?)+)", page.read_text()))
        identities = {identity for found in named for identity in re.findall(r"[0-9a-f]{16}", found)}
        assert identities <= known, page
        assert identities, f"{page} names no evidence"
    assert ask(["lint", "--workspace", str(finished.root)]) == 0
    assert int(capsys.readouterr().out.split()[-6]) > 10


# ---------------------------------------------------------------- afterwards


def test_resuming_a_finished_run_does_nothing(copied: Path, capsys: Capsys) -> None:
    before = git(copied, "rev-parse", "HEAD")
    records = sorted(path.name for path in (copied / "records").iterdir())
    shown = shown_json(capsys, copied)
    assert json.loads(succeeded(capsys, "resume", str(copied), "--quiet", "--json")) == shown and set(shown) == KEYS
    assert succeeded(capsys, "resume", str(copied), "--quiet") == ""
    assert sorted(path.name for path in (copied / "records").iterdir()) == records
    assert git(copied, "rev-parse", "HEAD") == before and not Repository(copied).drift()


def test_a_workspace_in_use_names_its_holder(copied: Path, capsys: Capsys) -> None:
    held = workspaces.reopen(copied)
    try:
        command = [sys.executable, "-m", "graph", "resume", str(copied)]
        done = run_captured(command, cwd=ROOT)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert f"in use by process {os.getpid()};" in done.stderr
        assert succeeded(capsys, "show", str(copied)), "looking needs no lock"
    finally:
        held.close()
    succeeded(capsys, "resume", str(copied), "--quiet")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("kernel.cpp", "\n", "\n// mine\n"), ("task/reference.py", "\n", "\n\n"), ("task/task.json", '"ieee"', '"tf32"')],
)
def test_what_was_changed_by_hand_stops_a_resume_and_stays(
    copied: Path, name: str, old: str, new: str, capsys: Capsys
) -> None:
    before, changed = git(copied, "rev-parse", "HEAD"), (copied / name).read_text().replace(old, new, 1)
    (copied / name).write_text(changed)
    assert Path(name).name in refused(capsys, "resume", str(copied))
    assert (copied / name).read_text() == changed and git(copied, "rev-parse", "HEAD") == before


def test_somebody_elses_repository_is_left_alone(tmp_path: Path, copied: Path, capsys: Capsys) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    git(foreign, "init", "-q")
    assert "not a Kernelwright workspace" in refused(capsys, "resume", str(foreign))
    (copied / ".gitignore").write_text("*.o\n")
    for verb in ("resume", "verify", "report"):
        assert "another git repository" in refused(capsys, verb, str(copied))
    shutil.rmtree(copied / ".git")
    assert "no .git" in refused(capsys, "resume", str(copied))


# ---------------------------------------------------------------- mask, restart


def test_a_masked_version_takes_what_came_of_it_and_head_has_what_is_left(copied: Path, capsys: Capsys) -> None:
    """The kernel at HEAD was still the masked one, `show` counted it, and `restart` took it."""
    commits = len(git(copied, "rev-list", "HEAD").split())
    kernels = [
        git(copied, "show", f"{Repository(copied).find_commit('Version', f'v{n}')}:kernel.cpp") for n in range(3)
    ]
    assert seen(copied) == [1, 2, 3] and kernel(copied) == kernels[2]
    assert "v2 v3: now invisible to every later decision; HEAD has the kernel of v1 again" in succeeded(
        capsys, "mask", str(copied), "v2"
    )
    assert seen(copied) == [1] and kernel(copied) == kernels[1]
    shown = succeeded(capsys, "show", str(copied))
    assert "unfinished: 1 of 1 iterations accepted so far" in shown and shown.count("(masked)") == 2
    assert shown_json(capsys, copied)["speedup"] is None, "what was benchmarked is masked"
    assert "v2: is masked" in refused(capsys, "restart", str(copied), "v2")
    repository = Repository(copied)
    chosen = _chosen_commits(repository, None, replay(repository), every=True)
    assert [commit.trailers["Version"] for commit in chosen] == ["v1"], "no one verifies it any more"
    assert (
        succeeded(capsys, "mask", str(copied), "v1").startswith("v1 v2 v3: now invisible")
        and kernel(copied) == kernels[0]
    )
    said = [c.trailers for c in Repository(copied).log()[:2]]
    assert [{name: one[name] for name in ("Masked", "Restores")} for one in said] == [
        {"Masked": "v1 v2 v3", "Restores": "v0"},
        {"Masked": "v2 v3", "Restores": "v1"},
    ]
    memories = read_versions(copied)
    assert all(attempt.masked for memory in memories[1:] for attempt in memory.attempts)
    attempt = memories[1].attempts[0]
    assert not Experience(None).attempts_like(
        attempt.operator, attempt.language, attempt.architecture, bottleneck=attempt.bottleneck
    )
    assert main(["mask", str(copied), "v0"]) == 2 and "v0: is the baseline" in capsys.readouterr().err
    assert "v2: came of v1, which is masked" in refused(capsys, "unmask", str(copied), "v2")
    succeeded(capsys, "mask", str(copied), "v1")
    assert len(git(copied, "rev-list", "HEAD").split()) == commits + 2, "done again it changes nothing"
    assert replay(Repository(copied)).strangers == ()

    assert "v1 v2 v3: now visible; HEAD has the kernel of v2 again" in succeeded(capsys, "unmask", str(copied), "v1")
    assert seen(copied) == [1, 2, 3] and kernel(copied) == kernels[2]
    found = Experience(None).attempts_like(
        attempt.operator, attempt.language, attempt.architecture, bottleneck=attempt.bottleneck
    )
    assert {a.evidence for a in found} >= {a.evidence for a in memories[1].attempts}
    assert shown_json(capsys, copied)["status"] == "finished", "its benchmark is of this kernel"
    succeeded(capsys, "resume", str(copied), "--quiet")


@pytest.mark.parametrize("under_way", [False, True])
def test_a_run_goes_on_from_the_kernel_that_was_put_back(copied: Path, under_way: bool, capsys: Capsys) -> None:
    """What was planned for a kernel that is masked was closed as if nobody had proposed anything; what it tried came
    back unmeasured."""
    with runs.open_services(copied) as services:
        before = read_state(services.workspace)
        assert state_after_mask(before, services) is None
    first, second = (memory.candidate or "" for memory in read_versions(copied)[1:3])
    succeeded(capsys, "mask", str(copied), "v2")
    with runs.open_services(copied) as services:
        plan = services.records.find(record_key("plan", iteration=3))
        assert plan and before["incumbent"] == second
        if under_way:
            services.records.add(Record(kind="plan", key=record_key("plan", iteration=4), payload=plan.payload))
        state = state_after_mask(before, services)
        assert state and (state["incumbent"], state["iteration"], state["outcome"]) == (first, 3 + under_way, "accept")
        assert (
            state["stop"] is None
            and not state["report"]
            and state_after_mask(State(**{**before, **state}), services) is None
        )  # type: ignore[typeddict-item]
        assert state_after_mask(before, services) == state, "after a kill it is the same"
        assert completeness.audit_closed_versions(copied) == () and Repository(copied).drift() == ()
        parents = {"baseline": before["baseline"], "incumbent": first, "siblings": 1, "noise_floor": 0.0}
        branch = cast(Branch, {"iteration": 3 + under_way + 1, "candidate": second, **parents})
        trial = JudgedTrial.model_validate(
            services.records.get(judge(branch, services)["trials"][f"{branch['iteration']}/{second}"]).payload
        ).trial
        assert isinstance(trial, Unmeasured) and trial.reason == "the masked version v2 tried it"
    closed = read_versions(copied)[4:]
    assert [(m.parent, m.verdict, m.masked) for m in closed] == [(second, "inconclusive", True)] * under_way
    assert all(
        "planned for the kernel of v2" in m.reasons[0] and "replaced by the kernel of v1" in m.reasons[0]
        for m in closed
    )
    assert f"From kernel `{second}`" in (copied / "versions/v4/hypothesis.md").read_text() if under_way else True


def test_another_commit_of_a_version_is_nobodys(copied: Path, capsys: Capsys) -> None:
    """Any change of the kernel passed as v0 by its trailer, and was restored and restarted from as v0."""
    repository, kernels = Repository(copied), (copied / "kernel.cpp").read_text()
    first = repository.find_commit("Version", "v0")
    (copied / "kernel.cpp").write_text(kernels + "// mine\n")
    made = repository.commit(["kernel.cpp"], "baseline v0", {"Version": "v0"}, repository.head())
    assert repository.find_commit("Version", "v0") == first
    assert ["not a commit of the run" in fault.reason for fault in replay(repository).faults] == [True]
    for verb, code in (("show", 0), ("audit", 1)):
        assert (
            main([verb, str(copied)]) == code
            and f"commit {made[:12]} was not made by this run" in capsys.readouterr().out
        )
    assert f"commit {made[:12]} was not made by this run" in refused(capsys, "resume", str(copied))


def test_a_kernel_is_worth_what_led_to_it_and_not_what_was_shown_again_beside_it(copied: Path) -> None:
    """v1 was masked, v2 made from v0 in its place, and v1 unmasked: the gains of both were multiplied."""
    baseline, _, second = read_versions(copied)[:3]
    (copied / "memory/v2.json").write_text(second.model_copy(update={"parent": baseline.candidate}).model_dump_json())
    with runs.open_services(copied, reading=True) as services:
        found = gather_report(report_basis(read_state(services.workspace), services), services)
    assert second.speedup and found.claimed.low == second.speedup.low
    assert [step.so_far for step in found.steps[1:]] == [second.speedup.estimate] * 2


@pytest.mark.slow
def test_a_finished_run_whose_best_version_is_masked_is_benchmarked_anew(copied: Path, capsys: Capsys) -> None:
    succeeded(capsys, "mask", str(copied), "v2")
    assert main(["resume", str(copied), "--quiet"]) == 0
    shown = shown_json(capsys, copied)
    state = read_state(workspaces.open_read_only(copied))
    assert shown["status"] == "finished" and shown["verdicts"]["v1"] == "accept" and "v2" not in shown["verdicts"]
    final = FinalBenchmark.model_validate(Records(copied).get(state["report"]).payload)
    best = [memory.candidate for memory in read_versions(copied) if memory.verdict == "accept" and not memory.masked][
        -1
    ]
    (contest,) = [r for r in Records(copied) if r.kind == "benchmark" and r.payload["candidates"].get("best") == best]
    assert state["incumbent"] == best and shown["speedup"] == final.overall["baseline"].estimate and contest
    assert replay(Repository(copied)).strangers == () and Repository(copied).drift() == ()


def seen(root: Path) -> list[int]:
    """The iterations that a planner would be told of."""
    with runs.open_services(root) as services:
        return sorted({item.iteration for item in tried_versions(services)})


def test_unknown_versions_are_named(copied: Path, capsys: Capsys) -> None:
    for verb, version in (("mask", "v9"), ("unmask", "1"), ("restart", "../v1")):
        said = refused(capsys, verb, str(copied), version)
        assert repr(version) in said and "v0, v1" in said


def test_a_run_without_a_config_takes_its_executor_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    files = ["--kernel", str(TASK / "kernel.cpp"), "--ref", str(TASK / "reference.py")]
    for verb in ("run", "check"):
        assert main([verb, *files, "--executor", "ssh"]) == 2
        assert "executor.host: is missing; add it; the form is" in capsys.readouterr().err
