"""Processes that run jobs one after another: the launcher, which starts a process for each job, and the warm server,
which stays."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from tools.errors import HarnessError
from tools.harness.device import telemetry

SERVER_EXIT_GRACE_S = 2.0


class Launcher:
    """Handle of one launcher process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, order: dict[str, object], wall_s: float) -> dict[str, float]:
        """Run one job and return its status and usage; raise HarnessError if the launcher died."""
        stdin, stdout = _pipes(self.process)
        try:
            stdin.write(json.dumps(order).encode() + b"\n")
            stdin.flush()
            line = stdout.readline()
        except OSError as error:
            raise HarnessError(f"the job's launcher is gone ({error.strerror})") from error
        if not line:
            raise HarnessError(f"the job's launcher died ({self.process.wait()}) within {wall_s:g} s")
        answer: dict[str, float] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the launcher."""
        stdin, stdout = _pipes(self.process)
        with contextlib.suppress(OSError):
            stdin.close()
        self.process.wait()
        stdout.close()


class ServerDied(Exception):
    """The warm server ended before it answered."""


class WarmServer:
    """A warm process and the folder of its own files."""

    def __init__(self, argv: list[str], folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.cpu_s = 0.0
        self.peak_memory = 0
        self._turn = threading.Lock()
        self._log = (folder / "stderr.txt").open("wb")
        self.process = subprocess.Popen(
            [*argv, "--serve"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def run_job(self, folder: Path, job: dict[str, Any], within_s: float) -> tuple[int, bool]:
        """Run one job within `within_s` seconds and return (exit code, timed out); one job at a time. Raises
        ServerDied."""
        with self._turn:
            stdin, stdout = _pipes(self.process)
            cpu_s_before = telemetry.cpu_seconds_of(self.process.pid)
            order = {"folder": str(folder), "memory_bytes": job["limits"]["memory_bytes"]}
            try:
                stdin.write(json.dumps(order).encode() + b"\n")
                stdin.flush()
            except OSError as error:
                raise ServerDied(self._death_reason()) from error
            line = _line_within(stdout, max(within_s, 0.0))
            if line is None:
                return -9, True
            if not line:
                raise ServerDied(self._death_reason())
            self.cpu_s = telemetry.cpu_seconds_of(self.process.pid) - cpu_s_before
            self.peak_memory = _peak_memory(self.process.pid)
            try:
                return int(json.loads(line)["exit"]), False
            except (ValueError, KeyError, TypeError) as error:
                raise ServerDied(f"it answered {line[:80]!r}") from error

    def close(self) -> None:
        """Close the server's input, which ends it at once, and kill it if that does not end it."""
        stdin, stdout = _pipes(self.process)
        with contextlib.suppress(OSError):
            stdin.close()
        try:
            self.process.wait(SERVER_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        stdout.close()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _death_reason(self) -> str:
        code = self.process.wait()
        tail = (self.folder / "stderr.txt").read_text(errors="replace").strip().splitlines()
        return f"exit {code}{f': {tail[-1][:200]}' if tail else ''}"


def _line_within(stream: IO[bytes], seconds: float) -> bytes | None:
    """Return the next line, b"" at the end of the stream, or None after `seconds`."""
    answer: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=lambda: answer.put(stream.readline()), daemon=True).start()
    try:
        return answer.get(timeout=seconds)
    except queue.Empty:
        return None


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def _peak_memory(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM")), 0)
