"""The interface of kernel languages: how a source is parsed, built and disassembled."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from tools.artifacts import Artifact, Candidate, DType, Task
from tools.executors.base import DeviceKind, Executor, FinishedJob, Job
from tools.executors.protocol import Parameter
from tools.executors.toolchain import Compiler, Toolchain
from tools.languages.triton_interpreter import InterpreterResult
from tools.registry import load_class
from tools.store.blobs import Blobs

LANGUAGES = {
    "cpp": "tools.languages.cpp:Cpp",
    "triton": "tools.languages.triton:Triton",
    "cuda": "tools.languages.cuda:Cuda",
    "cutlass": "tools.languages.cutlass:Cutlass",
    "cutedsl": "tools.languages.cutedsl:CuteDsl",
}
"""Language name -> class; a new language is one file and one line here."""


MAX_PINNED_KERNELS = 8
"""How many pinned variants of a kernel are compared at most: each is a process with its own buffers on the device."""
UNTUNED_PHRASE = "and was not tuned by measurement"
"""Part of the sentence about a kernel whose autotuning was pinned without a comparison."""


class PinnedKernel(Artifact):
    """A user's kernel with its autotuning pinned to one config."""

    label: str
    """The config as it is written in the source."""
    source: str
    past_end_error: str = ""
    """Text in the log of the build if there is no config of this number, nor of any larger one; empty: the config
    exists."""


class Language(ABC):
    """One kernel language."""

    name: str
    suffix: str
    """Suffix of the entry file, e.g. ".cpp"."""
    source_pattern: re.Pattern[str] | None = None
    """Matches only sources of this language, among the languages with the same suffix; used without a task.yaml."""
    build_output: str = "kernel.so"
    """Name of the file that a build produces and the harness runs."""
    device: DeviceKind
    host_code_has_torch: bool = False
    """Host code is Python with torch, so a task may allow it to call operators (`library` in task.yaml)."""
    has_slow_builds: bool = False
    """A build takes seconds to minutes, so the candidates of an iteration are built in parallel before the first is
    judged."""
    entry: str = "solve"
    """Name of the function that the harness calls."""
    listing_shows_calls = False
    """Whether machine code that is equal in two listings means that the timed calls do the same: every launch is in it
    with its grid, or all code runs in the host's process."""
    clock_description: str = (
        "Paired times are taken inside the kernels' process; confirmation and final benchmark are timed from outside."
    )
    """How the times of a run are taken, in one sentence."""

    @abstractmethod
    def compiler(self, toolchain: Toolchain) -> Compiler:
        """Return the compiler in `toolchain`; SettingsError, which names the package to install, if there is none."""

    @abstractmethod
    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Return the parameters of `solve` (or `run_kernel`) in order.

        Raises SettingsError if the entry function is missing or cannot be parsed.
        """

    @abstractmethod
    def build(
        self,
        task: Task,
        candidate: Candidate,
        blobs: Blobs,
        toolchain: Toolchain,
        *,
        extra_flags: tuple[str, ...] = (),
    ) -> Job:
        """Return the job that compiles `candidate` to `build_output` with the task's frozen flags.

        `extra_flags` are for remarks and other targets only; a shared object built with them is never timed.
        """

    @abstractmethod
    def trim_log(self, log: str) -> str:
        """Return the part of a compiler's log that shows the errors: about 40 lines at most, without paths of the
        job."""

    @abstractmethod
    def disassembly_job(self, library: str, blobs: Blobs, toolchain: Toolchain, task: Task | None = None) -> Job:
        """Return the job that prints the machine code of the blob `library` to `assembly.txt`.

        `library` is the sha256 of a build's output. Languages that compile each launch need the task; without it they
        raise SettingsError.
        """

    def freeze_sources(self, source: str, reference: str) -> tuple[str, str, tuple[str, ...]]:
        """Return kernel and reference as they are frozen for a task, and one sentence for each change."""
        return source, reference, ()

    def flags(self, task: Task, toolchain: Toolchain) -> tuple[str, ...]:
        """Return the compiler flags of the task's builds with `toolchain`, without paths; empty if nothing is compiled.

        They are part of every build's key, and the first build of a run pins them.
        """
        return ()

    def takes_stream(self, source: str) -> bool:
        """Whether the kernel works on the stream that its caller chooses; False marks it *default stream only*."""
        return False

    def reason_unsupported(self, dtype: DType, toolchain: Toolchain) -> str | None:
        """Return None if kernels built with `toolchain` can take `dtype`, else the reason as the end of a sentence."""
        return None

    def interpret(self, task: Task, source: str, executor: Executor, blobs: Blobs) -> InterpreterResult | None:
        """Check without the device whether `source` is correct at small sizes; None if the language has no interpreter.

        Raises HarnessError if the check itself failed.
        """
        return None

    def pinned_kernels(self, source: str) -> tuple[PinnedKernel, ...]:
        """Return `source` pinned to each of its autotune configs, the choice of `freeze_sources` first; empty if there
        is no choice."""
        return ()

    def build_output_digest(self, finished: FinishedJob) -> str | None:
        """Return the sha256 of the `build_output` of a build job, or None if the build failed."""
        return finished.files.get("kernel.so") if finished.exit_code == 0 else None

    def compiled_cache_digest(self, finished: FinishedJob) -> str | None:
        """Return the sha256 of the compiled code that a build job stored for later runs, or None if there is none.

        The harness gets it beside the build's output under the suffix `.compiled`, and also works without it.
        """
        return None


def open_language(name: str, key: str = "language") -> Language:
    """Return the language with this name or import path; SettingsError, which names the setting `key`, if there is
    none."""
    return load_class(LANGUAGES, name, Language, key=key)()
