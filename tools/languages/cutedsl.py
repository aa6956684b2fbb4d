"""Kernels in CuTe DSL, the Python of CUTLASS: `run_kernel(**kwargs)` calls what `cute.compile` returned, once for each
signature.

As with Triton, a build's output is the source itself. The build compiles everything that `run_kernel` compiles at the
task's workloads, for the GPU of the machine, or for sm_90a without a GPU; it needs the wheel and no GPU.
`build_flags: [--target=sm_100a]` names another target.
"""

from __future__ import annotations

import json
import re

from tools.artifacts import Task
from tools.errors import SettingsError
from tools.executors.base import Executor, Job, Limits
from tools.executors.harness_job import harness_files
from tools.executors.toolchain import Compiler, Toolchain
from tools.languages.triton import KERNEL_FILE, Triton
from tools.languages.triton_interpreter import InterpreterResult
from tools.store.blobs import Blobs

WHEEL_NAME = "nvidia-cutlass-dsl"
_COMPILE_SCRIPT = "harness/compilation/cutedsl_compile.py"
_TARGET_FLAG = re.compile(r"--target=(sm_\d+[af]?)")
_NOT_FOUND_MESSAGE = f"CuTe DSL was not found; install its wheel: `pip install {WHEEL_NAME}` (Linux)"
_BUILD_LIMITS = Limits(wall_s=300.0, memory_bytes=32 << 30)


class CuteDsl(Triton):
    """CuTe DSL, compiled by the installed wheel and run by the harness; contract and screen of the host code are those
    of Triton."""

    name = "cutedsl"
    source_pattern = re.compile(r"^\s*(import|from)\s+cutlass\b", re.MULTILINE)

    def compiler(self, toolchain: Toolchain) -> Compiler:
        """Return the wheel; SettingsError if it is missing."""
        version = toolchain.packages.get(WHEEL_NAME)
        if version is None:
            raise SettingsError(_NOT_FOUND_MESSAGE)
        return Compiler(name=WHEEL_NAME, version=version, family="cutedsl", argv=("{python}", "-m", "cutlass"))

    def takes_stream(self, source: str) -> bool:
        """False: `launch` without a stream is on the default one."""
        return False

    def flags(self, task: Task, toolchain: Toolchain | None = None) -> tuple[str, ...]:
        """Return the --target flag of the task, if it has one; SettingsError for any other flag."""
        for flag in task.build_flags:
            if not _TARGET_FLAG.fullmatch(flag):
                raise SettingsError(
                    f"build_flags: {flag!r} cannot be used with CuTe DSL; allowed is --target=sm_NN, as --target=sm_90a"
                )
        return task.build_flags

    def interpret(self, task: Task, source: str, executor: Executor, blobs: Blobs) -> InterpreterResult | None:
        """Return None: CuTe DSL has no interpreter."""
        return None

    def _job(self, task: Task, kernel: str, blobs: Blobs, *, listing: bool) -> Job:
        target = next((m[1] for flag in self.flags(task) if (m := _TARGET_FLAG.fullmatch(flag))), "")
        request = {
            "reference": task.reference,
            "workloads": [w.dims for w in task.workloads],
            "target": target,
            "listing": listing,
        }
        return Job(
            files={**harness_files(blobs), KERNEL_FILE: kernel, "build.json": blobs.put(json.dumps(request))},
            argv=("{python}", "-I", _COMPILE_SCRIPT),
            limits=_BUILD_LIMITS,
            results=(KERNEL_FILE, "assembly.txt", "facts.json"),
        )
