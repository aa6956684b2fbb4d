"""The interface of profilers: each reports metrics and remarks of one kernel under the tool's own names."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tools.artifacts import Candidate, Profile, Task, Workload
from tools.executors.base import DeviceKind, Executor
from tools.executors.toolchain import Toolchain
from tools.languages.base import Language
from tools.store.blobs import Blobs

PROFILERS = {
    "static": "tools.profilers.static:StaticProfiler",
    "ncu": "tools.profilers.ncu:NcuProfiler",
}
"""Import path of each profiler by name; a new profiler is one file and one line here."""
DEFAULT_PROFILERS: dict[DeviceKind, tuple[str, ...]] = {"cpu": ("static",), "cuda": ("static", "ncu"), "hip": ()}
"""Profilers by kind of device, for runs whose settings name none."""


class Profiler(ABC):
    """One profiling tool."""

    name: str
    runs_on_device: bool = False
    """Whether the profiler needs to run the kernel on the language's device."""

    @abstractmethod
    def reason_unavailable(self, language: Language, toolchain: Toolchain) -> str | None:
        """One sentence on why this profiler cannot profile kernels of `language` with `toolchain`, and what to install;
        None: it can."""

    @abstractmethod
    def profile(
        self,
        task: Task,
        candidate: Candidate,
        shared_object: str,
        workload: Workload,
        language: Language,
        executor: Executor,
        blobs: Blobs,
    ) -> tuple[Profile, dict[str, str]]:
        """Profile one kernel and return its profile, with the blobs of the tool's raw outputs by file name.

        `shared_object` is the blob of the built kernel. Raises InfrastructureError when the tool itself failed.
        """
