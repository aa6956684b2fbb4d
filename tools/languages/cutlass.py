"""CUDA C++ with the headers of CUTLASS and CuTe; contract, screen and compiler are those of `cuda`.

The headers are found in CUTLASS_PATH (`--cutlass DIR` sets it), whose include/ contains cutlass/version.h, or in the
wheel `nvidia-cutlass`. They count as part of the compiler.
"""

from __future__ import annotations

import re

from tools.artifacts import Task
from tools.errors import SettingsError
from tools.executors.base import Job, Limits
from tools.executors.toolchain import Compiler, Toolchain
from tools.languages.cuda import Cuda
from tools.store.blobs import Blobs

_NOT_FOUND_MESSAGE = (
    "CUTLASS was not found: {} contains no include/cutlass/version.h; name its folder with `--cutlass DIR` or "
    "CUTLASS_PATH, or `pip install nvidia-cutlass` (only CUTLASS kernels need it)"
)
_BUILD_LIMITS = Limits(wall_s=600.0, memory_bytes=32 << 30)


class Cutlass(Cuda):
    """CUDA C++17 with nvcc and CUTLASS."""

    name = "cutlass"
    source_pattern = re.compile(r"^\s*#\s*include\s*[<\"]cut(lass|e)/", re.MULTILINE)

    def compiler(self, toolchain: Toolchain) -> Compiler:
        """Return nvcc and the headers by version and content; SettingsError if one of them is missing."""
        if not toolchain.cutlass:
            raise SettingsError(_NOT_FOUND_MESSAGE.format(toolchain.cutlass_folder))
        nvcc = super().compiler(toolchain)
        return nvcc.model_copy(update={"version": f"{nvcc.version} with CUTLASS {toolchain.cutlass}"})

    def flags(self, task: Task, toolchain: Toolchain) -> tuple[str, ...]:
        """Return the flags of CUDA with -DNDEBUG: an assertion in a main loop makes ptxas serialise the wgmma
        instructions."""
        return (*super().flags(task, toolchain), "-DNDEBUG")

    def _job(self, task: Task | None, files: dict[str, str], blobs: Blobs, **request_fields: object) -> Job:
        return (
            super()
            ._job(task, files, blobs, cutlass=True, **request_fields)
            .model_copy(update={"limits": _BUILD_LIMITS})
        )
