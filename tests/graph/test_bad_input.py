"""What a user can get wrong: one clear sentence that names the key or file, what is allowed and what to do; exit 2; nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from graph.__main__ import main
from tests.graph.conftest import QUICK, TASK

KERNEL = (TASK / "kernel.cpp").read_text()
REFERENCE = (TASK / "reference.py").read_text()


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A copy of the small task that a test may spoil."""
    return Path(shutil.copytree(TASK, tmp_path / "task"))


def configured(folder: Path, **changes: object) -> Path:
    path = folder / "run.yaml"
    settings = {"name": "bad", "task": str(folder / "task"), "workspaces": str(folder / "workspaces"), **QUICK, **changes}
    path.write_text(yaml.safe_dump(settings))
    return path


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The sentence on stderr of a command that must end with 2."""
    code = main(argv)
    said = capsys.readouterr().err.strip()
    assert code == 2, said
    assert said.startswith("error: ")
    assert "Traceback" not in said
    return said


def spoiled(task: Path, name: str, old: str, new: str) -> None:
    path = task / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def nothing_is_left(folder: Path) -> bool:
    return not list((folder / "workspaces").glob("*")) if (folder / "workspaces").exists() else True


def test_nothing_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert "configs/quickstart.yaml" in refused(capsys, "run")


def test_unknown_config_key(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", str(configured(tmp_path, budgte={"wall_s": 3})))
    assert "budgte" in said and "budget" in said


def test_missing_task_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", str(configured(tmp_path)))
    assert str(tmp_path / "task") in said
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("name", ["kernel.cpp", "reference.py"])
def test_missing_file(tmp_path: Path, task: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (task / name).unlink()
    assert name.split(".")[0] in refused(capsys, "run", str(configured(tmp_path)))
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('extern "C" void solve', 'extern "C" void slove', "solve"),
        ('extern "C" void solve', "void solve", 'extern "C"'),
        ("const float* values, ", "", "values"),
        ("const float* values", "const double* values", "values"),
    ],
)
def test_wrong_signature(tmp_path: Path, task: Path, old: str, new: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    spoiled(task, "kernel.cpp", old, new)
    said = refused(capsys, "run", str(configured(tmp_path)))
    assert says in said and "kernel.cpp" in said
    assert nothing_is_left(tmp_path)


def test_kernel_that_does_not_compile(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoiled(task, "kernel.cpp", "float total = 0;", "float total = nowhere;")
    said = refused(capsys, "run", str(configured(tmp_path)))
    assert "does not compile" in said and "nowhere" in said


def test_reference_that_raises(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoiled(task, "reference.py", "exponentials = torch.exp(values)", "raise ValueError('out of ideas')")
    said = refused(capsys, "run", str(configured(tmp_path)))
    assert "reference" in said and "out of ideas" in said
    assert nothing_is_left(tmp_path)


def test_reference_and_kernel_that_disagree(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoiled(task, "kernel.cpp", "/ total;", "/ total + 1e-3f;")
    said = refused(capsys, "run", str(configured(tmp_path)))
    assert "disagree" in said and "small" in said


def test_dims_beyond_memory(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoiled(task, "reference.py", '"rows": 256, "columns": 512}}', '"rows": 2000000, "columns": 2000000}}')
    said = refused(capsys, "run", str(configured(tmp_path)))
    assert "memory" in said and "small" in said
    assert nothing_is_left(tmp_path)


def test_unknown_provider(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", str(configured(tmp_path, models={"coder": {"provider": "oracle-of-delphi"}})))
    assert "models.coder.provider" in said and "playbook" in said
    assert nothing_is_left(tmp_path)


def test_unknown_executor_profiler_and_wiki(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "executor" in refused(capsys, "run", str(configured(tmp_path, executor="cloud")))
    assert "gpu_wiki_path" in refused(capsys, "run", str(configured(tmp_path, gpu_wiki_path=str(tmp_path / "no-wiki"))))
    assert "profilers" in refused(capsys, "run", str(configured(tmp_path, profilers=["crystal-ball"])))
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("dims", ["M", "M=", "M=x", "M=3 M=4", "=3"])
def test_bad_dims(tmp_path: Path, task: Path, dims: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--kernel", str(task / "kernel.cpp"), "--ref", str(task / "reference.py")]
    assert "dims" in refused(capsys, "run", *files, "--dims", *dims.split(), "--quiet")


def test_not_a_workspace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("resume", "show", "report", "verify"):
        assert "not a Kernelwright workspace" in refused(capsys, verb, str(tmp_path))


def test_foreign_packages_are_named(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"}
    done = subprocess.run(
        [sys.executable, "-m", "graph", "run", "x.yaml"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "'tools'" in done.stderr and "Traceback" not in done.stderr


def test_a_full_disk_is_named(tmp_path: Path, task: Path) -> None:
    """A file system of its own, too small for a run; needs the right to mount one."""
    small = tmp_path / "small"
    small.mkdir()
    script = f"mount -t tmpfs -o size=1m none {small} && exec {sys.executable} -m graph run {configured(tmp_path, workspaces=str(small))}"
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this host does not let a test mount a file system")
    assert done.returncode == 2, done.stderr
    assert str(small) in done.stderr and "free some space" in done.stderr and "Traceback" not in done.stderr
