"""Compiles kernels to shared objects, with the same compiler and flags for all kernels of a task."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tools.artifacts import Candidate, Record, Task
from tools.errors import HarnessError, InfrastructureError, SettingsError
from tools.executors.base import Executor
from tools.executors.protocol import PROTOCOL
from tools.executors.toolchain_job import read_toolchain
from tools.judge import evidence
from tools.languages.base import Language
from tools.store.blobs import Blobs
from tools.store.records import Records, record_key

MAX_PARALLEL_COMPILERS = min(os.cpu_count() or 1, 8)
"""Number of compilers that run at the same time."""


def compile_kernel(
    task: Task, candidate: Candidate, language: Language, executor: Executor, blobs: Blobs
) -> evidence.Build:
    """Compile `candidate` and return its build; only blobs are stored. HarnessError when the compiler reports success
    but leaves no shared object."""
    toolchain = read_toolchain(executor, blobs)
    job = language.build(task, candidate, blobs, toolchain)
    finished = executor.run(job)
    library = language.build_output_digest(finished)
    if finished.exit_code == 0 and not finished.timed_out and library is None:
        raise HarnessError(
            f"{job.argv[0]} reported success but left no shared object; run `python -m tools env` and try again"
        )
    log = "\n".join(filter(None, (blobs.text(finished.files[name]) for name in ("stderr.txt", "stdout.txt"))))
    if finished.timed_out:
        log += f"\nThe compiler was stopped after {job.limits.wall_s:g} s."
    compiler = language.compiler(toolchain)
    return evidence.Build(
        candidate=candidate.id,
        ok=library is not None,
        library=library,
        compiled=language.compiled_cache_digest(finished),
        log=language.trim_log(log) or log[-2000:].strip(),
        log_blob=blobs.put(log),
        argv=job.argv,
        compiler=f"{compiler.name} {compiler.version}",
        seconds=finished.usage.wall_s,
    )


def compile_baseline(task: Task, language: Language, executor: Executor, blobs: Blobs, *, name: str = "") -> str:
    """Compile the user's own kernel and return the sha256 of its shared object.

    SettingsError with the compiler's log when it does not compile; `name` is the user's name of the file.
    """
    if task.baseline is None:
        raise SettingsError(f"task {task.name}: there is no kernel to compile, only a reference")
    kernel_file = f"kernel{language.suffix}"
    build = compile_kernel(
        task, Candidate(language=task.language, files={kernel_file: task.baseline}), language, executor, blobs
    )
    if build.library is None:
        name = name or kernel_file
        log = build.log.replace(kernel_file, name)
        raise SettingsError(f"{name} does not compile with {build.compiler}; correct it and run again:\n{log}")
    return build.library


class KernelBuilder:
    """Compiles each candidate of one task once, with a compiler and flags that stay the same for the whole run."""

    def __init__(self, task: Task, language: Language, executor: Executor, records: Records, environment: str) -> None:
        self.task = task
        self.language = language
        self.executor = executor
        self.records = records
        self.environment = environment
        self._toolset: evidence.Toolset | None = None

    def with_executor(self, executor: Executor) -> KernelBuilder:
        """A copy that sends its jobs through `executor`, which must reach the same machine."""
        other = copy.copy(self)
        other.executor = executor
        return other

    def toolset(self) -> evidence.Toolset:
        """The compiler and the flags of all builds of this task. The first call of a run asks for them and stores them
        in a record of kind "toolchain"."""
        if self._toolset is None:
            key = record_key("toolchain", task=self.task.identity(), protocol=PROTOCOL)
            record = self.records.once(
                key,
                lambda: Record(
                    kind="toolchain",
                    key=key,
                    environment=self.environment,
                    protocol=PROTOCOL,
                    payload=self._installed_toolset().model_dump(mode="json"),
                ),
            )
            self._toolset = evidence.Toolset.model_validate(record.payload)
        return self._toolset

    def refuse_other_toolset(self) -> None:
        """Raise InfrastructureError if compiler or flags have changed since the first build of the run: kernels that
        were built differently must not be compared."""
        pinned, installed = self.toolset(), self._installed_toolset()
        if pinned != installed:
            raise InfrastructureError(
                f"the kernels of this run were built by {pinned}, but this machine has {installed}; "
                "restore that compiler and its libraries and resume, or start a new run"
            )

    def _installed_toolset(self) -> evidence.Toolset:
        toolchain = read_toolchain(self.executor, self.records.blobs)
        compiler = self.language.compiler(toolchain)
        return evidence.Toolset(
            compiler=f"{compiler.name} {compiler.version}", flags=self.language.flags(self.task, toolchain)
        )

    def read_or_build(self, candidate: Candidate) -> Record:
        """The build record of `candidate`, which is compiled with the task's frozen flags where there is no such
        record. Payload: `evidence.Build`; blobs: library, log."""
        key = self._record_key(candidate)
        return self.records.once(key, lambda: self._compile_to_record(candidate, key))

    def build_in_parallel(self, candidates: Iterable[Candidate]) -> None:
        """Compile at the same time all `candidates` that have no build record; nothing may be timed meanwhile."""
        missing = [
            (candidate, key) for candidate in candidates if not self.records.find(key := self._record_key(candidate))
        ]
        with ThreadPoolExecutor(MAX_PARALLEL_COMPILERS) as compilers:
            for record in compilers.map(lambda pair: self._compile_to_record(*pair), missing):
                self.records.add(record)

    def shared_object_of(self, candidate: Candidate) -> str | None:
        """sha256 of the candidate's shared object, which is built where it is missing; None when the candidate does not
        compile."""
        record = self.read_or_build(candidate)
        if not record.payload["ok"]:
            return None
        sha = str(record.payload["library"])
        if not self.records.blobs.has(sha):
            # Large shared objects stay out of git; a clone builds them again.
            sha = str(self._compile_to_record(candidate, record.key).payload["library"])
        return sha

    def disassembly_of(self, candidate: Candidate) -> str:
        """The disassembly of `candidate`'s shared object; empty where the candidate does not compile or has no
        assembly. SettingsError when the machine lacks the disassembler."""
        library = self.shared_object_of(candidate)
        if library is None:
            return ""
        blobs = self.records.blobs
        toolchain = read_toolchain(self.executor, blobs)
        finished = self.executor.run(self.language.disassembly_job(library, blobs, toolchain, self.task))
        listing = finished.files.get("assembly.txt")
        return blobs.text(listing) if listing else ""

    def shared_objects_for_job(self, contestants: Mapping[str, Candidate]) -> tuple[dict[str, str], dict[str, str]]:
        """Two dicts: contestant -> path of its shared object in a job, and the job's files (path -> sha256), which are
        the shared objects and the compile caches of their builds. SettingsError where a candidate does not compile."""
        paths: dict[str, str] = {}
        files: dict[str, str] = {}
        for contestant, candidate in contestants.items():
            library = self.shared_object_of(candidate)
            if library is None:
                raise SettingsError(
                    f"candidate {candidate.id} does not compile and cannot be measured; see record "
                    f"{self.read_or_build(candidate).id}"
                )
            if library in files.values():
                # The loader gives one handle for one file: an additional byte at the end makes a copy that is loaded
                # separately.
                library = self.records.blobs.put(self.records.blobs.get(library) + b"\n" * len(files))
            paths[contestant] = self.language.build_output.replace("kernel", contestant)
            files[paths[contestant]] = library
            cache = evidence.Build.model_validate(self.read_or_build(candidate).payload).compiled
            if cache is not None and self.records.blobs.has(cache):
                files[f"{contestant}.compiled"] = cache
        return paths, files

    def _record_key(self, candidate: Candidate) -> str:
        return record_key(
            "build",
            task=self.task.identity(),
            candidate=candidate.id,
            toolchain=self.toolset().version,
            flags=self.toolset().flags,
            protocol=PROTOCOL,
            **self._target_architecture(),
        )

    def _target_architecture(self) -> dict[str, str]:
        """Field of the record key with the architecture of the GPU that jobs run on, since a build for another GPU does
        not count; empty for a CPU."""
        architectures = [
            device.architecture for device in self.executor.devices() if device.kind == self.language.device != "cpu"
        ]
        return {"architecture": architectures[0]} if architectures else {}

    def _compile_to_record(self, candidate: Candidate, key: str) -> Record:
        """Compile `candidate` and return the build record for `key`, which is not stored yet."""
        self.refuse_other_toolset()
        build = compile_kernel(self.task, candidate, self.language, self.executor, self.records.blobs)
        blobs = {"log": build.log_blob} | ({"library": build.library} if build.library else {})
        return Record(
            kind="build",
            key=key,
            environment=self.environment,
            protocol=PROTOCOL,
            payload=build.model_dump(mode="json"),
            blobs=blobs,
        )
