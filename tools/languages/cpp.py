"""C and C++ kernels for the CPU: `extern "C" void solve(...)` in a shared object.

The compiler is $CXX, else g++, clang++, or the one of the `ziglang` wheel (extra `[zig]`). Baseline and candidates are
built with the same flags. Trial builds find what this machine's compiler lacks (e.g. the OpenMP runtime);
`python -m tools env` reports it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

from tools.artifacts import Candidate, DType, Task
from tools.errors import InfrastructureError, SettingsError
from tools.executors.base import Job, Limits, Needs
from tools.executors.protocol import Parameter
from tools.languages.base import Language, Toolchain
from tools.languages.cpp_signature import read_solve_parameters
from tools.store.blobs import Blobs

REQUIRED_FLAGS = ("-std=c++17", "-fPIC", "-shared", "-fdiagnostics-color=never")
"""Flags that a loadable shared object needs, in addition to the user's flags."""
_OPTIMISATION_FLAG_SETS = (
    ("-O3", "-march=native", "-fopenmp"),
    ("-O3", "-mcpu=native", "-fopenmp"),
    ("-O3", "-march=native", "-fopenmp-simd"),
    ("-O3", "-mcpu=native", "-fopenmp-simd"),
    ("-O3",),
)
"""Flag sets in order of preference; the first that builds and links is used. Older clang on ARM has only
-mcpu=native."""
_OPENMP_TRIAL_PROGRAM = """int main() {
  int s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < 9; ++i) s += i;
  return s - 36;
}
"""
_NO_COMPILER_MESSAGE = (
    "no C++ compiler was found (looked for $CXX, g++, clang++); install one: `apt install g++` (Debian, "
    "Ubuntu), `dnf install gcc-c++` (Fedora), `pacman -S gcc` (Arch), or "
    "`pip install -e '.[zig]'` in Kernelwright's folder"
)
_NO_OBJDUMP_MESSAGE = (
    "objdump was not found, so machine code cannot be shown; install binutils (Debian, Fedora, Arch: "
    "package `binutils`)"
)
_ALLOWED_FLAG = re.compile(r"-(O\w*|f[a-z].*|m[a-z].*|std=.+|W[a-z].*|[DUIlL].+|g\d?|pthread|pipe|isystem.+)")
_REFUSED_FLAG = re.compile(
    r"-(fplugin|fprofile|fdump|fsyntax-only|flto-partition|Wl,|Wp,|Wa,|mllvm|fpass-plugin|fsanitize|save-temps).*"
)
_TRIAL_LIMITS_S = {"version": 60.0, "build": 180.0, "run": 20.0}
"""Seconds after which a step of a trial is blamed on the machine and not on the compiler."""
_SOURCE_SUFFIXES = (".cpp", ".cc", ".cxx", ".c")
_ZIG_COMMAND = ("{python}", "-m", "ziglang", "c++")


class Cpp(Language):
    """C++17 with the compiler of this machine."""

    name = "cpp"
    suffix = ".cpp"
    device = "cpu"

    def __init__(self) -> None:
        self._toolchain: Toolchain | None = None
        self._optimisations: tuple[str, ...] | None = None
        self._half: bool | None = None

    def toolchain(self) -> Toolchain:
        """Return the compiler of this machine, which is looked up once.

        Raises SettingsError if there is none or $CXX does not answer.
        """
        if self._toolchain is None:
            self._toolchain = _find_compiler()
        return self._toolchain

    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Return the parameters of `solve` in order; SettingsError names the error and what is allowed."""
        return read_solve_parameters(source, "kernel.cpp")

    def flags(self, task: Task) -> tuple[str, ...]:
        """Return the flags of a task's builds: the user's, else -O3 for this machine with OpenMP and without
        fast-math."""
        return (*REQUIRED_FLAGS, *(validate_flags(task.build_flags) or self.find_optimisation_flags()))

    def find_optimisation_flags(self) -> tuple[str, ...]:
        """Return the default optimisation flags with which this compiler builds and links; found once by trial builds.

        Raises InfrastructureError if a trial takes too long, or if no flag set gives a program that runs.
        """
        if self._optimisations is None:
            argv = self._compiler_command()
            self._optimisations = next(
                (flags for flags in _OPTIMISATION_FLAG_SETS if _builds_and_runs(argv, flags)), None
            )
        if self._optimisations is None:
            raise InfrastructureError(
                f"{self.toolchain().name} cannot build a program that runs from {tempfile.gettempdir()}; "
                "check that this folder has free space and is not mounted noexec, or set TMPDIR"
            )
        return self._optimisations

    def build(self, task: Task, candidate: Candidate, blobs: Blobs, *, extra_flags: tuple[str, ...] = ()) -> Job:
        """Return the job that compiles `candidate` to `kernel.so`; equal sources and flags give equal bytes."""
        for name in candidate.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or name.startswith("-"):
                raise SettingsError(f"{name!r} is not a usable file name for a kernel; use a plain relative path")
        sources = sorted(name for name in candidate.files if name.endswith(_SOURCE_SUFFIXES))
        argv = (
            *self.toolchain().argv,
            *self.flags(task),
            *extra_flags,
            *sources,
            "-o",
            "kernel.so",
            *_linker_flags(task),
        )
        return Job(
            files={name: blobs.put(text) for name, text in candidate.files.items()},
            argv=argv,
            limits=Limits(wall_s=60.0),
            needs=Needs(device="cpu"),
            results=("kernel.so",),
        )

    def reason_unsupported(self, dtype: DType) -> str | None:
        """Return why kernels cannot take `dtype`, or None.

        C++17 has no bfloat16; float16 needs a compiler with _Float16, which one trial build checks.
        """
        if dtype == "bfloat16":
            return "a C++ kernel cannot take bfloat16; use float32, or a language with bfloat16"
        if dtype == "float16" and not self._supports_float16():
            name = self.toolchain().name
            return (
                f"{name} has no _Float16 in C++; use float32, or set CXX to a newer compiler (g++ 13, clang++ 15 or "
                f"later)"
            )
        return None

    def trim_log(self, log: str) -> str:
        """Return the errors of a log with their carets, or without errors the log: 40 lines at most, with file names
        relative to the job."""
        lines = [re.sub(r"/\S*/(?=kernel\.)|/tmp/(?=cc\w+\.o)", "", line.rstrip()) for line in log.splitlines()]
        blocks: list[list[str]] = [[]]
        for line in lines:
            if re.match(r"\S+?:(\d+:)*|\S*ld(\.\w+)?: |collect2:", line) and not re.match(r"\S+:\d+:\d+: note:", line):
                blocks.append([])
            blocks[-1].append(line)
        error_blocks = [
            block
            for block in blocks
            if block and re.search(r"error:|undefined reference|cannot find|ld(\.\w+)?: ", block[0])
        ]
        shown = [line for block in (error_blocks or blocks) for line in block[:8] if line]
        if len(shown) > 40:
            shown = [*shown[:39], f"… {len(shown) - 39} more lines"]
        return "\n".join(shown)

    def disassembly_job(self, library: str, blobs: Blobs, task: Task | None = None) -> Job:
        """Return the job that prints a shared object's machine code (AT&T syntax on x86, demangled, without raw
        bytes) to `assembly.txt`."""
        blobs.path(library)
        program = next((name for name in ("objdump", "llvm-objdump") if shutil.which(name)), None)
        if program is None:
            raise SettingsError(_NO_OBJDUMP_MESSAGE)
        command = f"{program} -d --no-show-raw-insn --demangle kernel.so > assembly.txt"
        return Job(
            files={"kernel.so": library},
            argv=("sh", "-c", command),
            limits=Limits(wall_s=60.0),
            results=("assembly.txt",),
        )

    def _supports_float16(self) -> bool:
        if self._half is None:
            self._half = _builds_and_runs(
                self._compiler_command(), ("-O3",), "_Float16 h = 2;\nint main() { return int(h) - 2; }\n"
            )
        return self._half

    def _compiler_command(self) -> tuple[str, ...]:
        return tuple(sys.executable if part == "{python}" else part for part in self.toolchain().argv)


def validate_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return `flags` unchanged; SettingsError for a flag that changes what is built and not how."""
    for flag in flags:
        if not _ALLOWED_FLAG.fullmatch(flag) or _REFUSED_FLAG.fullmatch(flag):
            raise SettingsError(
                f"build_flags: {flag!r} cannot be used; allowed are -O*, -f*, -m*, -std=*, -W*, -D*, -U*, -I*, -L*, "
                f"-l*, -g and -pthread, one item each (no outputs, plugins, profiles, sanitizers or linker options)"
            )
    return flags


def _linker_flags(task: Task) -> tuple[str, ...]:
    """Return the task's -l flags, which are repeated after the sources because a linker reads from left to right."""
    return tuple(flag for flag in task.build_flags if flag.startswith("-l"))


def _find_compiler() -> Toolchain:
    configured = os.environ.get("CXX", "").strip()
    if configured:
        argv = tuple(shlex.split(configured))
        version = _compiler_version(argv)
        if version is None:
            raise SettingsError(
                f"CXX: {configured!r} cannot be run; set it to a C++ compiler such as g++ or clang++, or unset it"
            )
        return _describe_toolchain(argv, version)
    for name in ("g++", "clang++"):
        version = _compiler_version((name,)) if shutil.which(name) else None
        if version is not None:
            return _describe_toolchain((name,), version)
    if importlib.util.find_spec("ziglang") is not None:
        version = _compiler_version((sys.executable, *_ZIG_COMMAND[1:]))
        if version is not None:
            return _describe_toolchain(_ZIG_COMMAND, version)
    raise SettingsError(_NO_COMPILER_MESSAGE)


def _describe_toolchain(argv: tuple[str, ...], version: str) -> Toolchain:
    family = "clang" if "clang" in version else "gcc"
    name = "zig c++" if argv == _ZIG_COMMAND else PurePosixPath(argv[0]).name
    return Toolchain(name=name, version=version.splitlines()[0], family=family, argv=argv)


def _compiler_version(argv: tuple[str, ...]) -> str | None:
    try:
        finished = _run_trial_step([*argv, "--version"], None, "version")
    except OSError:
        return None
    return finished.stdout if finished.returncode == 0 and finished.stdout.strip() else None


def _builds_and_runs(argv: tuple[str, ...], flags: tuple[str, ...], program: str = _OPENMP_TRIAL_PROGRAM) -> bool:
    """Return whether `program`, built with these flags, links, finds its run-time libraries and exits with 0."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as folder:
        source = Path(folder) / "trial.cpp"
        source.write_text(program)
        command = [*argv, "-std=c++17", *flags, "trial.cpp", "-o", "trial"]
        try:
            return (
                _run_trial_step(command, folder, "build").returncode == 0
                and _run_trial_step(["./trial"], folder, "run").returncode == 0
            )
        except OSError:
            return False


def _run_trial_step(command: list[str], folder: str | None, step: str) -> subprocess.CompletedProcess[str]:
    """Run one step of a trial and return its process.

    Raises InfrastructureError if it takes too long, so a busy machine is not mistaken for a poor compiler.
    """
    limit = _TRIAL_LIMITS_S[step]
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"`{' '.join(command)}` took longer than {limit:g} s; the machine is too busy for measurements, so try "
            f"again when it is idle"
        ) from None
