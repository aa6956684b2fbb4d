"""Access to one task on this machine, for commands that examine its kernel; each result is computed on first use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.analysis import diagnosis, traffic
from tools.analysis.diagnosis import Diagnosis, TaskRoofline
from tools.artifacts import Candidate, Profile, Record
from tools.errors import SettingsError
from tools.executors.base import Device, Executor, pick_device
from tools.executors.choice import ExecutorChoice, open_executor
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.gate.judge_settings import JudgeSettings
from tools.judge import evidence
from tools.judge.build import KernelBuilder
from tools.judge.judge import Emit, Judge
from tools.languages.base import open_language
from tools.profilers.base import DEFAULT_PROFILERS, PROFILERS, Profiler
from tools.registry import load_class
from tools.roofline import microbenchmarks
from tools.store.records import Records, record_key
from tools.tasks.loader import LoadedTask, read_source


@contextmanager
def open_machine(
    store: Path | None, clocks: str = "observe", choice: ExecutorChoice | None = None
) -> Iterator[tuple[Executor, Records]]:
    """Open the executor of `choice` (None: the local one) with records in `store`, or in a temporary folder.

    `clocks`: "observe" the clocks of the GPU, or "lock" them while the executor is open.
    """
    with TemporaryDirectory(prefix="kernelwright-") as folder:
        records = Records(store or Path(folder))
        opened = open_executor(choice or ExecutorChoice(), records.blobs, Path(folder) / "scratch", clocks=clocks)
        with opened as executor:
            yield executor, records


class TaskHandle:
    """A task with its language on the machine of `executor`; methods raise SettingsError for mistakes of the user."""

    def __init__(self, loaded: LoadedTask, executor: Executor, records: Records, emit: Emit) -> None:
        self.loaded, self.executor, self.records, self.emit = loaded, executor, records, emit
        self.task = loaded.task
        self.language = open_language(loaded.task.language)

    @cached_property
    def kernel(self) -> Candidate:
        """The user's kernel; SettingsError if the task has none."""
        if self.task.baseline is None:
            raise SettingsError(
                f"{self.task.name}: the task has no kernel; add kernel{self.language.suffix} beside reference.py, or "
                "have one written: `python -m graph run` with that folder as its task"
            )
        return Candidate(language=self.language.name, files={f"kernel{self.language.suffix}": self.task.baseline})

    def read_candidate(self, path: Path) -> Candidate:
        """Return the kernel in another file as a candidate of the task."""
        return Candidate(language=self.language.name, files={f"kernel{self.language.suffix}": read_source(path)})

    @cached_property
    def device(self) -> Device:
        """The device on which the kernel runs."""
        return pick_device(self.executor.devices(), self.language.device)

    @property
    def toolchain(self) -> Toolchain:
        """What is installed beside the device."""
        return read_toolchain(self.executor, self.records.blobs)

    @cached_property
    def judge(self) -> Judge:
        """The judge of the task on the device, with default settings and a random secret."""
        secret, device = self.executor.draw_secret(), self.device.label
        parts = (self.task, self.language, self.executor, self.records)
        return Judge(*parts, environment="", device=device, secret=secret, policy=JudgeSettings(), emit=self.emit)

    def build(self, kernel: Candidate | None = None) -> str:
        """Build a kernel (default: the user's) without a device and return the sha256 of its shared object."""
        builds, kernel = KernelBuilder(self.task, self.language, self.executor, self.records, ""), kernel or self.kernel
        library = builds.shared_object_of(kernel)
        if library is None:
            raise SettingsError(
                f"the kernel does not compile; correct it:\n{builds.read_or_build(kernel).payload['log']}"
            )
        return library

    @cached_property
    def calibration(self) -> Record:
        """The times of the kernel against a copy of itself (A/A)."""
        self.build()
        calibration = self.judge.read_or_measure_calibration(self.kernel)
        failure = evidence.timing_failure(calibration)
        if failure is not None:
            raise SettingsError(f"{self.task.name}: {failure.reason.rstrip('.')}; correct the kernel or the reference")
        return calibration

    def compute_roofline(self) -> TaskRoofline:
        """Return the task's workloads under the measured roofs of this machine, with times if the task has a kernel."""
        times: Mapping[str, float] = (
            evidence.incumbent_seconds(self.calibration) if self.task.baseline is not None else {}
        )
        roofs = microbenchmarks.read_or_measure_roofs(self.language, self.executor, self.records)
        return diagnosis.compute_task_roofline(self.task, self.loaded.workloads, times, roofs, self.device)

    def profile(
        self, name: str = "", setting: str = "profilers", workload: str = ""
    ) -> tuple[Profile, dict[str, str]] | str:
        """Profile the kernel and return the profile with the blobs of its raw outputs, or why it cannot be profiled.

        The default profiler is the first for the kernel's device, the default workload the one with most weight; an
        error names `setting`.
        """
        profiler = load_class(PROFILERS, name or DEFAULT_PROFILERS[self.language.device][0], Profiler, key=setting)()
        if reason := profiler.reason_unavailable(self.language, self.toolchain):
            return reason
        wanted = workload or diagnosis.profiled_workloads(self.loaded.workloads, {})[0]
        timed = next(w for w in self.task.workloads if w.name == wanted)
        there = (self.task, self.kernel, self.build(), timed, self.language, self.executor, self.records.blobs)
        profile, raw = profiler.profile(*there)
        return traffic.add_traffic(profile, next(seen for seen in self.loaded.workloads if seen.name == wanted)), raw

    def diagnose(self) -> Diagnosis:
        """Return why the kernel is slow, from its times, its roofline and all profilers of its device."""
        roofline = self.compute_roofline()
        profiles: list[tuple[Profile, str]] = []
        missing: dict[str, str] = {}
        workloads = diagnosis.profiled_workloads(
            self.loaded.workloads, {row.workload: row.headroom for row in roofline.workloads}
        )
        for name in DEFAULT_PROFILERS[self.language.device]:
            for workload in workloads:
                profiled = self.profile(name, workload=workload)
                if isinstance(profiled, str):
                    missing[name] = profiled
                    break
                profiles.append((profiled[0], self._store_profile(*profiled)))
                if not profiled[0].workload:
                    break  # It holds for all workloads.
        return diagnosis.diagnose(roofline, profiles, missing, self.device, workloads[0])

    def _store_profile(self, profile: Profile, blobs: dict[str, str]) -> str:
        """Store a profile's record and return its id."""
        place = {"workload": profile.workload} if profile.workload else {}
        key = record_key("profile", tool=profile.tool, candidate=self.kernel.id, **place)
        record = self.records.find(key) or Record(
            kind="profile", key=key, payload=profile.model_dump(mode="json"), blobs=blobs
        )
        return self.records.add(record).id

    def disassemble(self) -> tuple[str, str]:
        """Return the kernel's machine code as text, and the architecture for which it was compiled."""
        blobs = self.records.blobs
        job = self.language.disassembly_job(self.build(), blobs, self.toolchain, self.task)
        files = self.executor.run(job).files
        # Without a GPU, the kernel was compiled for the target that the listing names.
        facts = json.loads(blobs.text(files["facts.json"])) if "facts.json" in files else {}
        return blobs.text(files["assembly.txt"]), str(facts.get("target", "") or self.device.architecture)
