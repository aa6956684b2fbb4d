"""The seam for profilers: what a tool says about one kernel, in the tool's own words."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tools.artifacts import Candidate, Profile, Task, Workload
from tools.executors.base import DeviceKind, Executor
from tools.languages.base import Language
from tools.store.records import Blobs

PROFILERS = {
    "static": "tools.profilers.static:StaticProfiler",
    "ncu": "tools.profilers.ncu:NcuProfiler",
}
"""Name -> class; a new profiler is one file and one line here."""
DEFAULT_PROFILERS: dict[DeviceKind, tuple[str, ...]] = {"cpu": ("static",), "cuda": ("static", "ncu"), "hip": ()}
"""Device -> the profilers that look at its kernels where the settings name none."""


class Profiler(ABC):
    """One profiling tool."""

    name: str
    on_device: bool = False
    """It watches the kernel run on the language's device, and has nothing to say where that is missing."""

    @abstractmethod
    def missing(self, language: Language) -> str | None:
        """None when it can profile kernels of `language` here, else one sentence that says what to install."""

    @abstractmethod
    def profile(
        self,
        task: Task,
        candidate: Candidate,
        library: str,
        workload: Workload,
        language: Language,
        executor: Executor,
        blobs: Blobs,
    ) -> tuple[Profile, dict[str, str]]:
        """Profile one kernel (`library` is its blob) and return what was seen, with the raw outputs as blobs by name.

        Raises InfrastructureError when the tool itself failed.
        """
