"""Writes to toolchain.json what is installed here: programs and packages with their versions, and what the C++ compiler
can do. Nothing large is imported.

`toolchain.py LIMITS`: the seconds that a step with the C++ compiler may take, as JSON {"version", "build", "run"}. A
longer step ends the script with one sentence on stderr, because a busy machine is no poor compiler.
"""

import contextlib
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
    **dict.fromkeys(("objdump", "llvm-objdump", "valgrind", "perf", "nvidia-smi"), ""),
    "nvcc": "release",
    "cuobjdump": "release",
    "ncu": "Version",
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
THREADS_PROGRAM = """#include <cstdio>
int main() {
  int n = 0;
#pragma omp parallel reduction(+ : n)
  n += 1;
  std::printf("%d", n);
}
"""
FLOAT16_PROGRAM = "_Float16 h = 2;\nint main() { return int(h) - 2; }\n"
ZIG = ("{python}", "-m", "ziglang", "c++")


def version_line(name: str) -> "str | None":
    """Return the line that names a program's version, empty if it prints none; None: it is not installed."""
    path = ncu_target.find_ncu() if name == "ncu" else cuda_compile.program(name)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next((line.strip() for line in done.stdout.splitlines() if VERSION_LINES[name] in line), "")


def package_versions() -> dict:
    """Return package -> version by its metadata, for those that are installed."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def torch_cuda() -> str:
    """Return the version of CUDA that torch was built for, from its version file; empty: none."""
    found = importlib.util.find_spec("torch")
    return str(runpy.run_path(str(Path(found.origin).with_name("version.py"))).get("cuda") or "") if found else ""


def cutlass_version() -> str:
    """Return the version of CUTLASS' headers with a hash of their contents, so that a patched copy counts as another
    version; empty: there are none."""
    folder = cuda_compile.cutlass()
    file = folder / "include" / "cutlass" / "version.h"
    if not file.is_file():
        return ""
    numbers, content = re.findall(r"define CUTLASS_(?:MAJOR|MINOR|PATCH)\s+(\d+)", file.read_text()), hashlib.sha256()
    for root in cuda_compile.includes(folder):
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            content.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return f"{'.'.join(numbers)} (headers {content.hexdigest()[:12]})"


def counters_need_root() -> bool:
    """Return whether the driver lets only root read counters, and this user is another one."""
    try:
        return "RmProfilingAdminOnly: 1" in DRIVER_PARAMETERS_FILE.read_text() and os.geteuid() != 0
    except OSError:
        return False


def step(argv: "tuple[str, ...]", limit_s: float) -> "str | None":
    """Return what a step with the C++ compiler prints; None if it fails. A step beyond its limit ends the script."""
    command = [sys.executable if part == "{python}" else part for part in argv]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=limit_s, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    except subprocess.TimeoutExpired:
        sys.exit(
            f"`{' '.join(command)}` took longer than {limit_s:g} s; the machine is too busy for measurements, so try "
            "again when it is idle"
        )


def describe_cxx(limits: dict) -> dict:
    """Return command and first line of --version of $CXX, else of g++, clang++ or the wheel `ziglang` (both empty
    without one, the version if $CXX does not answer), and what this compiler can do."""

    def version(argv: tuple) -> str:
        return (step((*argv, "--version"), limits["version"]) or "").strip().partition("\n")[0]

    def output(flags: tuple, program: str) -> "str | None":
        """Return what `program` prints, built with these flags; None if it does not build or run."""
        Path("trial.cpp").write_text(program)
        built = step((*argv, "-std=c++17", *flags, "trial.cpp", "-o", "trial"), limits["build"])
        return None if built is None else step(("./trial",), limits["run"])

    argv = tuple(shlex.split(os.environ.get("CXX", "")))
    choices = [argv] if argv else [(name,) for name in ("g++", "clang++") if shutil.which(name)]
    choices += [ZIG] if not argv and importlib.util.find_spec("ziglang") else []
    argv, found = next(((one, said) for one in choices if (said := version(one))), (argv, ""))
    flags, threads = next(((one, n) for one in FLAG_SETS if found and (n := output(one, THREADS_PROGRAM))), ((), "0"))
    return {
        "cxx_argv": argv,
        "cxx_version": found,
        "cxx_flags": flags,
        "cxx_threads": int(threads) if "-fopenmp" in flags else 0,
        "cxx_float16": bool(found) and output(("-O3",), FLOAT16_PROGRAM) is not None,
    }


def main() -> None:
    with ThreadPoolExecutor() as side_by_side:
        lines = dict(zip(VERSION_LINES, side_by_side.map(version_line, VERSION_LINES), strict=True))
    found = {
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "python": platform.python_version(),
        "packages": package_versions(),
        "torch_cuda": torch_cuda(),
        "programs": {name: line for name, line in lines.items() if line is not None},
        "counters_need_root": counters_need_root(),
        "cutlass": cutlass_version(),
        "cutlass_folder": str(cuda_compile.cutlass()),
    }
    Path("toolchain.json").write_text(json.dumps(found | describe_cxx(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
