"""What a user can get wrong: one clear sentence that names the key or file, what is allowed and what to do; exit 2;
nothing lost."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graph.__main__ import _run_settings, build_parser, main
from graph.lifecycle import run as runs
from graph.settings import load
from graph.workspace import folder as workspaces
from graph.workspace.events import Event
from tests.graph import conftest
from tests.graph.conftest import ROOT, TASK, printed_json, refused
from tests.support import Capsys, run_captured
from tools.errors import SettingsError

KERNEL = (TASK / "kernel.cpp").read_text()
REFERENCE = (TASK / "reference.py").read_text()


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A copy of the small task that a test may spoil."""
    return Path(shutil.copytree(TASK, tmp_path / "task"))


def configured(folder: Path, **changes: object) -> Path:
    return conftest.configured(folder, **{"name": "bad", "task": str(folder / "task"), **changes})


def spoiled(task: Path, name: str, old: str, new: str) -> None:
    path = task / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def nothing_is_left(folder: Path) -> bool:
    return not (folder / "workspaces").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "name", "old", "new", "says"),
    [
        ("check", "kernel.cpp", 'extern "C" void solve', 'extern "C" void slove', ["solve", "kernel.cpp"]),
        ("check", "kernel.cpp", 'extern "C" void solve', "void solve", ['extern "C"', "kernel.cpp"]),
        ("run", "kernel.cpp", "const float* values, ", "", ["values", "kernel.cpp"]),
        ("run", "kernel.cpp", "const float* values", "const double* values", ["values", "kernel.cpp"]),
        ("check", "kernel.cpp", "float total = 0;", "float total = 0 +;", ["kernel.cpp", "float total = 0 +;"]),
        # Every candidate would take the line over and be refused for it: the user is told before anything is measured.
        (
            "run",
            "kernel.cpp",
            "#include <cmath>",
            "#include <cmath>\nstatic float buf[9];",
            ["kernel.cpp: line 3: `static float buf[9];`"],
        ),
        (
            "run",
            "reference.py",
            "exponentials = torch.exp(values)",
            "raise ValueError('out of ideas')",
            ["reference", "out of ideas"],
        ),
        (
            "run",
            "reference.py",
            '"rows": 256, "columns": 512}}',
            '"rows": 2000000, "columns": 2000000}}',
            ["memory", "small"],
        ),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong_in_json_too(
    tmp_path: Path,
    task: Path,
    verb: str,
    name: str,
    old: str,
    new: str,
    says: list[str],
    capsys: Capsys,
) -> None:
    spoiled(task, name, old, new)
    assert main([verb, str(configured(tmp_path)), "--json"]) == 2
    printed = capsys.readouterr()
    found = json.loads(printed.out.splitlines()[-1])
    assert all(word in found["reason"] for word in says), found
    # On a slow machine a line of progress comes first.
    assert (found["status"], found["workspace"]) == ("refused", None)
    assert printed.err.strip().endswith(f"error: {found['reason']}") and "Traceback" not in printed.err
    assert nothing_is_left(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "argv", "says"),
    [
        ({"task": "nowhere"}, "", "nowhere"),
        ({"budgte": {"wall_s": 3}}, "", "budget"),
        ({"dims": "rows=3"}, "", "dims: belongs to `kernel`"),
        ({"pointer_elements": 64}, "", "pointer_elements: belongs to `kernel`"),
        ({"reference": "other.py"}, "", "reference: belongs to `kernel`"),
        ({"models": {"coder": {"provider": "oracle-of-delphi"}}}, "", "models.coder.provider"),
        ({"executor": "cloud"}, "", "executor.kind: 'cloud' is unknown"),
        (
            {"executor": {"kind": "local", "lock_wait": 3}},
            "",
            "executor.lock_wait: unknown key; did you mean 'lock_wait_s'?",
        ),
        ({"executor": {"lock_wait_s": 0}}, "", "executor.lock_wait_s: must be greater than 0"),
        ({"executor": 3}, "", "executor: must "),
        ({"gpu_wiki_path": "no-wiki"}, "", "gpu_wiki_path"),
        ({"profilers": ["crystal-ball"]}, "", "profilers"),
        ({"handlers": ["tools.store.records:Records"]}, "", "handlers: "),
        ({"embedder": "crystal-ball"}, "", "embedder"),
        ({"hardware": "RTX 9999", "on_unknown": "stop"}, "", "on_unknown: stop, and the gpu-wiki has no "),
        ({"linked_to": "nonsense v99"}, "", "linked_to: 'nonsense v99' is no version in "),
        ({"name": "../up"}, "", "name: '../up' cannot name a folder"),
        ({}, "--ptr-size 64", "--ptr-size goes with --kernel"),
        (None, "", "configs/quickstart.yaml"),
        (None, "{files} --dims M", "dims"),
        (None, "{ranged} --dims rows=0 columns=16", "rows=0 sizes an argument; give 1 or more"),
        (None, "{files} --dims rows=8 columns=16 colums=4000", "did you mean 'columns'?"),
    ],
)
def test_a_key_or_option_that_cannot_be_is_named(
    tmp_path: Path,
    task: Path,
    changes: dict[str, object] | None,
    argv: str,
    says: str,
    capsys: Capsys,
) -> None:
    (task / "seed.py").write_text(REFERENCE.partition("def make_inputs")[0])
    (task / "ranged.py").write_text(re.sub(r"^(workloads|dims_range) = .*\n", "", REFERENCE, flags=re.MULTILINE))
    files, ranged = (f"--kernel {task / 'kernel.cpp'} --ref {task / name}" for name in ("seed.py", "ranged.py"))
    config = [] if changes is None else [str(configured(tmp_path, **changes))]
    for verb in ("check", "run") if config else ("run",):
        assert says in refused(capsys, verb, *config, *argv.format(files=files, ranged=ranged).split())
    assert nothing_is_left(tmp_path)


def test_a_missing_file_a_full_disk_and_a_home_that_cannot_be_written_are_named(
    tmp_path: Path, task: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run learns at its end would be lost without a home, and the run with it."""
    config = str(configured(tmp_path))
    (tmp_path / "taken").write_text("")
    with monkeypatch.context() as home:
        home.setenv("KERNELWRIGHT_HOME", str(tmp_path / "taken"))
        said = refused(capsys, "run", config)
    assert f"{tmp_path / 'taken'} is not a folder" in said and "set KERNELWRIGHT_HOME" in said and "\n" not in said
    (task / "reference.py").unlink()
    assert "reference" in refused(capsys, "run", config)
    assert nothing_is_left(tmp_path)
    shutil.copy(TASK / "reference.py", task)
    monkeypatch.setattr(workspaces, "MIN_FREE_BYTES", 1 << 62)
    assert f"{tmp_path / 'workspaces'}" in refused(capsys, "run", config)


def test_name_counts_more_than_the_config(tmp_path: Path, task: Path) -> None:
    path = str(configured(tmp_path))
    assert _run_settings(build_parser().parse_args(["run", path, "--name", "mine"])).name == "mine"
    assert _run_settings(build_parser().parse_args(["run", path])).name == "bad"


def test_a_task_folder_can_be_checked_as_it_is(task: Path, capsys: Capsys) -> None:
    assert main(["check", str(task)]) == 0
    said = capsys.readouterr().out
    assert (
        said.startswith("task        task (cpp)")
        and said.split("compiler")[1].split("contract")[0].split().count("g++") <= 1
    )
    assert re.search(r"^hidden      drawn from \w+ \d+\.\.\d+", said, re.MULTILINE), said
    assert main(["check", str(task), "--json"]) == 0
    found = printed_json(capsys)
    assert found["status"] == "checked" and found["task"] == "task" and [w["name"] for w in found["workloads"]]
    assert "not both" in refused(capsys, "check", str(task), "--dims", "rows=3")


def test_a_check_without_a_key_tells_the_cost_and_is_refused_as_a_run_is(
    tmp_path: Path, task: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    server = {
        "provider": "openai_compatible",
        "base_url": "http://localhost:9",
        "model": "m",
        "api_key_env": "NO_SUCH_KEY",
    }
    config = configured(tmp_path, models={"coder": server}, prices={"m": {"input": 1, "output": 10}})
    said = [(main([verb, str(config)]), *capsys.readouterr()) for verb in ("check", "run")]
    said = [(code, out, re.sub(r".* so far\n", "", err)) for code, out, err in said]
    assert [code for code, *_ in said] == [2, 2] and said[0][2] == said[1][2]
    assert said[0][2].startswith("error: models.coder.api_key_env: the environment variable NO_SUCH_KEY is not set")
    assert re.match(
        r"task        bad \(cpp\).*^estimate .* in \d+ iterations: \$", said[0][1], re.DOTALL | re.MULTILINE
    ), said[0][1]
    assert nothing_is_left(tmp_path)


def own_names(folder: Path, task: Path) -> Path:
    """A config of the same kernel and reference under names of the user's own."""
    kernel, reference = task / "mine.cpp", task / "good.py"
    (task / "kernel.cpp").rename(kernel)
    (task / "reference.py").rename(reference)
    return configured(folder, task=None, kernel=str(kernel), reference=str(reference))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("float total = 0;", "float total = nowhere;", ["mine.cpp does not compile", "mine.cpp:", "nowhere"]),
        ("/ total;", "/ total + 1e-3f;", ["mine.cpp and good.py disagree", "; correct the one that is wrong"]),
        ("float total = 0;", "float total = *(volatile int*)0;", ["mine.cpp and good.py disagree", "crashed"]),
        (
            "/ total;",
            "/ total; result[(long)rows * columns] = 1;",
            ["mine.cpp and good.py disagree", "past the end of output"],
        ),
    ],
)
def test_a_refused_kernel_is_named_before_any_roof_and_leaves_nothing(
    tmp_path: Path, task: Path, old: str, new: str, words: list[str]
) -> None:
    spoiled(task, "kernel.cpp", old, new)
    config = own_names(tmp_path, task)
    told: list[Event] = []
    with pytest.raises(SettingsError) as caught:
        runs.start(load(config), (told.append,))
    said = str(caught.value)
    assert all(word in said for word in words), said
    assert "kernel.cpp" not in said and "reference.py" not in said and ".;" not in said
    kept = [event.details["kind"] for event in told if event.kind == "record"]
    assert "build" in kept and "roof" not in kept
    assert nothing_is_left(tmp_path)


def test_a_failed_machine_is_said_in_json_and_leaves_no_unusable_workspace(
    tmp_path: Path, task: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    """A compiler that answers and builds nothing: found before the task's record exists."""
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\ncase $* in *--version*) echo 1.0;; *) exit 1;; esac\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert main(["run", str(configured(tmp_path)), "--json"]) == 4
    found = printed_json(capsys)
    assert found["status"] == "machine" and str(compiler.name) in found["reason"]
    assert found["workspace"] is None or (Path(found["workspace"]) / "task" / "task.json").exists()
    assert nothing_is_left(tmp_path) == (found["workspace"] is None)


def test_what_stands_for_a_workspace_leads_to_the_newest(
    tmp_path: Path, task: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config, its name, the folder of workspaces: one sentence names what to give instead."""
    for verb in ("resume", "show", "report", "verify"):
        assert "not a Kernelwright workspace" in refused(capsys, verb, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    config = configured(tmp_path, name="mine", workspaces="workspaces")
    for given in ("run.yaml", "mine"):
        assert "workspaces holds no run of mine" in refused(capsys, "resume", given)
    for name, stamp in (
        ("mine", "20300101T000000Z"),
        ("mine", "20300101T000000Z-10"),
        ("mine", "20300101T000000Z-9"),
        ("other", "2031"),
    ):
        workspace = workspaces.create(load(config).model_copy(update={"name": name}))
        workspace.close()
        workspace.root.rename(tmp_path / "workspaces" / f"{name}-{stamp}")
    newest = "workspaces/mine-20300101T000000Z-10"
    for verb, given in (("resume", "run.yaml"), ("resume", "mine"), ("show", "mine")):
        assert f"{given}: not a Kernelwright workspace; give {newest}, the newest of mine" in refused(
            capsys, verb, given
        )
    assert f"give {newest}, the newest there" in refused(capsys, "resume", "workspaces")
    assert "give a folder that" in refused(capsys, "resume", "task/kernel.cpp")


def test_foreign_packages_are_named(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("")
    done = conftest.graph("run", "x.yaml", cwd=tmp_path)
    assert done.returncode == 2 and "'tools'" in done.stderr and "Traceback" not in done.stderr


FILLED = """
mount -t tmpfs -o size=80m none {small} || exit 99
{python} -m graph run {config} --json > {out}/run.json 2> {out}/run.err &
run=$!
until grep -q '"write"' {small}/*/.kernelwright/events.jsonl 2> /dev/null; do kill -0 $run || break; sleep 0.05; done
dd if=/dev/zero of={small}/filler bs=64k 2> /dev/null
wait $run; echo $? > {out}/run.code
rm {small}/filler
{python} -m graph resume {small}/bad-* --json > {out}/resume.json 2> {out}/resume.err
echo $? > {out}/resume.code
"""


@pytest.mark.slow
def test_a_disk_that_fills_up_during_a_run(tmp_path: Path, task: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    config = configured(tmp_path, workspaces=str(small))
    script = FILLED.format(small=small, out=tmp_path, python=sys.executable, config=config)
    done = run_captured(["unshare", "--mount", "--map-root-user", "sh", "-c", script], cwd=ROOT)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this host does not let a test mount a file system")

    def text(name: str) -> str:
        return (tmp_path / name).read_text().strip()

    assert text("run.code") == "2", text("run.err")
    said = text("run.err")
    assert "no space left on the disk" in said and "python -m graph resume" in said and "\n" not in said
    found = json.loads(text("run.json").splitlines()[-1])
    assert found["status"] == "disk_full" and found["workspace"].startswith(str(small))
    assert text("resume.code") == "0", text("resume.err")
    assert json.loads(text("resume.json").splitlines()[-1])["status"] == "finished"


@pytest.mark.slow
def test_a_run_whose_reader_is_gone_goes_on(tmp_path: Path, task: Path) -> None:
    command = f"{sys.executable} -m graph run {configured(tmp_path)} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = run_captured(["bash", "-c", command], cwd=ROOT)
    assert done.returncode == 0 and not done.stderr, done.stderr
    (root,) = (tmp_path / "workspaces").iterdir()
    assert (root / "report.md").exists()


@pytest.mark.slow
def test_a_stdout_that_cannot_be_written_is_said(tmp_path: Path, task: Path) -> None:
    spoiled(task, "kernel.cpp", "/ total;", "/ total + 1e-3f;")
    config = str(configured(tmp_path))
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "graph", "run", config, "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "stdout: cannot be written" in done.stderr and "disagree" in done.stderr
