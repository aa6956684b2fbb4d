"""Writes to toolchain.json what is installed here: programs and packages with their versions, and what the C++ compiler
can do. Nothing large is imported.

`toolchain.py LIMITS`: the seconds that a step with the compiler may take, as JSON {"version", "build", "run"}. A longer
step stops the script with one sentence on stderr and exit status 3, because a busy machine is no poor compiler.
"""

import hashlib
import importlib.util
import json
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

# For this import only: other files of the job's folder must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.compilation import cuda_compile
from harness.device import ncu_target

PACKAGES = ("torch", "triton", "numpy", "nvidia-cutlass-dsl")
VERSION_LINES = {
    "objdump": "",
    "llvm-objdump": "",
    "valgrind": "",
    "perf": "",
    "nvcc": "release",
    "cuobjdump": "release",
    "ncu": "Version",
    "nvidia-smi": "",
}
"""Program -> part of the line of its output that names its version; empty: the first line."""
DRIVER_PARAMETERS_FILE = Path("/proc/driver/nvidia/params")
FLAG_SETS = (
    ("-O3", "-march=native", "-fopenmp"),
    ("-O3", "-mcpu=native", "-fopenmp"),
    ("-O3", "-march=native", "-fopenmp-simd"),
    ("-O3", "-mcpu=native", "-fopenmp-simd"),
    ("-O3",),
)
"""Flags of the C++ compiler in order of preference. Older clang on ARM has only -mcpu=native."""
OPENMP_PROGRAM = """int main() {
  int s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < 9; ++i) s += i;
  return s - 36;
}
"""
FLOAT16_PROGRAM = "_Float16 h = 2;\nint main() { return int(h) - 2; }\n"
ZIG = ("{python}", "-m", "ziglang", "c++")
TOO_SLOW = 3


class StepTooSlow(Exception):
    """A step with the compiler did not end within its limit."""


def find_program(name: str) -> "str | None":
    """Return the path of a program, on PATH or where CUDA's programs are; None: it is not installed."""
    if name == "ncu":
        return ncu_target.find_ncu()
    return cuda_compile.program(name) if name in ("nvcc", "cuobjdump") else shutil.which(name)


def version_line(name: str) -> "str | None":
    """Return the line that names a program's version, empty if it prints none; None: it is not installed."""
    path = find_program(name)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.strip().splitlines() if done.returncode == 0 else []
    return next((line.strip() for line in lines if VERSION_LINES[name] in line), "")


def package_versions() -> dict:
    """Return package -> version, for those that are installed."""
    return {name: found for name in PACKAGES if (found := version_of_package(name))}


def version_of_package(name: str) -> str:
    """Return a package's version by its metadata; empty: it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def torch_cuda() -> str:
    """Return the version of CUDA that torch was built for, from its version file; empty: none."""
    found = importlib.util.find_spec("torch")
    file = Path(found.origin).with_name("version.py") if found and found.origin else None
    return str(runpy.run_path(str(file)).get("cuda") or "") if file and file.is_file() else ""


def cutlass_version() -> str:
    """Return the version of CUTLASS' headers with a hash of their contents, so that a patched copy counts as another
    version; empty: there are none."""
    folder = cuda_compile.cutlass()
    file = folder / "include" / "cutlass" / "version.h"
    if not file.is_file():
        return ""
    text, content = file.read_text(encoding="utf-8"), hashlib.sha256()
    found = (re.search(rf"define CUTLASS_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH"))
    for root in cuda_compile.includes(folder):
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            content.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return f"{'.'.join(match[1] for match in found if match)} (headers {content.hexdigest()[:12]})"


def counters_need_root() -> bool:
    """Return whether the driver lets only root read counters, and this user is another one."""
    try:
        admin_only = "RmProfilingAdminOnly: 1" in DRIVER_PARAMETERS_FILE.read_text()
    except OSError:
        return False
    return admin_only and os.geteuid() != 0


class CxxCompiler:
    """The C++ compiler: $CXX, else g++, clang++, or the one of the wheel `ziglang`."""

    def __init__(self, limits: dict) -> None:
        self.limits = limits

    def describe(self) -> dict:
        """Return its command and version (both empty without one, the version if it does not answer), the first of
        `FLAG_SETS` with which it builds a program that runs, and whether it has _Float16."""
        argv, version = self.find()
        able = bool(version)
        with ThreadPoolExecutor() as side_by_side:
            half = side_by_side.submit(lambda: able and self.makes_program(argv, ("-O3",), "half", FLOAT16_PROGRAM))
            flags = next((f for f in FLAG_SETS if able and self.makes_program(argv, f, "trial", OPENMP_PROGRAM)), ())
            return {"cxx_argv": argv, "cxx_version": version, "cxx_flags": flags, "cxx_float16": half.result()}

    def find(self) -> tuple:
        """Return command and version."""
        configured = tuple(shlex.split(os.environ.get("CXX", "")))
        if configured:
            return configured, self.version(configured)
        choices = [(name,) for name in ("g++", "clang++") if shutil.which(name)]
        choices += [ZIG] if importlib.util.find_spec("ziglang") is not None else []
        found = ((argv, version) for argv in choices if (version := self.version(argv)))
        return next(found, ((), ""))

    def version(self, argv: tuple) -> str:
        """Return the first line of --version; empty: it does not run."""
        done = self.run([*argv, "--version"], ".", "version")
        return done.stdout.strip().partition("\n")[0] if done and done.returncode == 0 else ""

    def makes_program(self, argv: tuple, flags: tuple, folder: str, program: str) -> bool:
        """Return whether `program`, built with these flags, links, finds its run-time libraries and exits with 0."""
        Path(folder).mkdir(exist_ok=True)
        Path(folder, "trial.cpp").write_text(program)
        command = [*argv, "-std=c++17", *flags, "trial.cpp", "-o", "trial"]
        steps = ((command, "build"), (["./trial"], "run"))
        return all((done := self.run(argv, folder, step)) and done.returncode == 0 for argv, step in steps)

    def run(self, argv: list, folder: str, step: str) -> "subprocess.CompletedProcess | None":
        """Run one step and return its process, None if the program does not exist; StepTooSlow."""
        command, limit = [sys.executable if part == "{python}" else part for part in argv], self.limits[step]
        try:
            return subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=limit, check=False
            )
        except OSError:
            return None
        except subprocess.TimeoutExpired:
            raise StepTooSlow(f"`{' '.join(command)}` took longer than {limit:g} s") from None


def main() -> None:
    compiler = CxxCompiler(json.loads(sys.argv[1]))
    with ThreadPoolExecutor() as side_by_side:
        lines = dict(zip(VERSION_LINES, side_by_side.map(version_line, VERSION_LINES), strict=True))
        cutlass = side_by_side.submit(cutlass_version)
        try:
            found = compiler.describe()
        except StepTooSlow as slow:
            print(slow, file=sys.stderr)
            sys.exit(TOO_SLOW)
        found |= {"cutlass": cutlass.result(), "cutlass_folder": str(cuda_compile.cutlass())}
    found |= {
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "python": platform.python_version(),
        "packages": package_versions(),
        "torch_cuda": torch_cuda(),
        "programs": {name: line for name, line in lines.items() if line is not None},
        "counters_need_root": counters_need_root(),
    }
    Path("toolchain.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
