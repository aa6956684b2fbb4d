"""One task opened on this machine, for whoever asks single questions about its kernel: what is asked for is made
once, when it is."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.analysis import diagnosis
from tools.analysis.diagnosis import Diagnosis, TaskRoofline
from tools.artifacts import Candidate, Profile, Record
from tools.errors import SettingsError
from tools.executors.base import EXECUTORS, Device, Executor, pick_device
from tools.gate.judge_settings import JudgeSettings
from tools.judge import evidence
from tools.judge.build import KernelBuilder
from tools.judge.judge import Emit, Judge
from tools.languages.base import open_language
from tools.profilers.base import DEFAULT_PROFILERS, PROFILERS, Profiler
from tools.registry import load
from tools.roofline import microbenchmarks
from tools.store.records import Records, record_key
from tools.tasks.loader import Loaded, read_source


@contextmanager
def machine(store: Path | None, clocks: str = "observe") -> Iterator[tuple[Executor, Records]]:
    """This machine, with records kept in `store`, else gone afterwards; `clocks`: "lock" holds those of its GPU
    meanwhile."""
    with TemporaryDirectory(prefix="kernelwright-") as folder:
        records = Records(store or Path(folder))
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        kind = load(EXECUTORS, "local", Executor, key="executor")
        with kind(records.blobs, scratch, clocks=clocks) as executor:
            yield executor, records


class Opened:
    """A task with its language, on the machine of `executor`. Each raises SettingsError for what a user can mend."""

    def __init__(self, loaded: Loaded, executor: Executor, records: Records, emit: Emit) -> None:
        self.loaded, self.executor, self.records, self.emit = loaded, executor, records, emit
        self.task = loaded.task
        self.language = open_language(loaded.task.language)

    @cached_property
    def kernel(self) -> Candidate:
        """The user's own."""
        if self.task.baseline is None:
            raise SettingsError(
                f"{self.task.name}: there is no kernel to look at; add kernel{self.language.suffix} beside "
                f"reference.py, or have one "
                "written: `python -m graph run` with that folder as its task"
            )
        return Candidate(language=self.language.name, files={f"kernel{self.language.suffix}": self.task.baseline})

    def file(self, path: Path) -> Candidate:
        """Another kernel of the task."""
        return Candidate(language=self.language.name, files={f"kernel{self.language.suffix}": read_source(path)})

    @cached_property
    def device(self) -> Device:
        """Where the kernel runs."""
        return pick_device(self.executor.devices(), self.language.device)

    @cached_property
    def judge(self) -> Judge:
        """Measures on the device."""
        device, secret = self.device.label, secrets.token_bytes(32)
        parts = (self.task, self.language, self.executor, self.records)
        return Judge(*parts, environment="", device=device, secret=secret, policy=JudgeSettings(), emit=self.emit)

    def library(self, kernel: Candidate | None = None) -> str:
        """sha256 of a kernel's library, by default the user's own; that needs no device."""
        builds, kernel = KernelBuilder(self.task, self.language, self.executor, self.records, ""), kernel or self.kernel
        library = builds.shared_object_of(kernel)
        if library is None:
            raise SettingsError(f"the kernel does not compile; mend it:\n{builds.read_or_build(kernel).payload['log']}")
        return library

    @cached_property
    def timed(self) -> Record:
        """The kernel's own times (A/A)."""
        self.library()
        calibration = self.judge.read_or_measure_calibration(self.kernel)
        failed = evidence.timing_failure(calibration)
        if failed is not None:
            raise SettingsError(f"{self.task.name}: {failed.reason.rstrip('.')}; mend the kernel or the reference")
        return calibration

    def placed(self) -> TaskRoofline:
        """The task's workloads under the roofs measured here; timed where there is a kernel."""
        times: Mapping[str, float] = evidence.incumbent_seconds(self.timed) if self.task.baseline is not None else {}
        found = microbenchmarks.read_or_measure_roofs(self.language, self.executor, self.records)
        return diagnosis.compute_task_roofline(self.task, self.loaded.workloads, times, found, self.device)

    def profile(self, name: str = "", setting: str = "profilers") -> tuple[Profile, dict[str, str]] | str:
        """What a profiler (by default the first for this device) sees of the kernel, with its raw outputs; or why it
        sees nothing."""
        profiler = load(PROFILERS, name or DEFAULT_PROFILERS[self.language.device][0], Profiler, key=setting)()
        if lacking := profiler.reason_unavailable(self.language):
            return lacking
        library, first = self.library(), self.task.workloads[0]
        return profiler.profile(
            self.task, self.kernel, library, first, self.language, self.executor, self.records.blobs
        )

    def diagnosed(self) -> Diagnosis:
        """Why the kernel is slow: times, roofline, and all profilers of its device."""
        placed = self.placed()
        profiles: list[tuple[Profile, str]] = []
        missing: dict[str, str] = {}
        for name in DEFAULT_PROFILERS[self.language.device]:
            seen = self.profile(name)
            if isinstance(seen, str):
                missing[name] = seen
            else:
                profiles.append((seen[0], self._kept(*seen)))
        return diagnosis.diagnose(placed, profiles, missing, self.device)

    def _kept(self, seen: Profile, blobs: dict[str, str]) -> str:
        """The id of a profile's record."""
        asked = record_key("profile", tool=seen.tool, candidate=self.kernel.id)
        record = self.records.find(asked) or Record(
            kind="profile", key=asked, payload=seen.model_dump(mode="json"), blobs=blobs
        )
        return self.records.add(record).id

    def listed(self) -> tuple[str, str]:
        """The kernel's machine code, and the architecture that it is for."""
        listed = self.executor.run(self.language.disassemble(self.library(), self.records.blobs, self.task)).files
        # A kernel compiled without a GPU is machine code of the target that its listing names.
        facts = json.loads(self.records.blobs.text(listed["facts.json"])) if "facts.json" in listed else {}
        return self.records.blobs.text(listed["assembly.txt"]), str(facts.get("target", "") or self.device.architecture)
