"""The seam for executors: devices, a job in, what it left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from tools.artifacts import Artifact
from tools.errors import SettingsError

EXECUTORS = {"local": "tools.executors.local:LocalExecutor"}
"""Name -> class; a new executor is one file and one line here."""

DeviceKind = Literal["cpu", "cuda", "hip"]
MISSING_DEVICE_REMEDY = (
    "the task's language needs one, so run it on a machine that has one; without, it can be checked but not measured"
)
"""What a user can do about a missing device; follows the sentence of `reason_if_device_missing`."""
DEVICE_KIND_NAMES: dict[DeviceKind, str] = {"cpu": "CPU", "cuda": "CUDA device", "hip": "HIP device"}


class Device(Artifact):
    """A place where jobs run, as the OS or driver reports it. Mechanics only: never a target (law 2)."""

    kind: DeviceKind
    name: str
    """As reported, e.g. "AMD EPYC" or "NVIDIA H200"."""
    index: int = 0
    units: int = 1
    """Logical cores, SMs or CUs, as reported."""
    last_level_cache: int = 0
    """Bytes, as reported; 0 when unknown."""
    architecture: str = ""
    """x86_64, aarch64, sm_90, gfx942 …"""
    details: dict[str, str] = Field(default_factory=dict)
    """Driver, governor, isolation features, and whatever else a reader of a measurement wants to know."""

    @property
    def has_locked_clocks(self) -> bool:
        """Whether the device's clocks are locked; its times then count as those of another device."""
        return self.details.get("clocks", "").startswith("locked")

    @property
    def label(self) -> str:
        """The device's name in records and their keys."""
        return f"{self.kind}:{self.index} {self.name}{', clocks locked' if self.has_locked_clocks else ''}"


class Limits(Artifact):
    """What a job may use before it is killed."""

    wall_s: float = 60.0
    memory_bytes: int = 8 << 30
    file_bytes: int = 4 << 30


class Needs(Artifact):
    """What a job wants of the place where it runs."""

    device: DeviceKind = "cpu"
    architecture: str = ""
    exclusive: bool = False
    """True for anything that is timed: the executor holds the device's lock meanwhile."""


class Job(Artifact):
    """A self-contained piece of work beside a device: no absolute paths, files by content."""

    files: dict[str, str]
    """Relative path -> sha256 of a blob."""
    argv: tuple[str, ...]
    """Program and arguments, run in the job's folder. "{python}" is the executor's interpreter for the harness."""
    limits: Limits = Limits()
    needs: Needs = Needs()
    results: tuple[str, ...] = ()
    """Globs (relative) of the files to bring back."""
    warm: str | None = None
    """Executors that can may keep one server process per warm key between jobs (`<argv> --serve`); others ignore it."""


class JobUsage(Artifact):
    """What a job cost."""

    wall_s: float
    cpu_s: float = 0.0
    peak_memory: int = 0


class FinishedJob(Artifact):
    """A job that ended, well or badly. A machine failure is an exception instead."""

    exit_code: int
    """Exit status; negative: the signal that ended it."""
    timed_out: bool = False
    files: dict[str, str]
    """Relative path -> sha256; always holds stdout.txt and stderr.txt."""
    usage: JobUsage


class ExecutorOptions(BaseModel):
    """Base of an executor's own options; each field is a keyword of its constructor."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Executor(ABC):
    """Runs jobs beside a device. Blobs are read from, and results stored into, the blob store it was given."""

    options: ClassVar[type[ExecutorOptions]] = ExecutorOptions
    """What a config may say beside `executor.kind`."""

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """The devices here, as the OS or driver reports them; of each kind the one that jobs run on comes first."""

    @abstractmethod
    def run(self, job: Job) -> FinishedJob:
        """Run one job to its end or its limits.

        Raises InfrastructureError when the machine, not the job, failed; DeviceBusyError when the device is taken.
        """

    @abstractmethod
    def close(self) -> None:
        """End warm processes and give back locks. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pick_device(devices: Sequence[Device], kind: DeviceKind) -> Device:
    """The device that jobs of `kind` run on: the first one of its kind. SettingsError, in one sentence, when there
    is none."""
    missing = reason_if_device_missing(devices, kind)
    if missing is not None:
        raise SettingsError(f"{missing}: {MISSING_DEVICE_REMEDY}")
    return next(device for device in devices if device.kind == kind)


def reason_if_device_missing(devices: Sequence[Device], kind: DeviceKind) -> str | None:
    """None where there is a device of `kind`, else the words that say so, to stand before `MISSING_DEVICE_REMEDY`."""
    if any(device.kind == kind for device in devices):
        return None
    names_here = ", ".join(sorted({device.name for device in devices})) or "nothing"
    return f"no {DEVICE_KIND_NAMES[kind]} here, only {names_here}"
