"""CUTLASS: found and known by its headers' content, screened like CUDA; the prompt's skeleton is a kernel that
compiles."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support import BARE, Beside, toolchain_here
from tools.artifacts import Candidate, Task
from tools.errors import SettingsError
from tools.harness.compilation import cuda_compile
from tools.languages.cutlass import Cutlass
from tools.screen.screen import screen

NAIVE = Path("configs/tasks/cutlass-gemm/kernel.cu").read_text()
SKELETON = re.findall(r"```cpp\n(.*?)```", Path("agents/prompts/languages/cutlass.md").read_text(), re.DOTALL)[0]
KERNEL = f"""#include <cuda_bf16.h>
{SKELETON}
extern "C" void solve(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int M, int N, int K,
                      cudaStream_t stream) {{
  product(reinterpret_cast<const Element*>(a), reinterpret_cast<const Element*>(b), reinterpret_cast<Element*>(c), M, N, K,
          stream);
}}
"""
TASK = Task.model_validate(
    {
        "name": "gemm",
        "language": "cutlass",
        "arguments": [],
        "reference": "",
        "workloads": [{"name": "one", "dims": {"M": 4}}],
    }
)


def headers(folder: Path, more: str = "") -> Path:
    version = folder / "include" / "cutlass" / "version.h"
    version.parent.mkdir(parents=True)
    version.write_text(f"#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n{more}")
    return folder


def compilers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    nvcc = folder / "nvcc"
    nvcc.write_text("#!/bin/sh\necho Cuda compilation tools, release 13.0, V13.0.88\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_without_headers_it_is_said_how_to_name_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    with pytest.raises(
        SettingsError,
        match=f"{tmp_path} contains no include/cutlass/version.h; .*--cutlass DIR.*pip install nvidia-cutlass",
    ):
        Cutlass().compiler(toolchain_here(tmp_path))


def test_a_patched_copy_of_the_headers_is_another_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compilers(monkeypatch, tmp_path)
    said = []
    for name, more in (("a", ""), ("b", ""), ("c", "// patched\n")):
        monkeypatch.setenv("CUTLASS_PATH", str(headers(tmp_path / name, more)))
        said.append(Cutlass().compiler(toolchain_here(tmp_path)).version)
    assert said[0].startswith("13.0.88 with CUTLASS 4.2.0 (headers ")
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize("source", [NAIVE, KERNEL], ids=["naive", "skeleton"])
def test_honest_kernels_pass_the_screen(source: str) -> None:
    assert screen(source, "cutlass") == ()
    assert [p.name for p in Cutlass().parameters(source)] == ["a", "b", "c", "M", "N", "K"]


def test_a_gemm_that_is_kept_across_calls_is_refused() -> None:
    assert "lives across calls" in " ".join(screen(KERNEL.replace("  Gemm gemm;", "  static Gemm gemm;"), "cutlass"))


@pytest.mark.slow
@pytest.mark.skipif(
    cuda_compile.program("nvcc") is None or not cuda_compile.cutlass().is_dir(), reason="no nvcc or no CUTLASS here"
)
def test_the_prompts_skeleton_compiles_and_its_products_are_not_serialised(beside: Beside) -> None:
    (executor, blobs), cutlass = beside, Cutlass()
    done = executor.run(cutlass.build(TASK, Candidate(language="cutlass", files={"kernel.cu": KERNEL}), blobs, BARE))
    log = blobs.text(done.files["stderr.txt"])
    assert cutlass.build_output_digest(done) is not None, cutlass.trim_log(log)
    assert "serialized" not in log and "device_kernel for sm_90a" in cutlass.trim_log(log)
