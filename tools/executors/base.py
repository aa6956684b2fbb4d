"""The seam for executors: a job in, what it left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType

from tools.artifacts import Device, DeviceKind, Finished, Job
from tools.errors import SettingsError

EXECUTORS = {"local": "tools.executors.local:Local"}
"""Name -> class; a new executor is one file and one line here."""


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

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def pick(devices: Sequence[Device], kind: DeviceKind) -> Device:
    """The device that jobs of `kind` run on: the first one of its kind. SettingsError, in one sentence, when there is none."""
    found = next((device for device in devices if device.kind == kind), None)
    if found is None:
        here = ", ".join(sorted({device.name for device in devices})) or "nothing"
        remedy = "run it on a machine that has one; without, this task can be checked (`check`) but not measured"
        raise SettingsError(f"no {NAMES[kind]} here, only {here}, and the task's language needs one: {remedy}")
    return found
