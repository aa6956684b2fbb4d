"""The seam for executors: a job in, what it left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType

from tools.artifacts import Device, Finished, Job

EXECUTORS = {"local": "tools.executors.local:Local"}
"""Name -> class; a new executor is one file and one line here."""


class Executor(ABC):
    """Runs jobs beside a device. Blobs are read from, and results stored into, the blob store it was given."""

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """The devices here, as the OS or driver reports them."""

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
