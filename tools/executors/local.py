"""Runs jobs on this machine, under this interpreter or one that the config names."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from tools.errors import SettingsError
from tools.executors.base import Device, Executor, ExecutorOptions, FinishedJob, Job
from tools.executors.host.engine import LOCK_WAIT_S, Engine
from tools.executors.host.interpreter import problem_of_python
from tools.store.blobs import Blobs


class LocalOptions(ExecutorOptions):
    """Options of `local`."""

    python: str = ""
    """The Python with torch that runs jobs, e.g. ~/venv/bin/python; default: the one that runs Kernelwright."""
    lock_wait_s: float = Field(default=LOCK_WAIT_S, gt=0, allow_inf_nan=False)
    """Seconds that a job waits for a device that another process of Kernelwright holds."""


class LocalExecutor(Executor):
    """Runs jobs on this machine. Safe to use from several threads."""

    options = LocalOptions

    def __init__(
        self,
        blobs: Blobs,
        scratch: Path,
        *,
        python: str = "",
        **options: Any,
    ) -> None:
        """Create an executor with the `options` of `Engine`; raise SettingsError if `python` is no Python here."""
        found = shutil.which(Path(python).expanduser()) if python else sys.executable
        if found is None:
            raise SettingsError(f"executor.python: {python!r} is not a program here; name the Python that has torch")
        if python and (problem := problem_of_python(found, needs_torch=False)):
            raise SettingsError(f"executor.python: {python} {problem}; name the Python that has torch")
        self.blobs = blobs
        self.scratch = scratch
        # A link is kept as it is: a virtual environment is known by the folder of its link.
        self.engine = Engine(blobs, scratch, python=str(Path(found).absolute()), **options)

    def devices(self) -> tuple[Device, ...]:
        """Return the CPU, then the GPUs with the chosen one first. Raises SettingsError if there are GPUs but not the
        requested one."""
        return tuple(Device.model_validate(device) for device in self.engine.devices())

    def run(self, job: Job) -> FinishedJob:
        return FinishedJob.model_validate(self.engine.run(job.model_dump()))

    def close(self) -> None:
        self.engine.close()
