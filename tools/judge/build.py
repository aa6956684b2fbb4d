"""Building: from a kernel's source to its library or the compiler's complaint, under the same flags for all kernels
of a task."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tools.artifacts import Candidate, Record, Task
from tools.errors import HarnessError, InfrastructureError, SettingsError
from tools.executors.base import Executor
from tools.executors.protocol import PROTOCOL
from tools.judge import evidence
from tools.languages.base import Language
from tools.store.records import Blobs, Records, key

WIDTH = min(os.cpu_count() or 1, 8)
"""Compilers that run side by side."""


def compile_kernel(
    task: Task, candidate: Candidate, language: Language, executor: Executor, blobs: Blobs
) -> evidence.Build:
    """Compile once, keep nothing but blobs. HarnessError when the compiler says it succeeded but left no library."""
    job = language.build(task, candidate, blobs)
    finished = executor.run(job)
    library = language.build_output_digest(finished)
    if finished.exit_code == 0 and not finished.timed_out and library is None:
        raise HarnessError(f"{job.argv[0]} ended well but left no library; run `python -m tools env` and try again")
    log = "\n".join(filter(None, (blobs.text(finished.files[name]) for name in ("stderr.txt", "stdout.txt"))))
    if finished.timed_out:
        log += f"\nThe compiler was stopped after {job.limits.wall_s:g} s."
    toolchain = language.toolchain()
    return evidence.Build(
        candidate=candidate.id,
        ok=library is not None,
        library=library,
        compiled=language.compiled_cache_digest(finished),
        log=language.trim_log(log) or log[-2000:].strip(),
        log_blob=blobs.put(log),
        argv=job.argv,
        compiler=f"{toolchain.name} {toolchain.version}",
        seconds=finished.usage.wall_s,
    )


def compiled(task: Task, language: Language, executor: Executor, blobs: Blobs, *, name: str = "") -> str:
    """sha256 of the user's own kernel, compiled; SettingsError with the compiler's first complaint when it does not
    compile.

    `name`: how the user calls the file.
    """
    if task.baseline is None:
        raise SettingsError(f"task {task.name}: there is no kernel to compile, only a reference")
    built_as = f"kernel{language.suffix}"
    made = compile_kernel(
        task, Candidate(language=task.language, files={built_as: task.baseline}), language, executor, blobs
    )
    if made.library is None:
        name = name or built_as
        raise SettingsError(
            f"{name} does not compile with {made.compiler}; mend it and run again:\n{made.log.replace(built_as, name)}"
        )
    return made.library


class Builds:
    """What the judge measures: each candidate of one task compiled once, under flags that stay the same for the
    whole run."""

    def __init__(self, task: Task, language: Language, executor: Executor, records: Records, environment: str) -> None:
        self.task = task
        self.language = language
        self.executor = executor
        self.records = records
        self.environment = environment
        self._flags: tuple[str, ...] | None = None

    def through(self, executor: Executor) -> Builds:
        """The same, whose jobs go through another executor to the same machine."""
        other = copy.copy(self)
        other.executor = executor
        return other

    def frozen_flags(self) -> tuple[str, ...]:
        """The flags of all builds of this task: the first process to ask pins them, with the compiler, in a record of
        kind "toolchain".

        InfrastructureError where compiler or flags have become others since: kernels built differently must not be
        compared.
        """
        if self._flags is None:
            toolchain = self.language.toolchain()
            here = evidence.Toolset(
                compiler=f"{toolchain.name} {toolchain.version}", flags=self.language.flags(self.task)
            )
            asked = key("toolchain", task=self.task.identity(), protocol=PROTOCOL)
            payload = here.model_dump(mode="json")
            record = self.records.add(
                Record(kind="toolchain", key=asked, environment=self.environment, protocol=PROTOCOL, payload=payload)
            )
            pinned = evidence.Toolset.model_validate(record.payload)
            if pinned != here:
                raise InfrastructureError(
                    f"the kernels measured so far were built by {pinned}, but what is found here is {here}; "
                    "bring that compiler and its libraries back and resume, or start anew"
                )
            self._flags = here.flags
        return self._flags

    def build(self, candidate: Candidate) -> Record:
        """Compile `candidate` with the task's frozen flags. Payload: `evidence.Build`; blobs: library, log."""
        asked = self._asked(candidate)
        found = self.records.find(asked)
        return found or self.records.add(self._built(candidate, asked))

    def build_all(self, candidates: Iterable[Candidate]) -> None:
        """The same for several, compiled side by side; nothing is timed meanwhile."""
        new = [(one, asked) for one in candidates if self.records.find(asked := self._asked(one)) is None]
        with ThreadPoolExecutor(WIDTH) as side_by_side:
            for record in side_by_side.map(lambda one: self._built(*one), new):
                self.records.add(record)

    def library(self, candidate: Candidate) -> str | None:
        """sha256 of the candidate's library (built when it must be), or None when it does not compile."""
        record = self.build(candidate)
        if not record.payload["ok"]:
            return None
        sha = str(record.payload["library"])
        if not self.records.blobs.has(sha):
            # Large libraries stay out of git; a clone makes them again.
            sha = str(self._built(candidate, record.key).payload["library"])
        return sha

    def assembly(self, candidate: Candidate) -> str:
        """The disassembly of `candidate`'s library; empty where it has none. SettingsError when the machine lacks
        the program."""
        library = self.library(candidate)
        if library is None:
            return ""
        finished = self.executor.run(self.language.disassembly_job(library, self.records.blobs, self.task))
        listing = finished.files.get("assembly.txt")
        return self.records.blobs.text(listing) if listing else ""

    def libraries(self, contestants: Mapping[str, Candidate]) -> tuple[dict[str, str], dict[str, str]]:
        """Contestant -> path of its library in a job, and the job's files: path -> sha256 of the libraries, with
        what their builds left."""
        paths: dict[str, str] = {}
        files: dict[str, str] = {}
        for contestant, candidate in contestants.items():
            library = self.library(candidate)
            if library is None:
                raise SettingsError(
                    f"candidate {candidate.id} does not compile and cannot be measured; see record "
                    f"{self.build(candidate).id}"
                )
            if library in files.values():
                # The loader gives one handle for one file: a byte behind the end makes a copy that is loaded for
                # itself.
                library = self.records.blobs.put(self.records.blobs.get(library) + b"\n" * len(files))
            paths[contestant] = self.language.build_output.replace("kernel", contestant)
            files[paths[contestant]] = library
            left = evidence.Build.model_validate(self.build(candidate).payload).compiled
            if left is not None and self.records.blobs.has(left):
                files[f"{contestant}.compiled"] = left
        return paths, files

    def _asked(self, candidate: Candidate) -> str:
        return key(
            "build",
            task=self.task.identity(),
            candidate=candidate.id,
            toolchain=self.language.toolchain().version,
            flags=self.frozen_flags(),
            protocol=PROTOCOL,
            **self._made_for(),
        )

    def _made_for(self) -> dict[str, str]:
        """The architecture of the GPU that jobs run on: what was built for another is no answer. A CPU's code names
        none."""
        found = [
            device.architecture for device in self.executor.devices() if device.kind == self.language.device != "cpu"
        ]
        return {"architecture": found[0]} if found else {}

    def _built(self, candidate: Candidate, asked: str) -> Record:
        made = compile_kernel(self.task, candidate, self.language, self.executor, self.records.blobs)
        blobs = {"log": made.log_blob} | ({"library": made.library} if made.library else {})
        return Record(
            kind="build",
            key=asked,
            environment=self.environment,
            protocol=PROTOCOL,
            payload=made.model_dump(mode="json"),
            blobs=blobs,
        )
