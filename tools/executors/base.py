"""The seam for executors: a job in, what it left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tools.artifacts import Device, DeviceKind, Finished, Job
from tools.errors import SettingsError

EXECUTORS = {"local": "tools.executors.local:Local"}
"""Name -> class; a new executor is one file and one line here."""


ELSEWHERE = "the task's language needs one, so run it on a machine that has one; without, it can be checked but not measured"
"""What is to be done about a device that is lacking."""
NAMES: dict[DeviceKind, str] = {"cpu": "CPU", "cuda": "CUDA device", "hip": "HIP device"}


class Executor(ABC):
    """Runs jobs beside a device. Blobs are read from, and results stored into, the blob store it was given."""

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """The devices here, as the OS or driver reports them; of each kind the one that jobs run on comes first."""

    @abstractmethod
    def run(self, job: Job) -> Finished:
        """Run one job to its end or its limits.

        Raises InfrastructureError when the machine, not the job, failed; DeviceBusyError when the device is taken.
        """

    @abstractmethod
    def close(self) -> None:
        """End warm processes and give back locks. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def pick(devices: Sequence[Device], kind: DeviceKind) -> Device:
    """The device that jobs of `kind` run on: the first one of its kind. SettingsError, in one sentence, when there is none."""
    absent = lacking(devices, kind)
    if absent is not None:
        raise SettingsError(f"{absent}: {ELSEWHERE}")
    return next(device for device in devices if device.kind == kind)


def lacking(devices: Sequence[Device], kind: DeviceKind) -> str | None:
    """None where there is a device of `kind`, else the words that say so, to stand before `ELSEWHERE`."""
    if any(device.kind == kind for device in devices):
        return None
    here = ", ".join(sorted({device.name for device in devices})) or "nothing"
    return f"no {NAMES[kind]} here, only {here}"
