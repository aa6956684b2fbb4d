"""The seam for kernel languages: how a source is parsed, built and explained."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from tools.artifacts import Artifact, Candidate, DType, Task
from tools.executors.base import DeviceKind, Executor, FinishedJob, Job
from tools.executors.protocol import Parameter
from tools.languages.triton_interpreter import Interpreted
from tools.registry import load
from tools.store.records import Blobs

LANGUAGES = {
    "cpp": "tools.languages.cpp:Cpp",
    "triton": "tools.languages.triton:Triton",
    "cuda": "tools.languages.cuda:Cuda",
    "cutlass": "tools.languages.cutlass:Cutlass",
    "cutedsl": "tools.languages.cutedsl:CuteDsl",
}
"""Name -> class; a new language is one file and one line here."""


MOST_PINNED = 8
"""Variants that are compared: each is a process with buffers of its own on the device."""
UNTUNED = "and was not tuned by measurement"
"""In the sentence about a kernel whose autotuning was pinned without a comparison."""


class Toolchain(Artifact):
    """The compiler that builds a language on this machine."""

    name: str
    version: str
    family: str
    """gcc | clang | nvcc | triton …: decides the dialect of flags and remarks."""
    argv: tuple[str, ...]
    """How it is called."""

    def __str__(self) -> str:
        """Name and version, once: some compilers begin their version with their name."""
        return self.version if self.version.startswith(self.name) else f"{self.name} {self.version}"


class PinnedKernel(Artifact):
    """A user's kernel with its autotuning pinned one way."""

    label: str
    """How it is pinned, as written in the source."""
    source: str
    ends: str = ""
    """In the log of its build where there is no such kernel, nor any behind it; empty: it is there."""


class Language(ABC):
    """One kernel language."""

    name: str
    suffix: str
    """Of the entry file, e.g. ".cpp"."""
    marks: re.Pattern[str] | None = None
    """What tells its files from those of other languages with this suffix, as they are given without a task.yaml."""
    library: str = "kernel.so"
    """What a build leaves to be run."""
    device: DeviceKind
    beside_torch: bool = False
    """Host code is Python with torch at hand, so that a task may let it call operators (`library`)."""
    compiles_long: bool = False
    """A build takes seconds to minutes, so that those of one round are made side by side before the first is judged."""
    entry: str = "solve"
    """Name of the function that is called."""
    clocks: str = (
        "Paired times are taken in the kernels' own process; confirmation and final benchmark are clocked from outside."
    )
    """What the times of a run are, in one sentence."""

    @abstractmethod
    def toolchain(self) -> Toolchain:
        """The compiler found here; SettingsError with the package to install when there is none."""

    @abstractmethod
    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Parameters of `solve` (or `run_kernel`) in order; SettingsError when the entry is missing or cannot be
        read."""

    @abstractmethod
    def build(self, task: Task, candidate: Candidate, blobs: Blobs, *, extra_flags: tuple[str, ...] = ()) -> Job:
        """The job that compiles `candidate` to `kernel.so` (or checks it, where nothing is compiled), with the task's
        frozen flags.

        `extra_flags` are for remarks and other targets only; they never make a library that is timed.
        """

    @abstractmethod
    def trim(self, log: str) -> str:
        """The part of a compiler's log that names what is wrong, at most about 40 lines, without paths of the job."""

    @abstractmethod
    def disassemble(self, library: str, blobs: Blobs, task: Task | None = None) -> Job:
        """The job that prints the machine code of the blob `library` to `assembly.txt`.

        Languages that compile what is launched need the task; without it they raise SettingsError.
        """

    def frozen(self, source: str, reference: str) -> tuple[str, str, tuple[str, ...]]:
        """Kernel and reference as they are frozen for a task, and one sentence for each thing that was changed in
        them."""
        return source, reference, ()

    def flags(self, task: Task) -> tuple[str, ...]:
        """The task's frozen flags as they come out on this machine, without paths; empty where nothing is compiled.

        Part of every build's key, and pinned by the first build of a run.
        """
        return ()

    def unsupported(self, dtype: DType) -> str | None:
        """None when kernels here can take `dtype`, else the reason, to stand behind "…, but "."""
        return None

    def interpret(self, task: Task, source: str, executor: Executor, blobs: Blobs) -> Interpreted | None:
        """Whether `source` is right at small sizes, asked without its device; None where the language has no way to
        tell.

        HarnessError when the asking itself failed.
        """
        return None

    def pinned_kernels(self, source: str) -> tuple[PinnedKernel, ...]:
        """The ways in which `frozen` could have pinned `source`, its own choice first; empty where there is nothing
        to choose."""
        return ()

    def built(self, finished: FinishedJob) -> str | None:
        """sha256 of the library a build job made, or None when it failed."""
        return finished.files.get("kernel.so") if finished.exit_code == 0 else None

    def compiled(self, finished: FinishedJob) -> str | None:
        """sha256 of what a build job left beside the library for its later use, None where there is nothing.

        The harness finds it beside the library under the suffix `.compiled`, knows by the kernel's device what it is,
        and does without it.
        """
        return None


def open_language(name: str, key: str = "language") -> Language:
    """Return the language that a name or import path stands for; SettingsError, which names `key`, if there is none."""
    return load(LANGUAGES, name, Language, key=key)()
