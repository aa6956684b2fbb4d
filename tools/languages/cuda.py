"""CUDA C++ kernels: `extern "C" void solve(...)` with its launches in a shared library, compiled by nvcc and run by the
harness.

nvcc is found on PATH, in CUDA_HOME, or in the wheel `nvidia-cuda-nvcc`. Code is made for the GPU that is here (`sm_90a`
on Hopper), or for sm_90a where there is none; `build_flags: [--target=sm_80]` names another.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import PurePosixPath

from tools.artifacts import Candidate, Task
from tools.errors import SettingsError
from tools.executors.base import Job, Limits
from tools.executors.harness_job import harness_files
from tools.executors.protocol import Parameter
from tools.harness.compilation import cuda_compile
from tools.languages.base import Language, Toolchain
from tools.languages.cpp_signature import solve_parameters
from tools.store.records import Blobs

KERNEL = "kernel.cu"
FIXED = (
    "-std=c++17",
    "-shared",
    "-Xcompiler=-fPIC",
    "-cudart=static",
    "-Xptxas=-v",
    "-Xlinker=-Bsymbolic",
    "-Xlinker=-s",
    "--expt-relaxed-constexpr",
)
"""Needed for a loadable library, and ptxas' words on what each kernel uses."""
DEFAULTS = ("-O3", "-lineinfo")
_SCRIPT = "harness/compilation/cuda_compile.py"
_LIMITS = Limits(wall_s=300.0, memory_bytes=32 << 30)
_TARGET = re.compile(r"--target=(sm_\d+)")
_ALLOWED_FLAG = re.compile(
    r"-O[0-3]|-lineinfo|-G|-g|-std=c\+\+\d\w|-D\w+(=\w+)?|-U\w+|-I.+|--?(maxrregcount=\d+|extended-lambda|expt-\S+)"
    r"|--?(ftz|fmad|prec-div|prec-sqrt)=(true|false)|-Xptxas=-?-[\w=-]+|--threads=\d+"
)
_MISSING = (
    "nvcc was not found (looked on PATH, in CUDA_HOME and CUDA_PATH, and for the wheel); install the CUDA toolkit, or "
    "`pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl`"
)
_COMPLAINT = re.compile(r"^\S+\(\d+\): (error|warning)|\berror\b|fatal|undefined reference", re.IGNORECASE)
_ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")


class Cuda(Language):
    """CUDA C++17 through nvcc."""

    name = "cuda"
    suffix = ".cu"
    device = "cuda"
    compiles_long = True
    clocks = (
        "Paired times are the device's own, launches not included; a confirmation has both clocks, and its claim "
        "names the one; "
        "the final benchmark is by the wall clock, launches included, with the device's times beside it."
    )

    def toolchain(self) -> Toolchain:
        """nvcc as it is found here; SettingsError where there is none."""
        path = cuda_compile.program("nvcc")
        if path is None:
            raise SettingsError(_MISSING)
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
        version = re.search(r"V(\d+\.\d+\.\d+)", done.stdout)
        if done.returncode or version is None:
            raise SettingsError(
                f"{path} does not say its version; repair the CUDA toolkit, or put another nvcc on PATH"
            )
        return Toolchain(name="nvcc", version=version[1], family="nvcc", argv=(path,))

    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Parameters of `solve` in order; SettingsError that names what is wrong and what is allowed."""
        return solve_parameters(source, KERNEL, "cuda")

    def flags(self, task: Task) -> tuple[str, ...]:
        """The frozen flags: the user's own, else -O3; and the architecture, where the task does not name it that of
        the GPU here."""
        own = tuple(flag for flag in task.build_flags if not _TARGET.fullmatch(flag))
        for flag in own:
            if not _ALLOWED_FLAG.fullmatch(flag):
                raise SettingsError(
                    f"build_flags: {flag!r} cannot be used with CUDA; allowed are -O*, -D*, -U*, -I*, -std=*, "
                    f"-lineinfo, -maxrregcount=N, "
                    "-ftz=, -fmad=, -prec-div=, -prec-sqrt=, -Xptxas=-…, --expt-…, --extended-lambda and "
                    "--target=sm_NN, one item each"
                )
        return (*FIXED, *(own or DEFAULTS))

    def build(self, task: Task, candidate: Candidate, blobs: Blobs, *, extra_flags: tuple[str, ...] = ()) -> Job:
        """The job that compiles `candidate` to `kernel.so` for the GPU of the machine that it runs on."""
        for name in candidate.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or name.startswith("-"):
                raise SettingsError(f"{name!r} is not a usable file name for a kernel; use a plain relative path")
        sources = sorted(name for name in candidate.files if name.endswith((".cu", ".cpp")))
        files = {name: blobs.put(text) for name, text in candidate.files.items()}
        return self._job(task, files, blobs, flags=(*self.flags(task), *extra_flags), sources=sources)

    def trim(self, log: str) -> str:
        """Errors and warnings first, with the lines around them; else what ptxas says that each kernel uses. 40
        lines at most."""
        lines = [
            re.sub(r"/\S*/(?=kernel\.)|/\S*/include/|/tmp/\S*/", "", line.rstrip())
            for line in log.splitlines()
            if line.strip()
        ]
        starts = [at for at, line in enumerate(lines) if _COMPLAINT.search(line) and not line.startswith("ptxas info")]
        kept = [lines[at] for at in sorted({at + step for at in starts for step in range(4) if at + step < len(lines)})]
        kept = [line for line in kept if not line.startswith("ptxas info")] or list(used("\n".join(lines)))
        if len(kept) > 40:
            kept = [*kept[:39], f"… {len(kept) - 39} more lines"]
        return "\n".join(kept)

    def disassemble(self, library: str, blobs: Blobs, task: Task | None = None) -> Job:
        """The job that writes `assembly.txt` (SASS) and `facts.json` (registers, stack, shared memory) of `library`."""
        blobs.path(library)
        return self._job(task, {"kernel.so": library}, blobs, listing=True)

    def _job(self, task: Task | None, files: dict[str, str], blobs: Blobs, **asked: object) -> Job:
        target = next((m[1] for flag in (task.build_flags if task else ()) if (m := _TARGET.fullmatch(flag))), "")
        request = blobs.put(json.dumps({"target": target, **asked}, sort_keys=True))
        return Job(
            files={**harness_files(blobs), **files, "build.json": request},
            argv=("{python}", "-I", _SCRIPT),
            limits=_LIMITS,
            results=("kernel.so", "assembly.txt", "facts.json"),
        )


def used(log: str) -> tuple[str, ...]:
    """One sentence a kernel from what `ptxas -v` says: registers, spills, shared memory."""
    found = []
    for part in re.split(r"(?=ptxas info\s*: Compiling entry function)", log):
        entry = _ENTRY.search(part)
        if entry is None:
            continue
        spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers, shared = re.search(r"Used (\d+) registers", part), re.search(r"(\d+) bytes smem", part)
        found.append(
            f"{cuda_compile.demangled_name(entry[1])} for {entry[2]}: {registers[1] if registers else '?'} registers, "
            f"{spills[1] if spills else '?'} bytes of stack, spills {spills[2] if spills else '?'} bytes stored and "
            f"{spills[3] if spills else '?'} loaded, {shared[1] if shared else 0} bytes of static shared memory"
        )
    return tuple(found)
