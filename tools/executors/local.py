"""Runs jobs on this machine: each in a folder and process group of its own, under limits, with its results kept as blobs.

A job with a `warm` key is fed to a server that stays (`<argv> --serve`, one per key), so that a harness imports torch once. Everything
that this starts dies with this process, however it ends: jobs hang on a launcher and servers on their standard input.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from tools.artifacts import Device, Finished, Job, Usage, digest
from tools.errors import DeviceBusyError, DiskFullError, HarnessError, InfrastructureError, SettingsError, StorageError
from tools.executors.base import NAMES, Executor
from tools.executors.machine import describe_cpu
from tools.executors.nvidia import Driver, Occupant, descends_from
from tools.records import Blobs, unwritable, without_room

PASSED_ON = (
    *("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CC", "CXX", "CPATH", "LIBRARY_PATH", "ZIG_GLOBAL_CACHE_DIR"),
    *(
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "GOMP_CPU_AFFINITY",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "XDG_CACHE_HOME",
    ),
    *("CUDA_HOME", "CUDA_PATH", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH"),
)
"""The only variables of ours that a job sees: no key or token among them."""
LOCK_WAIT_S = 120.0
GRACE_S = 2.0
LINGER_S, POLL_S = 3.0, 0.02
"""A process that has ended is listed on its GPU for less than this."""
QUIET_S = 1.5
"""Work of ours that has ended shows in a GPU's share of time in use for less than this."""
IDLE_SHARE = 10
"""Per cent of the time in use from which on a GPU without a process of ours is somebody else's."""


class Local(Executor):
    """This machine. Safe to use from several threads; jobs that need the device exclusively wait for one another."""

    def __init__(
        self,
        blobs: Blobs,
        scratch: Path,
        *,
        cache: Path | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
        gpu: int | None = None,
        driver: Driver | None = None,
    ) -> None:
        """`scratch` holds the jobs' folders while they run; `cache`, where given, the compile caches of torch for all of them.

        `gpu` is the index of the GPU that jobs run on, as `nvidia-smi` counts; None: the first that nobody uses.
        """
        self.blobs = blobs
        self.scratch = scratch
        self.cache = cache
        self.lock_wait_s = lock_wait_s
        self.gpu = gpu
        self.driver = driver or Driver()
        self._devices: tuple[Device, ...] | None = None
        self._idle: queue.SimpleQueue[_Launcher] = queue.SimpleQueue()
        self._launchers: list[_Launcher] = []
        self._servers: dict[str, _Server] = {}
        self._first: dict[str, frozenset[int]] = {}
        """UUID of a GPU -> the processes that were on it before any of ours."""
        self._resident: dict[str, int] = {}
        """UUID of a GPU on which a process of ours stays -> its share of time in use before that, per cent."""
        self._telling = False
        """The driver has listed a process of ours under the number that we know it by."""
        self._guard = threading.Lock()

    def devices(self) -> tuple[Device, ...]:
        """The CPU, then the GPUs with the chosen one first. SettingsError when there are GPUs, but not the one that was asked for."""
        if self._devices is None:
            self._devices = (describe_cpu(), *self._gpus())
        return self._devices

    def run(self, job: Job) -> Finished:
        device = self._device(job)
        self._note(device, stays=bool(job.warm))
        with contextlib.ExitStack() as stack:
            stack.enter_context(_disk_errors(self.scratch))
            if job.needs.exclusive:
                stack.enter_context(device_lock(device.kind, device.index, self.lock_wait_s))
                self._refuse_company(device)
            folder = Path(stack.enter_context(_folder(self.scratch)))
            try:
                finished = self._run_warm(job, folder, device) if job.warm else self._run_once(job, folder, device)
            except HarnessError as error:
                raise self._without_room() or error from error
            failed = finished.exit_code != 0 or finished.timed_out
            # A compiler without room for its output fails like one that was given a wrong program.
            full = self._without_room() if failed else None
            if full is not None:
                raise full
            return finished

    def _without_room(self) -> DiskFullError | None:
        return without_room(self.scratch, Path(tempfile.gettempdir()))

    def _gpus(self) -> tuple[Device, ...]:
        gpus = self.driver.devices()
        if self.gpu is not None and gpus:
            chosen = next((gpu for gpu in gpus if gpu.index == self.gpu), None)
            if chosen is None:
                known = ", ".join(str(gpu.index) for gpu in gpus)
                raise SettingsError(f"gpu: {self.gpu} is not the index of a GPU here; here are: {known}")
        else:
            chosen = next((gpu for gpu in gpus if not self._company(gpu)), gpus[0] if gpus else None)
        return tuple(sorted(gpus, key=lambda gpu: gpu is not chosen))

    def _device(self, job: Job) -> Device:
        """The device that `job` runs on; InfrastructureError when there is none such here."""
        device = next((device for device in self.devices() if device.kind == job.needs.device), None)
        if device is None:
            why = f" ({self.driver.problem})" if self.driver.problem and job.needs.device == "cuda" else ""
            raise InfrastructureError(f"this machine has no {NAMES[job.needs.device]}{why}, and the job needs one")
        if job.needs.architecture and job.needs.architecture != device.architecture:
            raise InfrastructureError(f"this machine is {device.architecture}, and the job needs {job.needs.architecture}")
        return device

    def _company(self, device: Device) -> list[str]:
        """Processes on a GPU that are not ours.

        Those that were there before anything of ours are others', wherever they live. Of the rest only such count as /proc shows, or as
        stay while the driver lists processes of ours under the numbers that we know: in a container ours may go by other numbers, and one
        that has just ended is listed a little longer.
        """
        if device.kind != "cuda":
            return []
        self._note(device)
        first = self._first[device.details["uuid"]]
        found = self._strangers(device)
        end = time.monotonic() + LINGER_S
        while doubtful := [p for p in found if p.pid not in first and not Path(f"/proc/{p.pid}").exists()]:
            if time.monotonic() > end or not self._telling:
                break
            time.sleep(POLL_S)
            found = self._strangers(device)
        if not self._telling:
            found = [process for process in found if process not in doubtful]
        return [f"process {process.pid} ({process.name})" for process in found]

    def _note(self, device: Device, *, stays: bool = False) -> None:
        """Before anything of ours runs on a GPU: who is there, and how busy it is; `stays`: from now on ours are there, too."""
        if device.kind != "cuda":
            return
        uuid = device.details["uuid"]
        if uuid not in self._first:
            self._first[uuid] = frozenset(process.pid for process in self._strangers(device))
        if stays and uuid not in self._resident:
            self._resident[uuid] = self._idle_share(device)

    def _strangers(self, device: Device) -> list[Occupant]:
        """Who does not descend from us; notes whether somebody does."""
        listed, ours = self.driver.occupants(device), os.getpid()
        found = [process for process in listed if not descends_from(process.pid, ours)]
        self._telling |= len(found) < len(listed)
        return found

    def _idle_share(self, device: Device) -> int:
        """Per cent of the time in which kernels run on a GPU without ours, or did when ours came to stay; 0 where that is not told."""
        if device.kind != "cuda":
            return 0
        if (known := self._resident.get(device.details["uuid"])) is not None:
            return known
        least, end = self.driver.share(device) or 0, time.monotonic() + QUIET_S
        while least >= IDLE_SHARE and time.monotonic() < end:
            time.sleep(POLL_S)
            least = min(least, self.driver.share(device) or 0)
        return least

    def _refuse_company(self, device: Device) -> None:
        """DeviceBusyError that names who else is on the GPU: nothing measured beside them would be worth anything."""
        others = self._company(device)
        share = 0 if others else self._idle_share(device)
        if others or share >= IDLE_SHARE:
            by = ", ".join(others) or f"somebody whom the driver does not name (kernels ran {share}% of the time, none of them ours)"
            raise DeviceBusyError(
                f"{device.name} (cuda:{device.index}) is in use by {by}; wait until it has ended, or choose another GPU "
                "with the setting `gpu` or with CUDA_VISIBLE_DEVICES"
            )

    def close(self) -> None:
        with self._guard:
            servers, self._servers = list(self._servers.values()), {}
            launchers, self._launchers, self._idle = self._launchers, [], queue.SimpleQueue()
        for server in servers:
            server.close()
        for launcher in launchers:
            launcher.close()

    def _run_once(self, job: Job, folder: Path, device: Device) -> Finished:
        materialise(job.files, self.blobs, folder)
        try:
            launcher = self._idle.get_nowait()
        except queue.Empty:
            launcher = _Launcher()
            with self._guard:
                self._launchers.append(launcher)
        order = {
            "argv": _argv(job),
            "folder": str(folder),
            "env": self._environment(job, device),
            "wall_s": job.limits.wall_s,
            # A harness job bounds its children itself; torch alone maps more than it uses, and CUDA maps all that the GPU has.
            "memory_bytes": 0 if _is_harness(job) or device.kind != "cpu" else job.limits.memory_bytes,
            "file_bytes": job.limits.file_bytes,
        }
        ended = launcher.run(order, job.limits.wall_s)
        self._idle.put(launcher)
        verify(_harness_part(job), folder)
        usage = Usage(wall_s=ended["wall_s"], cpu_s=ended["cpu_s"], peak_memory=int(ended["peak_memory"]))
        return Finished(
            exit_code=int(ended["exit"]), timed_out=bool(ended["timed_out"]), files=collect(job, self.blobs, folder), usage=usage
        )

    def _run_warm(self, job: Job, folder: Path, device: Device) -> Finished:
        parts = _harness_part(job)
        materialise({path: sha for path, sha in job.files.items() if path not in parts}, self.blobs, folder)
        identity = f"{job.warm}-{digest(json.dumps([job.argv, parts, device.kind], sort_keys=True))[:16]}"
        begun = time.monotonic()
        for attempt in (1, 2):
            server = self._server(identity, job, parts, device)
            verify(parts, server.folder)
            # A job has one limit, however often it is tried.
            left = job.limits.wall_s - (time.monotonic() - begun if attempt > 1 else 0.0)
            try:
                exit_code, timed_out = server.ask(folder, job, left)
            except _ServerDied as died:
                self._forget(identity, server)
                if attempt == 2:
                    raise HarnessError(
                        f"the harness died twice on one job ({died}); `python -m tools env` shows what this machine lacks"
                    ) from died
                continue
            if timed_out:
                self._forget(identity, server)
            else:
                verify(parts, server.folder)
            (folder / "stdout.txt").touch()
            (folder / "stderr.txt").touch()
            usage = Usage(wall_s=time.monotonic() - begun, cpu_s=server.cpu_s, peak_memory=server.peak_memory)
            return Finished(exit_code=exit_code, timed_out=timed_out, files=collect(job, self.blobs, folder), usage=usage)
        raise AssertionError("unreachable")

    def _server(self, identity: str, job: Job, parts: dict[str, str], device: Device) -> _Server:
        with self._guard:
            server = self._servers.get(identity)
            if server is None or not server.alive:
                home = Path(tempfile.mkdtemp(dir=self.scratch, prefix="warm-"))
                materialise(parts, self.blobs, home)
                server = self._servers[identity] = _Server(_argv(job), home, self._environment(job, device))
            return server

    def _forget(self, identity: str, server: _Server) -> None:
        with self._guard:
            if self._servers.get(identity) is server:
                del self._servers[identity]
        server.close()

    def _environment(self, job: Job, device: Device) -> dict[str, str]:
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        if self.cache is not None:
            env.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self.cache / "inductor"))
            env.setdefault("ZIG_GLOBAL_CACHE_DIR", str(self.cache / "zig"))
        # A job sees the one GPU that it needs, and a job for the CPU none: two jobs never disturb each other on a GPU unknown to us.
        seen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": device.details.get("uuid", "")}
        return env | seen | {"HARNESS_MEMORY_BYTES": str(job.limits.memory_bytes), "OMP_WAIT_POLICY": "passive"}


class _Launcher:
    """Handle of one launcher process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, order: dict[str, object], wall_s: float) -> dict[str, float]:
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
        stdin, stdout = _pipes(self.process)
        with contextlib.suppress(OSError):
            stdin.close()
        self.process.wait()
        stdout.close()


class _ServerDied(Exception):
    """The warm server ended before it answered."""


class _Server:
    """A warm process and the folder that its own files lie in."""

    def __init__(self, argv: list[str], folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.cpu_s = 0.0
        self.peak_memory = 0
        self._turn = threading.Lock()
        self._log = (folder / "stderr.txt").open("wb")
        self.process = subprocess.Popen(
            [*argv, "--serve"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, folder: Path, job: Job, within_s: float) -> tuple[int, bool]:
        """(exit code, timed out) of one job, which may take `within_s` seconds; one at a time."""
        with self._turn:
            stdin, stdout = _pipes(self.process)
            before = _cpu_seconds(self.process.pid)
            order = {"folder": str(folder), "memory_bytes": job.limits.memory_bytes}
            try:
                stdin.write(json.dumps(order).encode() + b"\n")
                stdin.flush()
            except OSError as error:
                raise _ServerDied(self._why()) from error
            line = _line_within(stdout, max(within_s, 0.0))
            if line is None:
                return -9, True
            if not line:
                raise _ServerDied(self._why())
            self.cpu_s = _cpu_seconds(self.process.pid) - before
            self.peak_memory = _peak_memory(self.process.pid)
            try:
                return int(json.loads(line)["exit"]), False
            except (ValueError, KeyError, TypeError) as error:
                raise _ServerDied(f"it answered {line[:80]!r}") from error

    def close(self) -> None:
        """Close its input, which ends it at once; kill it when it does not."""
        stdin, stdout = _pipes(self.process)
        with contextlib.suppress(OSError):
            stdin.close()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        stdout.close()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _why(self) -> str:
        code = self.process.wait()
        tail = (self.folder / "stderr.txt").read_text(errors="replace").strip().splitlines()
        return f"exit {code}{f': {tail[-1][:200]}' if tail else ''}"


def _line_within(stream: IO[bytes], seconds: float) -> bytes | None:
    """The next line, b"" at the end of the stream, None when `seconds` are over."""
    answer: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=lambda: answer.put(stream.readline()), daemon=True).start()
    try:
        return answer.get(timeout=seconds)
    except queue.Empty:
        return None


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def _argv(job: Job) -> list[str]:
    """The job's command; "{python}" becomes this interpreter, isolated from the environment and the folder."""
    first, *rest = job.argv
    return [sys.executable, "-I", *rest] if first == "{python}" else [first, *rest]


def _harness_part(job: Job) -> dict[str, str]:
    return {path: sha for path, sha in job.files.items() if path.startswith("harness/")}


def _is_harness(job: Job) -> bool:
    return any(part.startswith("harness/") for part in job.argv)


def materialise(files: dict[str, str], blobs: Blobs, folder: Path) -> None:
    """Copy the blobs to their relative paths; StorageError for a blob that is missing or damaged, or a path that leaves the folder."""
    for relative, sha in files.items():
        pure = PurePosixPath(relative)
        if pure.is_absolute() or ".." in pure.parts:
            raise StorageError(f"a job may not hold the path {relative!r}; use paths within the job's folder")
        path = folder / pure
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blobs.get(sha))


def verify(files: dict[str, str], folder: Path) -> None:
    """HarnessError when a file of the harness is not what was put there."""
    for relative, sha in files.items():
        try:
            found = hashlib.sha256((folder / relative).read_bytes()).hexdigest()
        except OSError:
            found = ""
        if found != sha:
            raise HarnessError(f"{relative} was changed while a job ran; nothing that it measured counts")


def collect(job: Job, blobs: Blobs, folder: Path) -> dict[str, str]:
    """Store what the job left and asked for, with its stdout and stderr; links are not followed."""
    found: dict[str, str] = {}
    for pattern in (*job.results, "stdout.txt", "stderr.txt"):
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                found[path.relative_to(folder).as_posix()] = blobs.put(path.read_bytes())
    return found


@contextlib.contextmanager
def device_lock(kind: str, index: int, wait_s: float) -> Iterator[None]:
    """Hold this host's lock of one device; DeviceBusyError, naming the holder, after `wait_s` seconds."""
    path = Path(tempfile.gettempdir()) / f"kernelwright-{kind}-{index}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except PermissionError:  # another user made it; a lock needs no more than reading
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "unknown"
                    raise DeviceBusyError(f"the {kind} device {index} has been in use for {wait_s:g} s by {holder}") from error
                time.sleep(0.02)
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} of user {os.getuid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _folder(scratch: Path) -> Iterator[str]:
    scratch.mkdir(parents=True, exist_ok=True)
    name = tempfile.mkdtemp(dir=scratch, prefix="job-")
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)


@contextlib.contextmanager
def _disk_errors(scratch: Path) -> Iterator[None]:
    """A full disk and other refusals of the file system, as one sentence."""
    try:
        yield
    except OSError as error:
        refused = unwritable(scratch / "job", error)
        if isinstance(refused, DiskFullError):
            raise refused from error
        raise InfrastructureError(f"{error.filename or scratch}: {error.strerror}; a job could not be run") from error


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and of its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _peak_memory(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM")), 0)
