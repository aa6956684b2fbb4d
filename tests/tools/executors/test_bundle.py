"""Bundles: where they are written, what runs them, and what a user reads while they wait."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from tests.contracts.test_executors import other_python
from tests.support import Capsys, one_sentence, run_captured
from tools.__main__ import main
from tools.errors import PendingError
from tools.executors.base import Job, Limits
from tools.executors.bundle import BundleExecutor
from tools.executors.host import bundle_runner
from tools.store.blobs import Blobs


def opened(folder: Path, name: str) -> BundleExecutor:
    return BundleExecutor(Blobs(folder / name), folder / "scratch", folder=str(folder / "bundles"))


def shell_job(script: str, *results: str, wall_s: float = 60.0) -> Job:
    return Job(files={}, argv=("sh", "-c", script), results=results, limits=Limits(wall_s=wall_s))


def asked(executor: BundleExecutor, job: Job | str) -> str:
    """Run a job that has no answer yet and return the name of the file that is awaited."""
    with pytest.raises(PendingError) as waits:
        executor.run(shell_job(job) if isinstance(job, str) else job)
    assert waits.value.file is not None
    return waits.value.file.name


def called(bundle: Path, *options: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a bundle with the variables of `environment` beside this process's own."""
    return run_captured([sys.executable, bundle, *map(str, options)], cwd="/", env={**os.environ, **environment})


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


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

    for python, problem in ((other, "has no torch"), ("/bin/true", "is no Python"), ("/nowhere", "cannot be run")):
        refused = called(bundle, "--python", python)
        assert refused.returncode == 2 and f"{python} {problem}" in refused.stdout and "--python PATH" in refused.stdout
    assert not (tmp_path / "bundles" / "001.results.zip").exists()
    assert called(bundle).returncode == 0
    assert called(bundle).stdout.count(": done") == 0, "finished jobs are not repeated"
    (site,) = (tmp_path / "other" / "lib").glob("python3.*/site-packages")
    (site / "torch.py").touch()
    assert called(bundle, "--python", other).stdout.count(": done") == 2


def test_what_the_machine_may_have_failed_at_is_repeated(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    unfinished = [
        shell_job(f"[ -f {flag} ] || sleep 60", wall_s=0.5),
        shell_job(f"[ -f {flag} ] || kill -9 $$"),
        shell_job(f"[ ! -f {flag} ] || touch result.json", "result.json"),
    ]
    refused = shell_job("echo no >&2; exit 1", "kernel.so")
    jobs, bundle = [*unfinished, refused], tmp_path / "bundles" / "001.pyz"
    first = opened(tmp_path, "one")
    with pytest.raises(PendingError):
        first.gather([partial(first.run, job) for job in jobs])
    assert "3 jobs did not finish" in (said := called(bundle)).stdout and said.returncode == 0
    first = opened(tmp_path, "one")
    assert [first.run(job).exit_code for job in jobs] == [-9, -9, 0, 1]
    assert first.run(refused).exit_code == 1, "a compiler that refuses a kernel is not asked again"
    assert asked(first, unfinished[1]) == "002.results.zip", "another attempt is another job"
    flag.touch()
    assert called(bundle).stdout.count(": done") == 3
    now = opened(tmp_path, "one")
    assert [now.run(job).exit_code for job in (*jobs, *jobs)] == [0, 0, 0, 1] * 2


def test_each_attempt_has_its_own_answer(tmp_path: Path) -> None:
    """A run that tries twice meets two failures when it is called again, and no third bundle."""
    hangs = shell_job("sleep 60", wall_s=0.5)
    for name in ("001", "002"):
        executor = opened(tmp_path, "one")
        for _ in range(int(name) - 1):
            assert executor.run(hangs).timed_out
        assert asked(executor, hangs) == f"{name}.results.zip"
        called(tmp_path / "bundles" / f"{name}.pyz")
    executor = opened(tmp_path, "one")
    assert executor.run(hangs).timed_out and executor.run(hangs).timed_out
    patient = hangs.model_copy(update={"limits": Limits(wall_s=600.0)})
    assert asked(opened(tmp_path, "one"), patient) == "003.results.zip", "what a cap cut short has more time now"


@pytest.mark.parametrize("damage", ["no host", "no file", "other file", "broken file"])
def test_damaged_results_are_refused_in_one_sentence(tmp_path: Path, damage: str) -> None:
    job = shell_job("echo said")
    asked(opened(tmp_path, "one"), job)
    called(tmp_path / "bundles" / "001.pyz")
    results = tmp_path / "bundles" / "001.results.zip"
    with zipfile.ZipFile(results) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    blob = next(name for name, data in content.items() if data == b"said\n")
    answers = json.loads(content["results.json"])
    if damage == "no host":
        del answers["host"]
        content["results.json"] = json.dumps(answers).encode()
    elif damage == "no file":
        del content[blob]
    elif damage == "other file":
        content[blob] = b"sung\n"
    with zipfile.ZipFile(results, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    if damage == "broken file":
        results.write_bytes(results.read_bytes().replace(b"said\n", b"sung\n"))
    with one_sentence("001.results.zip cannot be read", "copy it again"):
        opened(tmp_path, "other").run(job)


def test_results_of_another_machine_or_project_are_not_mixed_in(tmp_path: Path) -> None:
    bundle = tmp_path / "bundles" / "001.pyz"
    asked(opened(tmp_path, "one"), "echo one")
    assert called(bundle).stdout.count(": done") == 2 and called(bundle).stdout.count(": done") == 0
    (tmp_path / "sitecustomize.py").write_text("import socket\nsocket.gethostname = lambda: 'another'\n")
    assert called(bundle, PYTHONPATH=str(tmp_path)).stdout.count(": done") == 2, "a job that was queued again elsewhere"
    (tmp_path / "second").mkdir()
    asked(opened(tmp_path / "second", "two"), "echo two")
    shutil.copy(tmp_path / "second" / "bundles" / "001.pyz", bundle)
    assert called(bundle, PYTHONPATH=str(tmp_path)).stdout.count(": done") == 1
    with zipfile.ZipFile(bundle) as asks, zipfile.ZipFile(bundle.with_suffix(".results.zip")) as answers:
        keys = {"host", *json.loads(asks.read("jobs.json"))["jobs"]}
        assert json.loads(answers.read("results.json")).keys() == keys


@pytest.mark.parametrize(
    ("uuid", "driver", "stays"), [("GPU-1", "580", True), ("GPU-2", "580", False), ("GPU-1", "590", False)]
)
def test_another_gpu_or_driver_is_another_machine(tmp_path: Path, uuid: str, driver: str, stays: bool) -> None:
    def call(*gpus: tuple[str, str]) -> None:
        details: list[dict[str, str]] = [{}, *({"uuid": uuid, "driver": driver} for uuid, driver in gpus)]
        bundle_runner._forget_other_machine(tmp_path, {"gpu": None}, [{"details": one} for one in details])

    call(("GPU-0", "580"), ("GPU-1", "580"))
    (tmp_path / "results").mkdir()
    call((uuid, driver), ("GPU-0", "580"))  # Another one is free first.
    assert (tmp_path / "results").exists() == stays


def test_other_users_of_both_machines_cannot_read_a_bundle(tmp_path: Path) -> None:
    asked(opened(tmp_path, "one"), "echo one")
    bundle = tmp_path / "bundles" / "001.pyz"
    called(bundle)
    modes = {path.name: mode_of(path) for path in (bundle.parent, *bundle.parent.iterdir())}
    assert modes == {"bundles": 0o700, "001.pyz": 0o600, "001.work": 0o700, "001.results.zip": 0o600}


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
