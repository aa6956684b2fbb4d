"""CUDA C++ kernels: `extern "C" void solve(...)` and its launches in a shared object, compiled by nvcc.

nvcc is found on PATH, in CUDA_HOME, or in the wheel `nvidia-cuda-nvcc`. Code is compiled for the GPU of the machine
(`sm_90a` on Hopper), or for sm_90a without a GPU; `build_flags: [--target=sm_80]` names another target.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

from tools.artifacts import Candidate, Task
from tools.errors import SettingsError
from tools.executors.base import Job, Limits
from tools.executors.harness_job import harness_files
from tools.executors.protocol import Parameter
from tools.executors.toolchain import Compiler, Toolchain
from tools.harness.compilation import cuda_compile
from tools.languages.base import Language
from tools.languages.cpp_signature import read_solve_parameters
from tools.store.blobs import Blobs

KERNEL_FILE = "kernel.cu"
REQUIRED_FLAGS = (
    "-std=c++17",
    "-shared",
    "-Xcompiler=-fPIC",
    "-cudart=static",
    "-Xptxas=-v",
    "-Xlinker=-Bsymbolic",
    "-Xlinker=-s",
    "--expt-relaxed-constexpr",
)
"""Flags that a loadable shared object needs, and -v of ptxas, which reports the resources of each kernel."""
DEFAULT_FLAGS = ("-O3", "-lineinfo")
_COMPILE_SCRIPT = "harness/compilation/cuda_compile.py"
_BUILD_LIMITS = Limits(wall_s=300.0, memory_bytes=32 << 30)
_TARGET_FLAG = re.compile(r"--target=(sm_\d+)")
_ALLOWED_FLAG = re.compile(
    r"-O[0-3]|-lineinfo|-G|-g|-std=c\+\+\d\w|-D\w+(=\w+)?|-U\w+|-I.+|--?(maxrregcount=\d+|extended-lambda|expt-\S+)"
    r"|--?(ftz|fmad|prec-div|prec-sqrt)=(true|false)|-Xptxas=-?-[\w=-]+|--threads=\d+"
)
_NOT_FOUND_MESSAGE = (
    "nvcc was not found (looked on PATH, in CUDA_HOME and CUDA_PATH, and for the wheel); install the CUDA toolkit, or "
    "`pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl`"
)
_DIAGNOSTIC_LINE = re.compile(r"^\S+\(\d+\): (error|warning)|\berror\b|fatal|undefined reference", re.IGNORECASE)
_PTXAS_ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")


class Cuda(Language):
    """CUDA C++17 with nvcc."""

    name = "cuda"
    suffix = ".cu"
    device = "cuda"
    has_slow_builds = True
    clock_description = (
        "Paired times are the device's own, without launches; a confirmation uses both clocks, and its claim names "
        "one of them; the final benchmark uses the wall clock, with launches, and also shows the device's times."
    )

    def compiler(self, toolchain: Toolchain) -> Compiler:
        """Return nvcc; SettingsError if there is none."""
        line = toolchain.programs.get("nvcc")
        if line is None:
            raise SettingsError(_NOT_FOUND_MESSAGE)
        version = re.search(r"V(\d+\.\d+\.\d+)", line)
        if version is None:
            raise SettingsError("nvcc does not print its version; repair the CUDA toolkit, or put another nvcc on PATH")
        return Compiler(name="nvcc", version=version[1], family="nvcc", argv=("nvcc",))

    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Return the parameters of `solve` in order, without a stream; SettingsError names the error and what is
        allowed."""
        return tuple(p for p in read_solve_parameters(source, KERNEL_FILE, "cuda") if p.dtype is not None)

    def takes_stream(self, source: str) -> bool:
        """Whether the last parameter of `solve` is a `cudaStream_t`."""
        return read_solve_parameters(source, KERNEL_FILE, "cuda")[-1].dtype is None

    def flags(self, task: Task, toolchain: Toolchain) -> tuple[str, ...]:
        """Return the required flags and the user's flags, or -O3 without any; --target is passed to nvcc separately."""
        user_flags = tuple(flag for flag in task.build_flags if not _TARGET_FLAG.fullmatch(flag))
        for flag in user_flags:
            if not _ALLOWED_FLAG.fullmatch(flag):
                raise SettingsError(
                    f"build_flags: {flag!r} cannot be used with CUDA; allowed are -O*, -D*, -U*, -I*, -std=*, "
                    f"-lineinfo, -maxrregcount=N, -ftz=, -fmad=, -prec-div=, -prec-sqrt=, -Xptxas=-…, "
                    "--expt-…, --extended-lambda and --target=sm_NN, one item each"
                )
        return (*REQUIRED_FLAGS, *(user_flags or DEFAULT_FLAGS))

    def build(
        self,
        task: Task,
        candidate: Candidate,
        blobs: Blobs,
        toolchain: Toolchain,
        *,
        extra_flags: tuple[str, ...] = (),
    ) -> Job:
        """Return the job that compiles `candidate` to `kernel.so` for the GPU of the machine that runs the job."""
        for name in candidate.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or name.startswith("-"):
                raise SettingsError(f"{name!r} is not a usable file name for a kernel; use a plain relative path")
        sources = sorted(name for name in candidate.files if name.endswith((".cu", ".cpp")))
        files = {name: blobs.put(text) for name, text in candidate.files.items()}
        return self._job(task, files, blobs, flags=(*self.flags(task, toolchain), *extra_flags), sources=sources)

    def trim_log(self, log: str) -> str:
        """Return errors and warnings with the lines after them, or without any the resources of each kernel; 40 lines
        at most."""
        lines = [
            re.sub(r"/\S*/(?=kernel\.)|/\S*/include/|/tmp/\S*/", "", line.rstrip())
            for line in log.splitlines()
            if line.strip()
        ]
        diagnostic_lines = [
            index
            for index, line in enumerate(lines)
            if _DIAGNOSTIC_LINE.search(line) and not line.startswith("ptxas info")
        ]
        shown = [
            lines[index]
            for index in sorted(
                {index + step for index in diagnostic_lines for step in range(4) if index + step < len(lines)}
            )
        ]
        shown = [line for line in shown if not line.startswith("ptxas info")] or list(resource_usage("\n".join(lines)))
        if len(shown) > 40:
            shown = [*shown[:39], f"… {len(shown) - 39} more lines"]
        return "\n".join(shown)

    def disassembly_job(self, library: str, blobs: Blobs, toolchain: Toolchain, task: Task | None = None) -> Job:
        """Return the job that writes `assembly.txt` (SASS) and `facts.json` (registers, stack, shared memory) of the
        shared object `library`."""
        blobs.path(library)
        return self._job(task, {"kernel.so": library}, blobs, listing=True)

    def _job(self, task: Task | None, files: dict[str, str], blobs: Blobs, **request_fields: object) -> Job:
        target = next((m[1] for flag in (task.build_flags if task else ()) if (m := _TARGET_FLAG.fullmatch(flag))), "")
        request = blobs.put(json.dumps({"target": target, **request_fields}, sort_keys=True))
        return Job(
            files={**harness_files(blobs), **files, "build.json": request},
            argv=("{python}", "-I", _COMPILE_SCRIPT),
            limits=_BUILD_LIMITS,
            results=("kernel.so", "assembly.txt", "facts.json"),
        )


def resource_usage(log: str) -> tuple[str, ...]:
    """Return a sentence for each kernel from the output of `ptxas -v`: registers, spills, shared memory."""
    sentences = []
    for part in re.split(r"(?=ptxas info\s*: Compiling entry function)", log):
        entry = _PTXAS_ENTRY.search(part)
        if entry is None:
            continue
        spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers, shared = re.search(r"Used (\d+) registers", part), re.search(r"(\d+) bytes smem", part)
        sentences.append(
            f"{cuda_compile.demangled_name(entry[1])} for {entry[2]}: {registers[1] if registers else '?'} registers, "
            f"{spills[1] if spills else '?'} bytes of stack, spills {spills[2] if spills else '?'} bytes stored and "
            f"{spills[3] if spills else '?'} loaded, {shared[1] if shared else 0} bytes of static shared memory"
        )
    return tuple(sentences)
