"""The worker on another host: it runs an executor's jobs for as long as the executor is heard from.

The worker is a process of its own, so that a job outlives a lost connection: a program on standard input and output
connects to it and passes bytes on, and the next connection finds it again. Each job has a folder
`jobs/<key>` with `order.json`, and `result.json` when it has finished: a job that is requested twice runs once. If the
executor is silent for its lease, the worker ends its jobs and itself and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tools.errors import KernelwrightError, StorageError
from tools.executors.host.engine import PASSED_ENVIRONMENT_VARIABLES, Engine, available_memory
from tools.executors.host.wire import GREETING, Answer, FileChannel
from tools.harness.isolation.ipc import ClosedError
from tools.store.blobs import Blobs, write_atomically

START_WAIT_S = 30.0
"""Seconds within which a new worker takes connections."""
SPARED_S, STALE_S = 600.0, 3600.0
"""Seconds after its last use before a file gives way to others, and before the session of a dead worker is removed."""
CALLS, JOBS = 64, 64
"""Messages that are answered, and jobs that run, at the same time; more wait."""
ENVIRONMENT = (*PASSED_ENVIRONMENT_VARIABLES, "USER", "LOGNAME", "CUDA_VISIBLE_DEVICES")
"""The only variables that the worker takes over from the login."""
START = "import sys; sys.path.insert(0, 'code'); from tools.executors.host import service; service.serve(sys.argv[1])"


def connect_to_worker(options: dict[str, Any]) -> None:
    """Pass bytes between standard input and output and the worker of the session whose folder is the current one; a
    worker that does not run yet is started. Ends the process when either side closes."""
    end = time.monotonic() + START_WAIT_S
    worker: subprocess.Popen[bytes] | None = None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while True:
        with contextlib.suppress(OSError):
            connection.connect("socket")  # A relative path, because an absolute one may be too long for a socket.
            break
        if worker is None:
            environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
            with Path("log").open("ab") as log:
                worker = subprocess.Popen(
                    [sys.executable, "-I", "-c", START, json.dumps(options)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
        if worker.poll() or time.monotonic() > end:
            last = Path("log").read_text(errors="replace").strip().splitlines()[-1:] or ["it says nothing"]
            sys.exit(f"the worker did not start: {last[0]}")
        time.sleep(0.02)
    os.write(1, GREETING)
    threading.Thread(target=_pass_on_input, args=(connection,), daemon=True).start()
    while part := connection.recv(1 << 20):
        while part:
            part = part[os.write(1, part) :]
    os._exit(0)


def _pass_on_input(connection: socket.socket) -> None:
    assert isinstance(sys.stdin.buffer, io.BufferedReader)
    with contextlib.suppress(OSError):
        while part := sys.stdin.buffer.read1(1 << 20):
            connection.sendall(part)
    os._exit(0)


def serve(options_json: str) -> None:
    """Be the worker of the session whose folder is the current one, until the executor closes it or is silent for too
    long."""
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # Another worker of the session has begun to start.
    _remove_stale_sessions(Path.cwd())
    Worker(Path.cwd(), json.loads(options_json)).serve()


class Worker:
    """The engine of one session with its jobs, files and connections."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        self.store = CappedBlobs(folder / "blobs", options["store_bytes"])
        self.engine = Engine(self.store, folder / "scratch", **options["engine"])
        self.lease_s = options["lease_s"]
        self.jobs: dict[str, Future[dict[str, Any]]] = {}
        self.ended = threading.Event()
        self.heard_at = time.monotonic()
        self._guard = threading.Lock()
        self._calls, self._runs = ThreadPoolExecutor(CALLS), ThreadPoolExecutor(JOBS)
        self._operations = {
            "beat": lambda message, files: ({}, []),
            "close": self._close,
            "devices": lambda message, files: ({"devices": self.engine.devices()}, []),
            "forget": self._forget,
            "get": lambda message, files: ({}, [self.store.get(sha) for sha in message["shas"]]),
            "memory": lambda message, files: ({"bytes": available_memory()}, []),
            "put": self._store_files,
            "run": self._run,
        }

    def serve(self) -> None:
        """Take connections until the session ends; then end its jobs, remove its folder and end the process."""
        Path("socket").unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("socket")
        listener.listen()
        listener.settimeout(1.0)
        while not self.ended.is_set() and time.monotonic() - self.heard_at < self.lease_s:
            with contextlib.suppress(TimeoutError):
                channel = FileChannel(listener.accept()[0])
                threading.Thread(target=self._serve_connection, args=(channel,), daemon=True).start()
        self.engine.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)

    def _serve_connection(self, channel: FileChannel) -> None:
        with contextlib.suppress(ClosedError):
            while True:
                message, files = channel.recv_files()
                self.heard_at = time.monotonic()
                call = self._calls.submit(self._operations[message["op"]], message, files)
                call.add_done_callback(partial(_send_answer, channel, message["id"]))

    def _run(self, message: dict[str, Any], files: list[bytes]) -> Answer:
        """Answer with the finished job, once it has finished, or with the files that it lacks. The first request runs
        the job, and later ones find it."""
        key, job = message["key"], message["job"]
        folder = self.folder / "jobs" / key
        with self._guard:
            future = self.jobs.get(key)
            if future is None and (folder / "result.json").exists():
                return {"finished": json.loads((folder / "result.json").read_text())}, []
            if future is None:
                if missing := self.store.touch(set(job["files"].values())):
                    return {"missing": missing}, []
                write_atomically(folder / "order.json", json.dumps(job).encode())
                future = self.jobs[key] = self._runs.submit(self._run_job, job, folder)
        return {"finished": future.result()}, []

    def _run_job(self, job: dict[str, Any], folder: Path) -> dict[str, Any]:
        finished = self.engine.run(job)
        write_atomically(folder / "result.json", json.dumps(finished).encode())
        return finished

    def _store_files(self, message: dict[str, Any], files: list[bytes]) -> Answer:
        for sha, content in zip(message["shas"], files, strict=True):
            if self.store.put(content) != sha:
                raise StorageError(f"the file {sha} was damaged on its way")
        return {}, []

    def _forget(self, message: dict[str, Any], files: list[bytes]) -> Answer:
        with self._guard:
            self.jobs.pop(message["key"], None)
        shutil.rmtree(self.folder / "jobs" / message["key"], ignore_errors=True)
        return {}, []

    def _close(self, message: dict[str, Any], files: list[bytes]) -> Answer:
        self.ended.set()
        self.engine.close()
        return {}, []


class CappedBlobs(Blobs):
    """A store whose files give way, those first that were not used for the longest time, when it is full."""

    def __init__(self, folder: Path, capacity: int) -> None:
        """`capacity`: bytes above which files give way."""
        super().__init__(folder)
        self.capacity = capacity

    def touch(self, shas: set[str]) -> list[str]:
        """Mark files as used, remove old ones if the store is full, and return those of `shas` that are missing."""
        missing = sorted(sha for sha in shas if not self.has(sha))
        for sha in shas.difference(missing):
            os.utime(self.folder / sha)
        states = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob("[0-9a-f]*"))
        excess = sum(size for _, size, _ in states) - self.capacity
        for used_at, size, path in states:
            if excess <= 0 or used_at > time.time() - SPARED_S:
                break
            path.unlink()
            excess -= size
        return missing


def _send_answer(channel: FileChannel, number: int, call: Future[Answer]) -> None:
    """Send the answer to a message, or the error as its class's name and its sentence."""
    error = call.exception()
    with contextlib.suppress(ClosedError):
        if error is None:
            answer, files = call.result()
            channel.send_files({"id": number, **answer}, files)
        else:
            sentence = str(error) if isinstance(error, KernelwrightError) else repr(error)
            channel.send_files({"id": number, "error": type(error).__name__, "sentence": sentence})


def _remove_stale_sessions(own: Path) -> None:
    """Remove the folders that workers left who were killed."""
    for folder in own.parent.iterdir():
        if folder == own or time.time() - folder.stat().st_mtime < STALE_S:
            continue
        with contextlib.suppress(OSError), (folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
