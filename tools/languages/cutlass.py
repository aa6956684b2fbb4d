"""CUDA C++ with the headers of CUTLASS and CuTe; contract, screen and compiler are those of `cuda`.

The headers are found in CUTLASS_PATH (`--cutlass DIR` sets it), whose include/ contains cutlass/version.h, or in the
wheel `nvidia-cutlass`. They count as part of the compiler.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from tools.artifacts import Task
from tools.errors import SettingsError
from tools.executors.base import Job, Limits
from tools.harness.compilation import cuda_compile
from tools.languages.base import Toolchain
from tools.languages.cuda import Cuda
from tools.store.blobs import Blobs

_NOT_FOUND_MESSAGE = (
    "CUTLASS was not found: {} contains no include/cutlass/version.h; name its folder with `--cutlass DIR` or "
    "CUTLASS_PATH, or `pip install nvidia-cutlass`"
)
_BUILD_LIMITS = Limits(wall_s=600.0, memory_bytes=32 << 30)


class Cutlass(Cuda):
    """CUDA C++17 with nvcc and CUTLASS."""

    name = "cutlass"
    source_pattern = re.compile(r"^\s*#\s*include\s*[<\"]cut(lass|e)/", re.MULTILINE)

    def toolchain(self) -> Toolchain:
        """Return nvcc and the headers by version and content; SettingsError if one of them is missing."""
        folder = cuda_compile.cutlass()
        if not (folder / "include" / "cutlass" / "version.h").is_file():
            raise SettingsError(_NOT_FOUND_MESSAGE.format(folder))
        nvcc = super().toolchain()
        return nvcc.model_copy(update={"version": f"{nvcc.version} with CUTLASS {_header_version(folder)}"})

    def flags(self, task: Task) -> tuple[str, ...]:
        """Return the flags of CUDA with -DNDEBUG: an assertion in a main loop makes ptxas serialise the wgmma
        instructions."""
        return (*super().flags(task), "-DNDEBUG")

    def _job(self, task: Task | None, files: dict[str, str], blobs: Blobs, **request_fields: object) -> Job:
        return (
            super()
            ._job(task, files, blobs, cutlass=True, **request_fields)
            .model_copy(update={"limits": _BUILD_LIMITS})
        )


@cache
def _header_version(folder: Path) -> str:
    """Return the version of the headers with a hash of their contents, so a patched copy counts as another version."""
    version = (folder / "include" / "cutlass" / "version.h").read_text(encoding="utf-8")
    numbers = [
        match[1]
        for part in ("MAJOR", "MINOR", "PATCH")
        if (match := re.search(rf"define CUTLASS_{part}\s+(\d+)", version))
    ]
    content = hashlib.sha256()
    for root in cuda_compile.includes(folder):
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            content.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return f"{'.'.join(numbers)} (headers {content.hexdigest()[:12]})"
