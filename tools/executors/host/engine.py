"""Runs jobs on this machine: each in a folder and process group of its own, under limits; results are stored as blobs.

A job is a dict with the fields of `tools.executors.base.Job`, and what comes back has those of `FinishedJob`. A job
with a `warm` key goes to a server that stays (`<argv> --serve`, one per key), so that a harness imports torch once. All
processes that this one starts end with it, however it ends: a job dies with its launcher, and launchers and servers end
when their standard input closes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tools.errors import DiskFullError, HarnessError, InfrastructureError, SettingsError
from tools.executors.host.cpu import describe_cpu
from tools.executors.host.device_lock import OtherProcesses, device_lock
from tools.executors.host.job_folder import (
    collect_results,
    job_folder,
    translate_disk_errors,
    verify_unchanged,
    write_job_files,
)
from tools.executors.host.nvidia import LockedClocks, NvidiaDriver
from tools.executors.host.worker import Launcher, ServerDied, WarmServer
from tools.harness.device import telemetry
from tools.harness.memory import host_buffers
from tools.store.blobs import Blobs, disk_full_error_if_low

DEVICE_KIND_NAMES = {"cpu": "CPU", "cuda": "CUDA device", "hip": "HIP device"}
LEAST_JOB_MEMORY_BYTES = 8 << 30
"""Bytes that a job without a bound of its own may take even where less is free."""
PASSED_ENVIRONMENT_VARIABLES = (
    *(
        "PATH",
        "HOME",
        "LANG",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "CC",
        "CXX",
        "CPATH",
        "LIBRARY_PATH",
        "ZIG_GLOBAL_CACHE_DIR",
    ),
    *(
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "GOMP_CPU_AFFINITY",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "XDG_CACHE_HOME",
    ),
    *("CUDA_HOME", "CUDA_PATH", "CUTLASS_PATH", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH"),
)
"""The only environment variables that a job sees; no key or token is among them."""
LOCK_WAIT_S = 120.0


class Engine:
    """Runs the jobs of one executor. Safe to use from several threads; jobs that need the device exclusively wait for
    each other."""

    def __init__(
        self,
        blobs: Blobs,
        scratch: Path,
        *,
        python: str = sys.executable,
        cache: Path | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
        gpu: int | None = None,
        clocks: str = "observe",
        driver: NvidiaDriver | None = None,
    ) -> None:
        """Create an engine with its jobs' folders below `scratch`.

        "{python}" in a job stands for `python`. `cache`, if given, holds the compile caches of torch for all jobs.
        `gpu` is the index of the GPU that jobs run on, as `nvidia-smi` counts; None means the first that no process
        uses. With `clocks="lock"` its clocks are locked, if this user may, until `close` or the end of this process;
        the device's `details["clocks"]` report the result.
        """
        self.blobs = blobs
        self.scratch = scratch
        self.python = python
        self.cache = cache
        self.lock_wait_s = lock_wait_s
        self.gpu = gpu
        self.clocks = clocks
        self.driver = driver or NvidiaDriver()
        self.other_processes = OtherProcesses(self.driver)
        self._devices: tuple[dict[str, Any], ...] | None = None
        self._locked: LockedClocks | None = None
        self._idle: queue.SimpleQueue[Launcher] = queue.SimpleQueue()
        self._launchers: list[Launcher] = []
        self._servers: dict[str, WarmServer] = {}
        self._guard = threading.Lock()

    def devices(self) -> tuple[dict[str, Any], ...]:
        """Return the CPU, then the GPUs with the chosen one first. Raises SettingsError if there are GPUs but not the
        requested one."""
        if self._devices is None:
            self._devices = (describe_cpu(), *self._ordered_gpus())
        return self._devices

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run one job to its end or its limits, as `Executor.run` does."""
        device = self._device_for(job)
        job = {**job, "limits": _known_limits(job["limits"])}
        self.other_processes.remember_initial_state(device, ours_stay=bool(job["warm"]))
        with contextlib.ExitStack() as stack:
            stack.enter_context(translate_disk_errors(self.scratch))
            if job["needs"]["exclusive"]:
                stack.enter_context(device_lock(device["kind"], device["index"], self.lock_wait_s))
                self.other_processes.raise_if_busy(device)
            folder = Path(stack.enter_context(job_folder(self.scratch)))
            try:
                finished = self._run_warm(job, folder, device) if job["warm"] else self._run_once(job, folder, device)
            except HarnessError as error:
                raise self._disk_full_error() or error from error
            failed = finished["exit_code"] != 0 or finished["timed_out"]
            # A full disk makes a compiler fail as a wrong program does.
            full = self._disk_full_error() if failed else None
            if full is not None:
                raise full
            return finished

    def _disk_full_error(self) -> DiskFullError | None:
        return disk_full_error_if_low(self.scratch, Path(tempfile.gettempdir()))

    def _ordered_gpus(self) -> tuple[dict[str, Any], ...]:
        gpus = self.driver.devices()
        if self.gpu is not None and gpus:
            chosen = next((gpu for gpu in gpus if gpu["index"] == self.gpu), None)
            if chosen is None:
                known = ", ".join(str(gpu["index"]) for gpu in gpus)
                raise SettingsError(f"gpu: {self.gpu} is not the index of a GPU here; here are: {known}")
        else:
            chosen = next(
                (gpu for gpu in gpus if not self.other_processes.list_other_processes(gpu)), gpus[0] if gpus else None
            )
        if chosen is None or self.clocks == "observe":
            return tuple(sorted(gpus, key=lambda gpu: gpu is not chosen))
        self._locked = self.driver.lock_clocks(chosen)
        first = {**chosen, "details": {**chosen["details"], "clocks": self._locked.state}}
        return (first, *(gpu for gpu in gpus if gpu is not chosen))

    def _device_for(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the device that `job` runs on; raise InfrastructureError if there is none here."""
        needs = job["needs"]
        device = next((device for device in self.devices() if device["kind"] == needs["device"]), None)
        if device is None:
            why = f" ({self.driver.problem})" if self.driver.problem and needs["device"] == "cuda" else ""
            raise InfrastructureError(
                f"this machine has no {DEVICE_KIND_NAMES[needs['device']]}{why}, and the job needs one"
            )
        if needs["architecture"] and needs["architecture"] != device["architecture"]:
            raise InfrastructureError(
                f"this machine is {device['architecture']}, and the job needs {needs['architecture']}"
            )
        return device

    def close(self) -> None:
        with self._guard:
            servers, self._servers = list(self._servers.values()), {}
            launchers, self._launchers, self._idle = self._launchers, [], queue.SimpleQueue()
        for server in servers:
            server.close()
        for launcher in launchers:
            launcher.close()
        if self._locked is not None:
            self._locked.close()

    def _run_once(self, job: dict[str, Any], folder: Path, device: dict[str, Any]) -> dict[str, Any]:
        write_job_files(job["files"], self.blobs, folder)
        try:
            launcher = self._idle.get_nowait()
        except queue.Empty:
            launcher = Launcher()
            with self._guard:
                self._launchers.append(launcher)
        limits = job["limits"]
        order = {
            "argv": self._argv(job),
            "folder": str(folder),
            "env": self._environment(job, device),
            "wall_s": limits["wall_s"],
            # A harness job limits its children itself. Torch maps more memory than it uses, and CUDA as much as the GPU
            # has.
            "memory_bytes": 0 if _runs_harness(job) or device["kind"] != "cpu" else limits["memory_bytes"],
            "file_bytes": limits["file_bytes"],
        }
        outcome = launcher.run(order, limits["wall_s"])
        self._idle.put(launcher)
        verify_unchanged(_harness_files_of(job), folder)
        return {
            "exit_code": outcome["exit"],
            "timed_out": outcome["timed_out"],
            "files": collect_results(job, self.blobs, folder),
            "usage": {name: outcome[name] for name in ("wall_s", "cpu_s", "peak_memory")},
        }

    def _run_warm(self, job: dict[str, Any], folder: Path, device: dict[str, Any]) -> dict[str, Any]:
        harness_files = _harness_files_of(job)
        write_job_files(
            {path: sha for path, sha in job["files"].items() if path not in harness_files}, self.blobs, folder
        )
        facts = json.dumps([job["argv"], harness_files, device["kind"]], sort_keys=True)
        identity = f"{job['warm']}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"
        start = time.monotonic()
        for attempt in (1, 2):
            server = self._running_server(identity, job, harness_files, device)
            verify_unchanged(harness_files, server.folder)
            # Both attempts share the job's limit.
            remaining_s = job["limits"]["wall_s"] - (time.monotonic() - start if attempt > 1 else 0.0)
            try:
                exit_code, timed_out = server.run_job(folder, job, remaining_s)
            except ServerDied as died:
                self._drop_server(identity, server)
                if attempt == 2:
                    raise HarnessError(
                        f"the harness died twice on one job ({died}); `python -m tools env` shows what this "
                        f"machine lacks"
                    ) from died
                continue
            if timed_out:
                self._drop_server(identity, server)
            else:
                verify_unchanged(harness_files, server.folder)
            (folder / "stdout.txt").touch()
            (folder / "stderr.txt").touch()
            usage = {"wall_s": time.monotonic() - start, "cpu_s": server.cpu_s, "peak_memory": server.peak_memory}
            files = collect_results(job, self.blobs, folder)
            return {"exit_code": exit_code, "timed_out": timed_out, "files": files, "usage": usage}
        raise AssertionError("unreachable")

    def _running_server(
        self, identity: str, job: dict[str, Any], harness_files: dict[str, str], device: dict[str, Any]
    ) -> WarmServer:
        with self._guard:
            server = self._servers.get(identity)
            if server is None or not server.alive:
                home = Path(tempfile.mkdtemp(dir=self.scratch, prefix="warm-"))
                write_job_files(harness_files, self.blobs, home)
                server = self._servers[identity] = WarmServer(self._argv(job), home, self._environment(job, device))
            return server

    def _drop_server(self, identity: str, server: WarmServer) -> None:
        with self._guard:
            if self._servers.get(identity) is server:
                del self._servers[identity]
        server.close()

    def _environment(self, job: dict[str, Any], device: dict[str, Any]) -> dict[str, str]:
        env = {name: os.environ[name] for name in PASSED_ENVIRONMENT_VARIABLES if name in os.environ}
        if self.cache is not None:
            env.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self.cache / "inductor"))
            env.setdefault("ZIG_GLOBAL_CACHE_DIR", str(self.cache / "zig"))
        # A job sees only the GPU that it needs, and a job for the CPU none, so that no job uses a GPU that another one
        # has reserved.
        gpu_variables = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": device["details"].get("uuid", "")}
        # The GPU that compilers generate code for, although they see none.
        gpu_variables["HARNESS_GPU"] = next(
            (gpu["details"]["uuid"] for gpu in self.devices() if gpu["kind"] == "cuda"), ""
        )
        memory_bytes = str(job["limits"]["memory_bytes"])
        return env | gpu_variables | {"HARNESS_MEMORY_BYTES": memory_bytes, "OMP_WAIT_POLICY": "passive"}

    def _argv(self, job: dict[str, Any]) -> list[str]:
        """Return the job's command; "{python}" becomes the interpreter, isolated from the environment and the
        folder."""
        first, *rest = job["argv"]
        return [self.python, "-I", *rest] if first == "{python}" else [first, *rest]


def available_memory() -> int:
    """Return four fifths of the bytes that the operating system offers to a new process."""
    free = telemetry.available_memory()
    try:
        limit = (Path("/sys/fs/cgroup") / "memory.max").read_text().strip()
    except OSError:
        limit = "max"
    return int(0.8 * (min(free, int(limit)) if limit.isdigit() else free))


def _known_limits(limits: dict[str, Any]) -> dict[str, Any]:
    """Return the limits with what 0 stands for: the memory that this host offers, and files as large as that."""
    memory = limits["memory_bytes"] or max(available_memory(), LEAST_JOB_MEMORY_BYTES)
    # The files of buffers have holes, which take addresses alone.
    file_bytes = limits["file_bytes"] or memory + host_buffers.SPAN_BUDGET
    return {**limits, "memory_bytes": memory, "file_bytes": file_bytes}


def _harness_files_of(job: dict[str, Any]) -> dict[str, str]:
    return {path: sha for path, sha in job["files"].items() if path.startswith("harness/")}


def _runs_harness(job: dict[str, Any]) -> bool:
    return any(part.startswith("harness/") for part in job["argv"])
