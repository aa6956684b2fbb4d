"""The ssh executor against a real sshd: lost connections, silence, secrets, and what a user reads when it cannot work."""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest

from tests.contracts.conftest import KERNELS, REFERENCE
from tests.ssh_server import running_sshd
from tests.support import Capsys, one_sentence, run_captured
from tests.tools.executors.test_local import alive, own, wait_for
from tools.__main__ import main
from tools.errors import InfrastructureError
from tools.executors import ssh
from tools.executors.base import FinishedJob, Job
from tools.executors.ssh import SshExecutor
from tools.executors.worker_code import worker_code
from tools.store.blobs import Blobs

CANARY = "canary-" + os.urandom(16).hex()
SECRETS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "LC_SECRET")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's configuration that sends its whole environment to a server that accepts all of it."""
    sends = f"  SendEnv *\n  SetEnv MY_KEY={CANARY}\n  ForwardAgent yes\n"
    with running_sshd(tmp_path_factory.mktemp("server") / "sshd", sends, "AcceptEnv *\n") as path:
        yield path


def opened(config: Path, scratch: Path, **options: str) -> SshExecutor:
    there = {"host": "gpu1", "python": sys.executable, "config": str(config), "folder": str(scratch / "there")}
    return SshExecutor(Blobs(scratch / "blobs"), scratch, **{**there, **options})


def shell(script: str) -> Job:
    return Job(files={}, argv=("sh", "-c", script))


@pytest.mark.slow
def test_ten_lost_connections_lose_no_job_and_repeat_none(config: Path, tmp_path: Path) -> None:
    log, cuts, chance = tmp_path / "log", [0], random.Random(7)
    log.touch()
    with opened(config, tmp_path) as executor, ThreadPoolExecutor(4) as pool:
        executor.devices()
        payload = executor.blobs.put(os.urandom(1 << 20))

        def work(number: int) -> FinishedJob:
            script = f"echo {number} >> {log}; sleep 0.3; cp payload back"
            job = Job(files={"payload": payload}, argv=("sh", "-c", script), results=("back",))
            return executor.run(job)

        def cut() -> None:
            while cuts[0] < 10:
                time.sleep(chance.uniform(0.1, 2.5))
                connection = executor._connection
                if connection is not None and not connection.lost:
                    os.kill(connection.process.pid, signal.SIGKILL)
                    connection.process.wait()
                    cuts[0] += 1

        cutter = threading.Thread(target=cut, daemon=True)
        cutter.start()
        count, finished = 0, list[FinishedJob]()
        while cutter.is_alive():
            finished += pool.map(work, range(count, count + 4))
            count += 4
        cutter.join()
    assert cuts[0] == 10 and [one.exit_code for one in finished] == [0] * count
    assert {one.files["back"] for one in finished} == {payload}
    assert sorted(map(int, log.read_text().split())) == list(range(count)), "each job ran once"


def test_a_result_is_found_again_by_a_worker_that_was_started_anew(config: Path, tmp_path: Path) -> None:
    with opened(config, tmp_path) as executor:
        order = shell(f"echo x >> {tmp_path}/log").model_dump(mode="json")
        first, _ = executor._ask("run", key="k", job=order)
        (lock,) = (tmp_path / "there").rglob("lock")
        (worker,) = [int(path.name) for path in Path("/proc").glob("[0-9]*") if holds(path.name, lock)]
        os.kill(worker, signal.SIGKILL)
        assert executor._ask("run", key="k", job=order)[0] == first
    assert (tmp_path / "log").read_text() == "x\n"


def holds(pid: str, file: Path) -> bool:
    try:
        return any(one.samefile(file) for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_a_job_whose_brain_is_gone_ends_by_its_lease(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "LEASE_S", 2.0)
    executor = opened(config, tmp_path)
    executor.devices()
    pool = ThreadPoolExecutor(1)
    running = pool.submit(executor.run, shell(f"sleep {own(302)}; true"))
    wait_for(lambda: alive(f"sleep {own(302)}"))
    executor._closed.set()  # The brain is silent from now on.
    assert executor._connection is not None
    executor._connection.close()
    assert isinstance(running.exception(), InfrastructureError)
    wait_for(lambda: not alive(f"sleep {own(302)}") and not list((tmp_path / "there" / "sessions").iterdir()))


def test_no_secret_is_found_on_the_host(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, CANARY)
    with opened(config, tmp_path) as executor, ThreadPoolExecutor(1) as pool:
        running = pool.submit(executor.run, Job(files={}, argv=("{python}", "-c", "import time; time.sleep(1.5)")))
        wait_for(lambda: [path for path in files_below(tmp_path / "there") if path.name == "stdout.txt"])
        seen = [path for name in ("environ", "cmdline") for path in Path("/proc").glob(f"[0-9]*/{name}") if leaks(path)]
        stored = [path for path in files_below(tmp_path / "there") if leaks(path)]
        assert running.result().exit_code == 0
    assert not seen and not stored
    wait_for(lambda: not list((tmp_path / "there" / "sessions").iterdir()))


def files_below(folder: Path) -> list[Path]:
    """The files of a folder whose folders may be renamed meanwhile, which `rglob` does not survive."""
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]


def leaks(path: Path) -> bool:
    try:
        return path.is_file() and CANARY.encode() in path.read_bytes()
    except OSError:
        return False


def test_what_a_user_reads_when_the_host_cannot_be_used(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def variant(name: str, old: str, new: str) -> Path:
        path = tmp_path / name
        path.write_text(config.read_text().replace(old, new))
        return path

    login = f"`ssh -F {tmp_path}/unknown gpu1 true`"
    with one_sentence("the host key of gpu1 is not known", login):
        opened(variant("unknown", "/known", "/none"), tmp_path).devices()
    with one_sentence("accepts no key of yours", "ssh-copy-id"):
        opened(variant("stranger", "/user", "/host"), tmp_path).devices()
    with one_sentence("/nowhere/python is no program on gpu1", "executor.python"):
        opened(config, tmp_path, python="/nowhere/python").devices()
    with one_sentence("cannot be reached", "refused", error=InfrastructureError):
        opened(variant("closed", "Port ", "Port 1 # "), tmp_path).devices()
    with one_sentence("the worker cannot start on gpu1", "NotADirectoryError"):
        opened(config, tmp_path, folder="/dev/null/there").devices()
    with one_sentence("executor.config: /nowhere/config does not exist here"):
        opened(Path("/nowhere/config"), tmp_path).devices()
    monkeypatch.setenv("PATH", str(tmp_path))
    with one_sentence("no ssh on this machine's PATH", "openssh-client"):
        opened(config, tmp_path).devices()


def test_the_worker_needs_nothing_but_python_3_10(tmp_path: Path) -> None:
    with zipfile.ZipFile(BytesIO(worker_code())) as archive:
        archive.extractall(tmp_path)
        for name in archive.namelist():
            ast.parse(archive.read(name), name, feature_version=(3, 10))
    program = "import sys; sys.path.insert(0, sys.argv[1]); import tools.executors.host.service as s; print(s.__file__)"
    found = run_captured([sys.executable, "-I", "-S", "-c", program, tmp_path])
    assert found.stdout.startswith(str(tmp_path)), found.stderr


@pytest.mark.slow
def test_a_candidate_is_judged_over_ssh(config: Path, tmp_path: Path, capsys: Capsys) -> None:
    kernel, reference = tmp_path / "kernel.cpp", tmp_path / "reference.py"
    kernel.write_text((KERNELS / "cpp" / "good.cpp").read_text())
    reference.write_text(REFERENCE)
    there = {"host": "gpu1", "python": sys.executable, "config": str(config), "folder": f"{tmp_path}/there"}
    executor = ["--executor", json.dumps({"kind": "ssh", **there})]
    assert main([*executor, "env"]) == 0 and "| host torch | ok |" in capsys.readouterr().out
    task = ["--kernel", str(kernel), "--ref", str(reference), "--dims", "n=4096"]
    (tmp_path / "candidate.cpp").write_text(kernel.read_text().replace("2.0f * x[i]", "x[i] + x[i]"))
    assert main([*executor, "judge", *task, "--candidate", f"{tmp_path}/candidate.cpp"]) == 0
    trial = json.loads(capsys.readouterr().out)
    assert trial["kind"] == "passed" and trial["measurements"][0]["max_error"] < 1e-5
