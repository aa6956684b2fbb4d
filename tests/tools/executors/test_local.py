"""The local executor: jobs in and results out, limits, warm servers, the device's lock, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.errors import DeviceBusyError, HarnessError
from tools.executors.base import FinishedJob, Job, Limits, Needs
from tools.executors.host.device_lock import device_lock
from tools.executors.local import LocalExecutor
from tools.store.blobs import Blobs

SERVER = """
import json, os, sys
if "--serve" in sys.argv:
    for line in sys.stdin:
        folder = json.loads(line)["folder"]
        what = open(folder + "/what").read()
        if what == "die":
            os._exit(3)
        if what == "die once" and not os.path.exists(MARK):
            open(MARK, "w").close()
            os._exit(3)
        if what == "spoil":
            open(os.path.join(os.path.dirname(__file__), "other.py"), "w").write("changed")
        if what == "sleep":
            import time
            time.sleep(300)
        open(folder + "/result.json", "w").write(str(os.getpid()))
        print(json.dumps({"exit": 0}), flush=True)
"""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalExecutor]:
    with LocalExecutor(Blobs(tmp_path / "blobs"), tmp_path / "scratch") as executor:
        assert isinstance(executor, LocalExecutor)
        yield executor


def shell(local: LocalExecutor, script: str, limits: Limits | None = None) -> Job:
    return Job(files={}, argv=("sh", "-c", script), limits=limits or Limits())


def warm(local: LocalExecutor, what: str, mark: Path, limits: Limits | None = None) -> Job:
    files = {
        "harness/server.py": local.blobs.put(SERVER.replace("MARK", repr(str(mark)))),
        "harness/other.py": local.blobs.put("other"),
        "what": local.blobs.put(what),
    }
    return Job(
        files=files,
        argv=("{python}", "harness/server.py"),
        results=("result.json",),
        warm="k",
        limits=limits or Limits(),
    )


def test_a_job_leaves_its_results_and_nothing_else(local: LocalExecutor) -> None:
    finished = local.run(shell(local, "head -c 5000 /dev/zero > big; echo $?", limits=Limits(file_bytes=1000)))
    assert local.blobs.text(finished.files["stdout.txt"]) != "0\n", "a file beyond its limit"
    assert finished.usage.peak_memory > 0 and list(local.scratch.iterdir()) == []


def test_a_background_process_does_not_outlive_its_job(local: LocalExecutor) -> None:
    local.run(shell(local, f"sleep {own(301)} & exit 0"))
    wait_for(lambda: not alive(f"sleep {own(301)}"))


def test_jobs_run_side_by_side(local: LocalExecutor, tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    finished: list[FinishedJob] = []

    def attend(name: int) -> None:
        command = f"touch {meeting}/{name}; while [ $(ls {meeting} | wc -l) -lt 4 ]; do sleep 0.02; done"
        finished.append(local.run(shell(local, command, limits=Limits(wall_s=60))))

    jobs = [threading.Thread(target=attend, args=(name,)) for name in range(4)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert [one.exit_code for one in finished] == [0] * 4, "one waited for another to end"


def test_one_server_serves_many_jobs_and_is_started_again(local: LocalExecutor, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    pids = [
        local.blobs.text(local.run(warm(local, what, mark)).files["result.json"])
        for what in ("a", "b", "die once", "c")
    ]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    with pytest.raises(HarnessError, match="died twice"):
        local.run(warm(local, "die", mark))


def test_a_server_over_its_time_is_ended(local: LocalExecutor, tmp_path: Path) -> None:
    finished = local.run(warm(local, "sleep", tmp_path / "mark", Limits(wall_s=0.5)))
    assert finished.timed_out and "result.json" not in finished.files
    assert local.run(warm(local, "a", tmp_path / "mark")).exit_code == 0


def test_a_harness_that_was_changed_counts_for_nothing(local: LocalExecutor, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"other\.py was changed"):
        local.run(warm(local, "spoil", tmp_path / "mark"))
    job = Job(files={"harness/a.py": local.blobs.put("x")}, argv=("sh", "-c", "echo y > harness/a.py"))
    with pytest.raises(HarnessError, match=r"a\.py was changed"):
        local.run(job)


def test_two_exclusive_jobs_never_share_a_device(local: LocalExecutor, tmp_path: Path) -> None:
    hurried = LocalExecutor(local.blobs, tmp_path / "other", lock_wait_s=0.2)
    job = Job(files={}, argv=("true",), needs=Needs(exclusive=True))
    with device_lock("cpu", 0, 600.0), pytest.raises(DeviceBusyError, match=f"process {os.getpid()}"):
        hurried.run(job)
    assert local.run(job).exit_code == 0
    hurried.close()


def test_closing_ends_the_servers(local: LocalExecutor, tmp_path: Path) -> None:
    pid = int(local.blobs.text(local.run(warm(local, "a", tmp_path / "mark")).files["result.json"]))
    local.close()
    local.close()
    assert not Path(f"/proc/{pid}").exists()


ORPHANED = """
import json, sys, threading, time
from pathlib import Path
from tools.executors.base import Job
from tools.executors.local import LocalExecutor
from tools.executors.harness_job import harness_job
from tools.executors.protocol import ProbeRequest
from tools.store.blobs import Blobs
folder = Path(sys.argv[1])
local = LocalExecutor(Blobs(folder / "blobs"), folder / "scratch")
reference = "import time\\ndef reference(x, N):\\n    open('/proc/self/stat').read()\\n    time.sleep(300)\\n"
parameters = [{"name": "x", "dtype": "float32", "pointer": True}, {"name": "N", "dtype": "int32", "pointer": False}]
request = ProbeRequest.model_validate({"reference": reference, "dims": [{"N": 16}], "parameters": parameters})
threading.Thread(target=local.run, args=(harness_job(request, {}, local.blobs),), daemon=True).start()
threading.Thread(target=local.run, args=(Job(files={}, argv=("sh", "-c", f"sleep {sys.argv[2]}; true")),), daemon=True).start()
print("started", flush=True)
time.sleep(300)
"""


def test_nothing_outlives_a_killed_run(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", ORPHANED, str(tmp_path), own(300)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert run.stdout is not None and run.stdout.readline() == b"started\n"
    wait_for(lambda: alive(f"sleep {own(300)}") and len(beside(tmp_path)) >= 2)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    run.stdout.close()
    wait_for(lambda: not alive(f"sleep {own(300)}") and not beside(tmp_path))


def test_an_interrupt_at_the_terminal_leaves_servers_alone(local: LocalExecutor, tmp_path: Path) -> None:
    pid = int(local.blobs.text(local.run(warm(local, "a", tmp_path / "mark")).files["result.json"]))
    assert os.getpgid(pid) != os.getpgid(0)
    assert json.loads(local.blobs.text(local.run(warm(local, "b", tmp_path / "mark")).files["result.json"])) == pid


def own(seconds: int) -> str:
    """So many seconds and a bit, different from those of any other run of these tests on this machine."""
    return f"{seconds}.{os.getpid()}"


def wait_for(condition: object, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def alive(words: str) -> bool:
    return any(words in command for _, command in processes())


def beside(folder: Path) -> list[str]:
    """Processes that run a file under the folder's scratch, or work there."""
    scratch = str(folder / "scratch")
    return [command for place, command in processes() if scratch in command or place.startswith(scratch)]


def processes() -> list[tuple[str, str]]:
    """(working folder, command line) of every other process."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            place = str((path / "cwd").readlink())
        except OSError:
            continue
        if words[0] and int(path.name) != os.getpid():
            found.append((place, b" ".join(words).decode(errors="replace").strip()))
    return found
