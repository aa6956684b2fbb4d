"""Bundles: where they are written, what runs them, and what a user reads while they wait."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.contracts.test_executors import other_python
from tests.support import Capsys, run_captured
from tools.__main__ import main
from tools.errors import PendingError
from tools.executors.base import Job
from tools.executors.bundle import BundleExecutor
from tools.store.blobs import Blobs


def opened(folder: Path, name: str) -> BundleExecutor:
    return BundleExecutor(Blobs(folder / name), folder / "scratch", folder=str(folder / "bundles"))


def asked(executor: BundleExecutor, script: str) -> str:
    """Run a job that has no answer yet and return the name of the file that is awaited."""
    with pytest.raises(PendingError) as waits:
        executor.run(Job(files={}, argv=("sh", "-c", script)))
    assert waits.value.file is not None
    return waits.value.file.name


def test_runs_in_one_folder_take_files_of_their_own_and_find_them_again(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "001.pyz").touch()  # Another run is about to write it.
    assert asked(opened(tmp_path, "one"), "echo one") == "002.results.zip"
    assert asked(opened(tmp_path, "other"), "echo other") == "003.results.zip"
    assert asked(opened(tmp_path, "one"), "echo one") == "002.results.zip", "the same jobs wait where they waited"
    with zipfile.ZipFile(tmp_path / "bundles" / "002.pyz") as bundle:
        assert "echo one" in bundle.read("jobs.json").decode()


def test_a_python_without_torch_runs_nothing_and_another_one_starts_anew(tmp_path: Path) -> None:
    asked(opened(tmp_path, "one"), "exit 3")
    bundle, other = tmp_path / "bundles" / "001.pyz", other_python(tmp_path / "other")

    def run(*options: object) -> subprocess.CompletedProcess[str]:
        return run_captured([sys.executable, "-I", bundle, *map(str, options)], cwd=tmp_path)

    for python, problem in ((other, "has no torch"), ("/bin/true", "is no Python"), ("/nowhere", "cannot be run")):
        refused = run("--python", python)
        assert refused.returncode == 2 and f"{python} {problem}" in refused.stdout and "--python PATH" in refused.stdout
    assert not (tmp_path / "bundles" / "001.results.zip").exists()
    assert run().returncode == 0
    assert run().stdout.count(": done") == 0, "finished jobs are not repeated"
    (site,) = (tmp_path / "other" / "lib").glob("python3.*/site-packages")
    (site / "torch.py").touch()
    assert run("--python", other).stdout.count(": done") == 2


def test_a_command_of_tools_waits_for_its_bundle_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in (["env", "--json"], ["ceilings"]):
        assert main(["--executor", "bundle", *verb]) == 6
        said = capsys.readouterr()
        assert said.err.startswith("waiting: executor: run `python3 001.pyz`") and said.err.count("\n") == 1
        assert said.err.endswith("; then run the command again\n")
        if said.out:
            assert json.loads(said.out)["status"] == "waiting"
        shutil.rmtree("bundles")
