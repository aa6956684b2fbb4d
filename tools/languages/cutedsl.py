"""Kernels in CuTe DSL, the Python of CUTLASS: `run_kernel(**kwargs)` calls what `cute.compile` made, once for each
signature.

As with Triton the built library is the source itself, once all that `run_kernel` compiles at the task's workloads was
compiled for the GPU that is here, or for sm_90a where there is none; that needs the wheel and no GPU. `build_flags:
[--target=sm_100a]` names another.
"""

from __future__ import annotations

import json
import re
from importlib import metadata

from tools.artifacts import Task
from tools.errors import SettingsError
from tools.executors.base import Executor, Job, Limits
from tools.executors.harness_job import harness_files
from tools.languages.base import Toolchain
from tools.languages.triton import KERNEL, Triton
from tools.languages.triton_interpreter import Interpreted
from tools.store.records import Blobs

WHEEL = "nvidia-cutlass-dsl"
_SCRIPT = "harness/compilation/cutedsl_compile.py"
_TARGET = re.compile(r"--target=(sm_\d+[af]?)")
_MISSING = f"CuTe DSL was not found; install its wheel: `pip install {WHEEL}` (Linux)"
_LIMITS = Limits(wall_s=300.0, memory_bytes=32 << 30)


class CuteDsl(Triton):
    """CuTe DSL, compiled by the wheel found here and run by the harness; contract and screen of the host code are
    Triton's."""

    name = "cutedsl"
    marks = re.compile(r"^\s*(import|from)\s+cutlass\b", re.MULTILINE)

    def toolchain(self) -> Toolchain:
        """The installed wheel, by its metadata; SettingsError when it is missing."""
        try:
            version = metadata.version(WHEEL)
        except metadata.PackageNotFoundError:
            raise SettingsError(_MISSING) from None
        return Toolchain(name=WHEEL, version=version, family="cutedsl", argv=("{python}", "-m", "cutlass"))

    def flags(self, task: Task) -> tuple[str, ...]:
        """The target that the task names, if it does."""
        for flag in task.build_flags:
            if not _TARGET.fullmatch(flag):
                raise SettingsError(
                    f"build_flags: {flag!r} cannot be used with CuTe DSL; allowed is --target=sm_NN, as --target=sm_90a"
                )
        return task.build_flags

    def interpret(self, task: Task, source: str, executor: Executor, blobs: Blobs) -> Interpreted | None:
        """None: it has no interpreter."""
        return None

    def _job(self, task: Task, kernel: str, blobs: Blobs, *, listing: bool) -> Job:
        target = next((m[1] for flag in self.flags(task) if (m := _TARGET.fullmatch(flag))), "")
        request = {
            "reference": task.reference,
            "workloads": [w.dims for w in task.workloads],
            "target": target,
            "listing": listing,
        }
        return Job(
            files={**harness_files(blobs), KERNEL: kernel, "build.json": blobs.put(json.dumps(request))},
            argv=("{python}", "-I", _SCRIPT),
            limits=_LIMITS,
            results=(KERNEL, "assembly.txt", "facts.json"),
        )
