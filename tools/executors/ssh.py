"""Runs jobs on another host, which the system's ssh reaches with the user's own configuration.

One ssh process carries all messages to a worker that is sent with each connection (`tools.executors.host.service`).
Keys of model providers, prompts and records stay here: ssh gets four variables of the environment, and the host gets
the files of jobs. A lost connection is made again, and the job is found by its key.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pydantic import Field

from tools import errors
from tools.errors import InfrastructureError, KernelwrightError, SettingsError, StorageError
from tools.executors.base import Device, Executor, ExecutorOptions, FinishedJob, Job
from tools.executors.host.engine import LOCK_WAIT_S
from tools.executors.host.wire import GREETING, Answer, FileChannel
from tools.executors.worker_code import worker_code
from tools.harness.isolation.ipc import ClosedError, socket_pair
from tools.store.blobs import Blobs

START = "import sys;r=sys.stdin.buffer.read;exec(r(int(r(8),16)))"
PASSED_TO_SSH = ("PATH", "HOME", "USER", "SSH_AUTH_SOCK")
"""The only variables that ssh sees, so that no `SendEnv` of a configuration can send a key."""
SSH_OPTIONS = (
    *("BatchMode=yes", "StrictHostKeyChecking=yes", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no"),
    *("PermitLocalCommand=no", "RemoteCommand=none", "RequestTTY=no", "ControlMaster=no", "ConnectTimeout=10"),
    *("ServerAliveInterval=5", "ServerAliveCountMax=4", "SetEnv=KERNELWRIGHT=worker"),
)
"""Options that no configuration overrides; of several `SetEnv` ssh takes the first."""
BEAT_S = 10.0
"""Seconds between two messages that tell the worker that this process lives."""
LEASE_S = 60.0
"""Seconds without a message after which the worker ends its jobs and itself."""
GREETING_WAIT_S = 90.0
"""Seconds within which a connection must be made and the worker must answer."""
EXIT_WAIT_S = 5.0
"""Seconds that ssh has to end by itself, and the worker to end its session."""
PAUSES_S = (0.2, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try to make a lost connection again; shorter, together, than the worker's lease."""
STORE_BYTES = 4 << 30
"""Bytes of files that the worker keeps; those used least recently give way to others."""
REMEDIES = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "the host key of {host} has changed: ask who runs it whether that is "
    "right, remove the old key with `ssh-keygen -R`, and connect once with `{login}`",
    "Host key verification failed": "the host key of {host} is not known: run `{login}` once, compare the fingerprint "
    "that it shows with the host's own, and accept it",
    "Traceback|is older than|did not start": "the worker cannot start on {host} ({said}); see executor.folder and "
    "executor.python",
    r"Permission denied \(": "{host} asks for a password or accepts no key of yours: make `{login}` work without a "
    "question (`ssh-copy-id`, or a key in ssh-agent)",
    "Could not resolve hostname": "{host} is no host that ssh knows: name it as in `{login}`",
    "not found|No such file or directory": "{python} is no program on {host}: name the Python with torch there under "
    "executor.python ({said})",
}
"""Pattern in what ssh says -> what the user does about it."""


class SshOptions(ExecutorOptions):
    """Options of `ssh`."""

    host: str = Field(pattern=r"^[^-\s]\S*$", examples=["gpu1", "me@gpu1.example.org"])
    """The host, as `ssh HOST` takes it: a name of your ~/.ssh/config, user@address, or ssh://user@address:port."""
    python: str = "python3"
    """The Python with torch on the host that runs the worker and jobs, 3.10 or newer, e.g. /opt/py/bin/python."""
    config: str = ""
    """A configuration of ssh instead of ~/.ssh/config."""
    folder: str = "~/.cache/kernelwright"
    """The folder on the host for the files of jobs; a session's own part is removed at its end."""
    lock_wait_s: float = Field(default=LOCK_WAIT_S, gt=0, allow_inf_nan=False)
    """Seconds that a job waits for a device that another process of Kernelwright holds there."""


class SshExecutor(Executor):
    """Runs jobs on another host. Safe to use from several threads."""

    options = SshOptions
    is_elsewhere = True

    def __init__(
        self,
        blobs: Blobs,
        scratch: Path,
        *,
        gpu: int | None = None,
        clocks: str = "observe",
        **options: Any,
    ) -> None:
        """Create an executor with the fields of `SshOptions` as `options`; it connects when it is first used.

        `gpu` and `clocks` are those of `Engine`. `scratch` is not used: jobs have their folders on the host.
        """
        self.blobs = blobs
        self.settings = SshOptions.model_validate(options)
        self.session = secrets.token_hex(8)
        self._engine = {"lock_wait_s": self.settings.lock_wait_s, "gpu": gpu, "clocks": clocks}
        self._devices: tuple[Device, ...] | None = None
        self._connection: Connection | None = None
        self._guard = threading.Lock()
        self._closed = threading.Event()

    def devices(self) -> tuple[Device, ...]:
        if self._devices is None:
            found, _ = self._ask("devices")
            self._devices = tuple(Device.model_validate(device) for device in found["devices"])
        return self._devices

    def available_memory(self) -> int:
        return int(self._ask("memory")[0]["bytes"])

    def run(self, job: Job) -> FinishedJob:
        key, order = secrets.token_hex(8), job.model_dump(mode="json")
        while "finished" not in (answer := self._ask("run", key=key, job=order)[0]):
            missing = answer["missing"]
            self._ask("put", [self.blobs.get(sha) for sha in missing], shas=missing)
        finished = FinishedJob.model_validate(answer["finished"])
        wanted = [sha for sha in sorted(set(finished.files.values())) if not self.blobs.has(sha)]
        _, contents = self._ask("get", shas=wanted)
        if [self.blobs.put(content) for content in contents] != wanted:
            raise StorageError(f"{self.settings.host}: a result was damaged on its way")
        self._ask("forget", key=key)
        return finished

    def close(self) -> None:
        self._closed.set()
        connection = self._connection
        if connection is not None:
            # Without an answer, the worker ends by its lease.
            with contextlib.suppress(ClosedError, TimeoutError):
                connection.ask("close").result(EXIT_WAIT_S)
            connection.close()

    def _ask(self, operation: str, files: Sequence[bytes] = (), **fields: Any) -> Answer:
        """Return the worker's answer; each operation may be asked again after a lost connection."""
        why = ""
        for pause in (0.0, *PAUSES_S):
            if self._closed.wait(pause):
                raise InfrastructureError(f"{self.settings.host}: the connection was closed while it was in use")
            try:
                answer, contents = self._connected().ask(operation, files, **fields).result()
            except ClosedError as error:
                why = str(error)
                continue
            if "error" in answer:
                kind = getattr(errors, answer["error"], InfrastructureError)
                raise kind(f"{self.settings.host}: {answer['sentence']}")
            return answer, contents
        raise InfrastructureError(f"{self.settings.host}: the connection was lost and cannot be made again ({why})")

    def _connected(self) -> Connection:
        """Return the connection, made anew if there is none; raise ClosedError if a lost one cannot be made again, and
        SettingsError or InfrastructureError if the first one fails."""
        with self._guard:
            if self._connection is None or self._connection.lost:
                is_first = self._connection is None
                try:
                    self._connection = Connection(self._command(), self._greeting())
                except ClosedError as error:
                    if is_first:
                        raise self._first_failure(str(error)) from None
                    raise
                if is_first:
                    threading.Thread(target=self._beat, daemon=True).start()
                if self._closed.is_set():
                    self._connection.close()
            return self._connection

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_S):
            with contextlib.suppress(KernelwrightError):
                self._ask("beat")

    def _login(self) -> list[str]:
        """Return the words of `ssh` that reach the host."""
        config = Path(self.settings.config).expanduser()
        return [*(["-F", str(config)] if self.settings.config else []), self.settings.host]

    def _command(self) -> list[str]:
        """Return the command that starts the worker there; SettingsError if this machine lacks a part of it."""
        if shutil.which("ssh") is None:
            raise SettingsError(
                "executor: there is no ssh on this machine's PATH; install the OpenSSH client "
                "(Debian, Ubuntu: `apt install openssh-client`)"
            )
        config = Path(self.settings.config).expanduser()
        if not config.exists():
            raise SettingsError(f"executor.config: {config} does not exist here; name a configuration of ssh, or none")
        # The shell there expands ~ in front of quotes alone.
        python = re.sub("^'~/", "~/'", shlex.quote(self.settings.python))
        return ["ssh", "-T", *(f"-o{one}" for one in SSH_OPTIONS), *self._login(), f"exec {python} -I -c '{START}'"]

    def _greeting(self) -> bytes:
        """Return what the program at the other end reads first: itself, its options, and the worker's code."""
        limits = {"store_bytes": STORE_BYTES, "lease_s": LEASE_S}
        options = {"folder": self.settings.folder, "session": self.session, **limits}
        parts = (
            (Path(__file__).parent / "host" / "bootstrap.py").read_bytes(),
            json.dumps({**options, "engine": self._engine}).encode(),
            worker_code(),
        )
        return b"".join(f"{len(part):08x}".encode() + part for part in parts)

    def _first_failure(self, said: str) -> KernelwrightError:
        words = {"host": self.settings.host, "python": self.settings.python, "said": said.splitlines()[-1][:200]}
        words["login"] = shlex.join(["ssh", *self._login(), "true"])
        for pattern, remedy in REMEDIES.items():
            if re.search(pattern, said):
                return SettingsError(f"executor: {remedy.format(**words)}")
        return InfrastructureError("executor: {host} cannot be reached ({said}); try `{login}`".format(**words))


class Connection:
    """One ssh process, and the worker's answers to messages over it."""

    def __init__(self, command: list[str], greeting: bytes) -> None:
        """Start ssh and wait for the worker; raise ClosedError, with what ssh said as its text, if it does not come."""
        self.lost = False
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Answer]] = {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        ours, theirs = socket_pair()
        environment = {name: os.environ[name] for name in PASSED_TO_SSH if name in os.environ}
        with theirs:
            end = theirs.fileno()
            self.process = subprocess.Popen(
                command, stdin=end, stdout=end, stderr=self._errors, env=environment, start_new_session=True
            )
        self.channel = FileChannel(ours)
        try:
            ours.settimeout(GREETING_WAIT_S)
            ours.sendall(greeting)
            _skip_to_greeting(ours)
        except OSError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(EXIT_WAIT_S)
            self.close()
            raise ClosedError(self._error_output() or f"no answer from the worker ({error})") from None
        threading.Thread(target=self._receive, daemon=True).start()

    def ask(self, operation: str, files: Sequence[bytes] = (), **fields: Any) -> Future[Answer]:
        """Send one message and return its future answer, which fails with ClosedError if the connection is lost."""
        number = next(self._numbers)
        answer: Future[Answer] = Future()
        self._waiting[number] = answer
        self.channel.send_files({"op": operation, "id": number, **fields}, files)
        if self.lost and not answer.done():
            raise ClosedError(self._error_output())
        return answer

    def _receive(self) -> None:
        with contextlib.suppress(ClosedError):
            while True:
                message, files = self.channel.recv_files()
                self._waiting.pop(message.pop("id")).set_result((message, files))
        self.lost = True
        for number in list(self._waiting):
            self._waiting.pop(number).set_exception(ClosedError(self._error_output()))

    def close(self) -> None:
        """End ssh."""
        self.lost = True
        self.process.terminate()
        self.process.wait()
        with contextlib.suppress(OSError):
            self.channel.sock.shutdown(socket.SHUT_RDWR)

    def _error_output(self) -> str:
        """Return what ssh wrote to standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()


def _skip_to_greeting(sock: socket.socket) -> None:
    """Read up to the end of the worker's greeting; raise OSError if it does not come."""
    read = b""
    while not read.endswith(GREETING):
        part = sock.recv(1)
        if not part:
            raise OSError("end of file")
        read = read[-len(GREETING) :] + part
