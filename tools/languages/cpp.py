"""C and C++ kernels for the CPU: `extern "C" void solve(...)` in a shared object.

The compiler is $CXX beside the device, else g++, clang++, or the one of the `ziglang` wheel (extra `[zig]`). Baseline
and candidates are built with the same flags. Trial builds find what the compiler lacks (e.g. the OpenMP runtime);
`python -m tools env` reports it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath

from tools.artifacts import Candidate, DType, Task
from tools.errors import InfrastructureError, SettingsError
from tools.executors.base import Job, Limits, Needs
from tools.executors.protocol import Parameter
from tools.executors.toolchain import Compiler, Toolchain
from tools.languages.base import Language
from tools.languages.cpp_signature import read_solve_parameters
from tools.store.blobs import Blobs

REQUIRED_FLAGS = ("-std=c++17", "-fPIC", "-shared", "-fdiagnostics-color=never")
"""Flags that a loadable shared object needs, in addition to the user's flags."""
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
    r"-(fplugin|fuse-ld=.*/|fprofile|fdump|fsyntax-only|flto-partition|Wl,|Wp,|Wa,|mllvm|fpass-plugin|fsanitize|save-temps).*"
)
_SOURCE_SUFFIXES = (".cpp", ".cc", ".cxx", ".c")


class Cpp(Language):
    """C++17 with the compiler beside the device."""

    name = "cpp"
    suffix = ".cpp"
    device = "cpu"
    listing_shows_calls = True

    def compiler(self, toolchain: Toolchain) -> Compiler:
        """Return the C++ compiler in `toolchain`; SettingsError if there is none or $CXX does not answer."""
        argv, version = toolchain.cxx_argv, toolchain.cxx_version
        if not argv:
            raise SettingsError(_NO_COMPILER_MESSAGE)
        if not version:
            raise SettingsError(
                f"CXX: {shlex.join(argv)!r} cannot be run; set it to a C++ compiler such as g++ or clang++, or unset it"
            )
        name = "zig c++" if "ziglang" in argv else PurePosixPath(argv[0]).name
        return Compiler(name=name, version=version, family="clang" if "clang" in version else "gcc", argv=argv)

    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Return the parameters of `solve` in order; SettingsError names the error and what is allowed."""
        return read_solve_parameters(source, "kernel.cpp")

    def flags(self, task: Task, toolchain: Toolchain) -> tuple[str, ...]:
        """Return the flags of a task's builds: the user's, else -O3 for the device's machine with OpenMP and without
        fast-math.

        Raises InfrastructureError if with no default flags the compiler builds a program that runs.
        """
        chosen = validate_flags(task.build_flags) or toolchain.cxx_flags
        if not chosen:
            raise InfrastructureError(
                f"{self.compiler(toolchain).name} cannot build a program that runs beside the device; check that the "
                "folder of its jobs has free space and is not mounted noexec, or set TMPDIR"
            )
        return (*REQUIRED_FLAGS, *chosen)

    def build(
        self,
        task: Task,
        candidate: Candidate,
        blobs: Blobs,
        toolchain: Toolchain,
        *,
        extra_flags: tuple[str, ...] = (),
    ) -> Job:
        """Return the job that compiles `candidate` to `kernel.so`; equal sources and flags give equal bytes."""
        for name in candidate.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or name.startswith("-"):
                raise SettingsError(f"{name!r} is not a usable file name for a kernel; use a plain relative path")
        sources = sorted(name for name in candidate.files if name.endswith(_SOURCE_SUFFIXES))
        argv = (
            *self.compiler(toolchain).argv,
            *self.flags(task, toolchain),
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

    def reason_unsupported(self, dtype: DType, toolchain: Toolchain) -> str | None:
        """Return why kernels cannot take `dtype`, or None.

        C++17 has no bfloat16 and no type of 8 bits; float16 needs a compiler with _Float16.
        """
        if dtype == "bfloat16" or dtype.startswith("float8"):
            return (
                f"a C++ kernel cannot take {dtype}; use float32, or write `language: triton` into task.yaml: without a "
                f"GPU such a kernel is checked in Triton's interpreter and not timed"
            )
        if dtype == "float16" and not toolchain.cxx_float16:
            name = self.compiler(toolchain).name
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

    def disassembly_job(self, library: str, blobs: Blobs, toolchain: Toolchain, task: Task | None = None) -> Job:
        """Return the job that prints a shared object's machine code (AT&T syntax on x86, demangled, without raw
        bytes) to `assembly.txt`."""
        blobs.path(library)
        program = next((name for name in ("objdump", "llvm-objdump") if name in toolchain.programs), None)
        if program is None:
            raise SettingsError(_NO_OBJDUMP_MESSAGE)
        command = f"{program} -d --no-show-raw-insn --demangle kernel.so > assembly.txt"
        return Job(
            files={"kernel.so": library},
            argv=("sh", "-c", command),
            limits=Limits(wall_s=60.0),
            results=("assembly.txt",),
        )


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
