"""C and C++ kernels for the CPU: `extern "C" void solve(...)` in a shared library.

The compiler is $CXX, else g++, clang++, or the one of the `ziglang` wheel (extra `[zig]`). Baseline and candidates are
built with the same flags; what this machine's compiler cannot do (OpenMP without its runtime) is found by one trial
build; `python -m tools env` says it.
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
from tools.languages.cpp_signature import solve_parameters
from tools.store.records import Blobs

FIXED = ("-std=c++17", "-fPIC", "-shared", "-fdiagnostics-color=never")
"""Needed for a loadable library, whatever the user's own flags are."""
_OPTIMISATIONS = (
    ("-O3", "-march=native", "-fopenmp"),
    ("-O3", "-mcpu=native", "-fopenmp"),
    ("-O3", "-march=native", "-fopenmp-simd"),
    ("-O3", "-mcpu=native", "-fopenmp-simd"),
    ("-O3",),
)
"""Tried in this order; the first that builds and links is used. Older clang on ARM knows only -mcpu=native."""
_PARALLEL_LOOP = """int main() {
  int s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < 9; ++i) s += i;
  return s - 36;
}
"""
_NO_COMPILER = (
    "no C++ compiler was found (looked for $CXX, g++, clang++); install one: `apt install g++` (Debian, "
    "Ubuntu), `dnf install gcc-c++` "
    "(Fedora), `pacman -S gcc` (Arch), or `pip install -e '.[zig]'` in Kernelwright's folder"
)
_NO_OBJDUMP = (
    "objdump was not found, so that machine code cannot be shown; install binutils (Debian, Fedora, Arch: "
    "package `binutils`)"
)
_ALLOWED_FLAG = re.compile(r"-(O\w*|f[a-z].*|m[a-z].*|std=.+|W[a-z].*|[DUIlL].+|g\d?|pthread|pipe|isystem.+)")
_REFUSED_FLAG = re.compile(
    r"-(fplugin|fprofile|fdump|fsyntax-only|flto-partition|Wl,|Wp,|Wa,|mllvm|fpass-plugin|fsanitize|save-temps).*"
)
_PATIENCE_S = {"version": 60.0, "build": 180.0, "run": 20.0}
"""Seconds after which a trial says that the machine is at fault, and nothing about the compiler."""
_SOURCES = (".cpp", ".cc", ".cxx", ".c")
_ZIG = ("{python}", "-m", "ziglang", "c++")


class Cpp(Language):
    """C++17 through the machine's own compiler."""

    name = "cpp"
    suffix = ".cpp"
    device = "cpu"

    def __init__(self) -> None:
        self._toolchain: Toolchain | None = None
        self._optimisations: tuple[str, ...] | None = None
        self._half: bool | None = None

    def toolchain(self) -> Toolchain:
        """The compiler found here; SettingsError when there is none or $CXX does not answer. Looked up once."""
        if self._toolchain is None:
            self._toolchain = _find()
        return self._toolchain

    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Parameters of `solve` in order; SettingsError that names what is wrong and what is allowed."""
        return solve_parameters(source, "kernel.cpp")

    def flags(self, task: Task) -> tuple[str, ...]:
        """The frozen flags of a task's builds: the user's own, else -O3 for this machine with OpenMP; never
        fast-math by default."""
        return (*FIXED, *(checked_flags(task.build_flags) or self.optimisations()))

    def optimisations(self) -> tuple[str, ...]:
        """The default optimisation flags that this compiler can build and link with, found by trial builds once a
        process.

        InfrastructureError when a trial takes too long, or when not even the plainest flags give a program that runs.
        """
        if self._optimisations is None:
            argv = self._local_argv()
            self._optimisations = next((flags for flags in _OPTIMISATIONS if _links(argv, flags)), None)
        if self._optimisations is None:
            raise InfrastructureError(
                f"{self.toolchain().name} cannot make a program that runs from {tempfile.gettempdir()}; "
                "see whether that folder has room and lets programs run, or set TMPDIR"
            )
        return self._optimisations

    def build(self, task: Task, candidate: Candidate, blobs: Blobs, *, extra_flags: tuple[str, ...] = ()) -> Job:
        """The job that compiles `candidate` to `kernel.so`. The same sources and flags give the same bytes."""
        for name in candidate.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or name.startswith("-"):
                raise SettingsError(f"{name!r} is not a usable file name for a kernel; use a plain relative path")
        sources = sorted(name for name in candidate.files if name.endswith(_SOURCES))
        argv = (*self.toolchain().argv, *self.flags(task), *extra_flags, *sources, "-o", "kernel.so", *_libraries(task))
        return Job(
            files={name: blobs.put(text) for name, text in candidate.files.items()},
            argv=argv,
            limits=Limits(wall_s=60.0),
            needs=Needs(device="cpu"),
            results=("kernel.so",),
        )

    def unsupported(self, dtype: DType) -> str | None:
        """bfloat16 has no C++17 type; float16 needs a compiler with _Float16 (tried once, and only when asked)."""
        if dtype == "bfloat16":
            return "a C++ kernel cannot take bfloat16; use float32, or a language with bfloat16"
        if dtype == "float16" and not self._has_half():
            name = self.toolchain().name
            return (
                f"{name} here has no _Float16 in C++; use float32, or a newer compiler (g++ 13, clang++ 15 or "
                f"later) through CXX"
            )
        return None

    def trim(self, log: str) -> str:
        """Errors first with their carets, then warnings; 40 lines at most, names relative to the job."""
        lines = [re.sub(r"/\S*/(?=kernel\.)|/tmp/(?=cc\w+\.o)", "", line.rstrip()) for line in log.splitlines()]
        blocks: list[list[str]] = [[]]
        for line in lines:
            if re.match(r"\S+?:(\d+:)*|\S*ld(\.\w+)?: |collect2:", line) and not re.match(r"\S+:\d+:\d+: note:", line):
                blocks.append([])
            blocks[-1].append(line)
        wrong = [
            block
            for block in blocks
            if block and re.search(r"error:|undefined reference|cannot find|ld(\.\w+)?: ", block[0])
        ]
        kept = [line for block in (wrong or blocks) for line in block[:8] if line]
        if len(kept) > 40:
            kept = [*kept[:39], f"… {len(kept) - 39} more lines"]
        return "\n".join(kept)

    def disassemble(self, library: str, blobs: Blobs, task: Task | None = None) -> Job:
        """The job that prints the library's machine code (AT&T syntax on x86, demangled, no raw bytes) to
        `assembly.txt`."""
        blobs.path(library)
        program = next((name for name in ("objdump", "llvm-objdump") if shutil.which(name)), None)
        if program is None:
            raise SettingsError(_NO_OBJDUMP)
        command = f"{program} -d --no-show-raw-insn --demangle kernel.so > assembly.txt"
        return Job(
            files={"kernel.so": library},
            argv=("sh", "-c", command),
            limits=Limits(wall_s=60.0),
            results=("assembly.txt",),
        )

    def _has_half(self) -> bool:
        if self._half is None:
            self._half = _links(self._local_argv(), ("-O3",), "_Float16 h = 2;\nint main() { return int(h) - 2; }\n")
        return self._half

    def _local_argv(self) -> tuple[str, ...]:
        return tuple(sys.executable if part == "{python}" else part for part in self.toolchain().argv)


def checked_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """The user's own compiler flags, or SettingsError for one that changes what is built rather than how."""
    for flag in flags:
        if not _ALLOWED_FLAG.fullmatch(flag) or _REFUSED_FLAG.fullmatch(flag):
            raise SettingsError(
                f"build_flags: {flag!r} cannot be used; allowed are -O*, -f*, -m*, -std=*, -W*, -D*, -U*, -I*, -L*, "
                f"-l*, -g and -pthread, "
                "one item each (no outputs, plugins, profiles, sanitizers or linker options)"
            )
    return flags


def _libraries(task: Task) -> tuple[str, ...]:
    """Libraries again after the sources: a linker reads from left to right."""
    return tuple(flag for flag in task.build_flags if flag.startswith("-l"))


def _find() -> Toolchain:
    wanted = os.environ.get("CXX", "").strip()
    if wanted:
        argv = tuple(shlex.split(wanted))
        version = _version(argv)
        if version is None:
            raise SettingsError(
                f"CXX: {wanted!r} cannot be run; set it to a C++ compiler such as g++ or clang++, or unset it"
            )
        return _described(argv, version)
    for name in ("g++", "clang++"):
        version = _version((name,)) if shutil.which(name) else None
        if version is not None:
            return _described((name,), version)
    if importlib.util.find_spec("ziglang") is not None:
        version = _version((sys.executable, *_ZIG[1:]))
        if version is not None:
            return _described(_ZIG, version)
    raise SettingsError(_NO_COMPILER)


def _described(argv: tuple[str, ...], version: str) -> Toolchain:
    family = "clang" if "clang" in version else "gcc"
    name = "zig c++" if argv == _ZIG else PurePosixPath(argv[0]).name
    return Toolchain(name=name, version=version.splitlines()[0], family=family, argv=argv)


def _version(argv: tuple[str, ...]) -> str | None:
    try:
        done = _run([*argv, "--version"], None, "version")
    except OSError:
        return None
    return done.stdout if done.returncode == 0 and done.stdout.strip() else None


def _links(argv: tuple[str, ...], flags: tuple[str, ...], program: str = _PARALLEL_LOOP) -> bool:
    """Whether `program` builds, links, finds its run-time libraries and ends with 0 under these flags."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as folder:
        source = Path(folder) / "trial.cpp"
        source.write_text(program)
        command = [*argv, "-std=c++17", *flags, "trial.cpp", "-o", "trial"]
        try:
            return _run(command, folder, "build").returncode == 0 and _run(["./trial"], folder, "run").returncode == 0
        except OSError:
            return False


def _run(command: list[str], folder: str | None, what: str) -> subprocess.CompletedProcess[str]:
    """Run one step of a trial; InfrastructureError when it takes too long: a busy machine must not pass for a poor
    compiler."""
    limit = _PATIENCE_S[what]
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"`{' '.join(command)}` took longer than {limit:g} s; the machine is too busy to measure anything, try "
            f"again when it is idle"
        ) from None
