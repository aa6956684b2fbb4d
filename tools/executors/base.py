"""Defines the interface of executors: their devices, jobs, and finished jobs."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from tools.artifacts import Artifact
from tools.errors import SettingsError
from tools.executors.host import engine
from tools.executors.toolchain import Toolchain

EXECUTORS = {
    "local": "tools.executors.local:LocalExecutor",
    "ssh": "tools.executors.ssh:SshExecutor",
    "bundle": "tools.executors.bundle:BundleExecutor",
}
"""Name -> class. A new executor is one file and one line here."""

DeviceKind = Literal["cpu", "cuda", "hip"]
MISSING_DEVICE_REMEDY = (
    "the task's language needs one, so run it on a machine that has one, also through ssh (docs/gpu-host.md); without, "
    "it can be checked but not measured"
)
"""What a user can do about a missing device; the end of the sentence that `reason_if_device_missing` begins."""


class Device(Artifact):
    """A device that runs jobs, as the operating system or the driver reports it. Mechanics only, never a target."""

    kind: DeviceKind
    name: str
    """Name as reported, e.g. "AMD EPYC" or "NVIDIA H200"."""
    index: int = 0
    units: int = 1
    """Logical cores, SMs or CUs, as reported."""
    last_level_cache: int = 0
    """Bytes of the last-level cache, as reported; 0 if unknown."""
    architecture: str = ""
    """Instruction set or compute capability: x86_64, aarch64, sm_90, gfx942 …"""
    details: dict[str, str] = Field(default_factory=dict)
    """Driver, governor, isolation features, and other facts that matter to a reader of a measurement."""

    @property
    def has_locked_clocks(self) -> bool:
        """Whether the device's clocks are locked; its times then count as those of another device."""
        return self.details.get("clocks", "").startswith("locked")

    @property
    def label(self) -> str:
        """The device's name in records and their keys."""
        return f"{self.kind}:{self.index} {self.name}{', clocks locked' if self.has_locked_clocks else ''}"


class Limits(Artifact):
    """Limits above which a job is killed."""

    wall_s: float = 60.0
    memory_bytes: int = engine.LEAST_JOB_MEMORY_BYTES
    """0: four fifths of the memory that is free where the job runs."""
    file_bytes: int = 4 << 30
    """0: as much as the memory and the addresses between buffers."""


class Needs(Artifact):
    """Device and exclusivity that a job needs."""

    device: DeviceKind = "cpu"
    architecture: str = ""
    exclusive: bool = False
    """True for every job that is timed: the executor holds the device's lock while it runs."""


class Job(Artifact):
    """A self-contained piece of work on a device: it has no absolute paths, and its files are named by content."""

    files: dict[str, str]
    """Relative path -> sha256 of a blob."""
    argv: tuple[str, ...]
    """Program and arguments, run in the job's folder. "{python}" stands for the executor's interpreter for the
    harness."""
    limits: Limits = Limits()
    needs: Needs = Needs()
    results: tuple[str, ...] = ()
    """Globs (relative) of the files to bring back."""
    repeat: int = 0
    """Number of the measurement among those that the same job makes, where one answer must not stand for another."""
    warm: str | None = None
    """Key of a server process that an executor may keep between jobs (`<argv> --serve`), one per key; other executors
    ignore it."""


class JobUsage(Artifact):
    """Time and memory that a job used."""

    wall_s: float
    cpu_s: float = 0.0
    peak_memory: int = 0


class FinishedJob(Artifact):
    """A job that ended, successfully or not. A failure of the machine is an exception instead."""

    exit_code: int
    """Exit status; negative for the signal that ended the job."""
    timed_out: bool = False
    files: dict[str, str]
    """Relative path -> sha256; always contains stdout.txt and stderr.txt."""
    usage: JobUsage


class ExecutorOptions(BaseModel):
    """Base of an executor's own options; each field is a keyword of its constructor."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Executor(ABC):
    """Runs jobs beside a device. It reads blobs from its blob store and writes results there."""

    options: ClassVar[type[ExecutorOptions]] = ExecutorOptions
    """Options that a config may give beside `executor.kind`."""
    answers_at_once: bool = True
    """Whether `run` waits for the job, so that processes can be kept for later jobs."""
    is_elsewhere: bool = False
    """Whether jobs run on another host, of which a run then shows the checks (`tools.executors.preflight`)."""

    _toolchain: Toolchain | None = None

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """Return the devices here as the operating system or driver reports them; the device that jobs run on is the
        first of its kind."""

    @abstractmethod
    def run(self, job: Job) -> FinishedJob:
        """Run one job to its end or its limits.

        Raises InfrastructureError if the machine, and not the job, failed, and DeviceBusyError if the device is in use.
        """

    def gather(self, requests: Iterable[Callable[[], object]]) -> None:
        """Learn of jobs that do not depend on each other's results before they are run one after another.

        Each of `requests` runs the jobs of one measurement. An executor that runs a job at once ignores them.
        """
        del requests

    def available_memory(self) -> int:
        """Return four fifths of the bytes that the operating system offers to a new process where jobs run."""
        return engine.available_memory()

    def toolchain(self, ask: Callable[[Executor], Toolchain]) -> Toolchain:
        """Return what is installed beside the device; `ask` finds it out by a job, once for this executor."""
        if self._toolchain is None:
            self._toolchain = ask(self)
        return self._toolchain

    def draw_secret(self) -> bytes:
        """Return a fresh secret for measurements of this command alone.

        Raises SettingsError if the command may end before they are answered: each new call would ask for others.
        """
        return secrets.token_bytes(32)

    @abstractmethod
    def close(self) -> None:
        """End warm processes and release locks. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pick_device(devices: Sequence[Device], kind: DeviceKind) -> Device:
    """Return the device that jobs of `kind` run on: the first one of its kind. Raises SettingsError, with one sentence,
    if there is none."""
    missing = reason_if_device_missing(devices, kind)
    if missing is not None:
        raise SettingsError(f"{missing}: {MISSING_DEVICE_REMEDY}")
    return next(device for device in devices if device.kind == kind)


def reason_if_device_missing(devices: Sequence[Device], kind: DeviceKind) -> str | None:
    """Return None if there is a device of `kind`, or else a clause that `MISSING_DEVICE_REMEDY` continues."""
    if any(device.kind == kind for device in devices):
        return None
    names_here = ", ".join(sorted({device.name for device in devices})) or "nothing"
    return f"no {engine.DEVICE_KIND_NAMES[kind]} here, only {names_here}"
