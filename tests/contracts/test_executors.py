"""What every executor promises (`tools.executors.base`); jobs speak Python, which is beside every device."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.models.redaction import SECRET_NAME_PATTERN
from tests.ssh_server import running_sshd
from tools.errors import InfrastructureError, StorageError
from tools.executors.base import EXECUTORS, Executor, FinishedJob, Job, Limits, Needs
from tools.executors.bundle import BundleExecutor
from tools.executors.local import LocalExecutor
from tools.registry import load_class
from tools.store.blobs import Blobs


@pytest.fixture(scope="module")
def ssh_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_sshd(tmp_path_factory.mktemp("server") / "sshd") as config:
        yield config


@pytest.fixture(params=[*sorted(EXECUTORS), "local with another Python"])
def executor(request: pytest.FixtureRequest, blobs: Blobs, tmp_path: Path) -> Iterator[Executor]:
    name, _, with_other = request.param.partition(" ")
    options = {"python": str(other_python(tmp_path / "other"))} if with_other else {}
    if name == "ssh":
        config = request.getfixturevalue("ssh_config")
        options = {"host": "gpu1", "python": sys.executable, "config": str(config), "folder": str(tmp_path / "there")}
    if name == "bundle":
        yield CarriedBundles(blobs, tmp_path / "scratch", folder=str(tmp_path / "here"))
        return
    made = load_class(EXECUTORS, name, Executor, key="executor")(blobs, tmp_path / "scratch", **options)
    with made as opened:
        assert opened is made
        yield opened


class CarriedBundles(BundleExecutor):
    """`bundle` with somebody who carries each bundle to another folder, runs it there, and brings the results back."""

    settings = SimpleNamespace(python=sys.executable)
    environment = {"PATH": os.environ["PATH"]}
    """Variables on the other machine."""

    def carry(self, bundle: Path, results: Path) -> None:
        there = self.folder.with_name("there")
        there.mkdir(exist_ok=True)
        command = [sys.executable, "-I", shutil.copy(bundle, there)]
        subprocess.run(command, cwd="/", env=self.environment, stdout=subprocess.PIPE)
        shutil.copy(there / results.name, results)


def other_python(folder: Path) -> Path:
    """The interpreter of an environment that holds no package."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def python(program: str, *results: str, files: dict[str, str] | None = None, limits: Limits | None = None) -> Job:
    return Job(files=files or {}, argv=("{python}", "-c", program), results=results, limits=limits or Limits())


def texts(finished: FinishedJob, blobs: Blobs) -> dict[str, str]:
    return {name: blobs.text(sha) for name, sha in finished.files.items()}


def test_devices_are_described(executor: Executor) -> None:
    assert executor.devices()
    for device in executor.devices():
        assert device.name and device.architecture and device.units >= 1


@pytest.mark.parametrize("code", [0, 77])
def test_the_exit_code_is_the_jobs_own(executor: Executor, blobs: Blobs, code: int) -> None:
    finished = executor.run(python(f"import sys; print('said'); print('moaned', file=sys.stderr); sys.exit({code})"))
    assert finished.exit_code == code and not finished.timed_out
    assert texts(finished, blobs) == {"stdout.txt": "said\n", "stderr.txt": "moaned\n"}
    assert finished.usage.wall_s > 0
    assert executor.run(python("import os; os.kill(os.getpid(), 11)")).exit_code == -11


def test_jobs_run_under_the_python_that_was_named(executor: Executor, blobs: Blobs) -> None:
    named = executor.engine.python if isinstance(executor, LocalExecutor) else executor.settings.python  # type: ignore[attr-defined]
    job = python("import sys; print(sys.executable, sys.prefix)")
    interpreter, prefix = texts(executor.run(job), blobs)["stdout.txt"].split()
    assert interpreter == named and Path(prefix) == Path(named).parents[1]


def test_a_missing_program_is_the_jobs_failure(executor: Executor) -> None:
    assert executor.run(Job(files={}, argv=("no-such-program-anywhere",))).exit_code != 0


def test_files_go_and_come_by_content(executor: Executor, blobs: Blobs) -> None:
    given = bytes(range(256))
    program = (
        "import shutil, pathlib; pathlib.Path('out/deep').mkdir(parents=True); shutil.copy('in/a.bin', "
        "'out/deep/b.bin')"
    )
    finished = executor.run(python(program, "out/**/*", files={"in/a.bin": blobs.put(given)}))
    assert finished.exit_code == 0
    assert blobs.get(finished.files["out/deep/b.bin"]) == given


def test_only_what_the_globs_name_comes_back(executor: Executor, blobs: Blobs) -> None:
    program = "[open(name, 'w').write(name) for name in ('a.txt', 'b.txt', 'c.json')]"
    assert set(executor.run(python(program, "*.txt")).files) == {"a.txt", "b.txt", "stdout.txt", "stderr.txt"}
    assert set(executor.run(python(program, "nothing.*")).files) == {"stdout.txt", "stderr.txt"}


def test_a_result_that_points_elsewhere_stays_there(executor: Executor, blobs: Blobs, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("private")
    finished = executor.run(python(f"import os; os.symlink({str(outside)!r}, 'a.txt')", "*.txt"))
    assert "private" not in texts(finished, blobs).values()


def test_jobs_share_nothing(executor: Executor) -> None:
    assert executor.run(python("open('left', 'w').write('x')")).exit_code == 0
    assert executor.run(python("import os, sys; sys.exit(os.path.exists('left'))")).exit_code == 0


def test_a_time_out_ends_the_whole_group(executor: Executor, blobs: Blobs) -> None:
    """The child writes as long as it lives, to a file that only it knows of."""
    program = """
import os, subprocess, sys, tempfile, time
path = os.path.join(tempfile.gettempdir(), f"kernelwright-contract-{os.getpid()}")
print(path, flush=True)
child = "import sys, time\\nwhile True:\\n    open(sys.argv[1], 'w').write(str(time.time()))\\n    time.sleep(0.05)"
subprocess.Popen([sys.executable, "-c", child, path])
time.sleep(300)
"""
    for wall_s in (1.5, 6, 24, 96):  # as long as it takes this machine to begin
        finished = executor.run(python(program, limits=Limits(wall_s=wall_s)))
        if texts(finished, blobs)["stdout.txt"]:
            break
    assert finished.timed_out and finished.exit_code < 0 and finished.usage.wall_s < 300
    (path,) = re.findall(r"\S+", texts(finished, blobs)["stdout.txt"])
    if Path(path).exists():  # It may also have been on another machine.
        before = Path(path).read_text()
        time.sleep(0.5)
        assert Path(path).read_text() == before
        Path(path).unlink()


def test_memory_is_limited(executor: Executor) -> None:
    eats = python("x = bytearray(3 << 30); x[::4096] = b'x' * len(x[::4096])", limits=Limits(memory_bytes=1 << 30))
    assert executor.run(eats).exit_code != 0


def test_what_the_machine_cannot_do_is_its_failure(executor: Executor) -> None:
    with pytest.raises(InfrastructureError, match="vax"):
        executor.run(Job(files={}, argv=("true",), needs=Needs(architecture="vax")))


@pytest.mark.parametrize("name", ["../a", "/a"])
def test_a_file_outside_of_the_folder_is_refused(executor: Executor, blobs: Blobs, name: str) -> None:
    with pytest.raises(StorageError, match="0000"):
        executor.run(python("pass", files={"a": "0" * 64}))
    with pytest.raises(InfrastructureError):
        executor.run(python("pass", files={name: blobs.put("x")}))


def test_the_keys_of_the_user_stay_with_him(executor: Executor, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "DB_PASSWORD",
        "MINE",
    ):
        monkeypatch.setenv(name, "sk-of-the-user")
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(texts(executor.run(python(program)), blobs)["stdout.txt"])
    assert seen["PATH"] and "sk-of-the-user" not in seen.values()
    assert not [name for name in seen if SECRET_NAME_PATTERN.search(name)], (
        "whatever else this machine's environment holds"
    )
