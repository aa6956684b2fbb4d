"""compute-sanitizer names the kernel and the line of a read beyond an input, and finds nothing in a clean one.

CUDA sources that attack the measurement, and honest ones that look odd, are in tests/kernels.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.builders import open_judge
from tools.artifacts import Argument, Candidate, Task, Workload
from tools.executors.local import LocalExecutor
from tools.gate.judge_settings import JudgeSettings
from tools.harness.compilation import cuda_compile
from tools.languages.cuda import Cuda
from tools.store.records import Records

REFERENCE = """
import torch

outputs = ("y",)


def make_inputs(dims, seed, device="cpu"):
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(dims["n"], generator=generator, device=device)
    return {"x": x, "y": torch.empty_like(x), "n": dims["n"]}


def reference(x, y, n):
    return x * x + 1
"""
CLEAN = """#include <cuda_runtime.h>

__global__ void square(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i] + 1.0f;
}

extern "C" void solve(const float* x, float* y, int n) { square<<<(n + 255) / 256, 256>>>(x, y, n); }
"""
OUTSIDE = CLEAN.replace("if (i < n) y[i] =", "float beyond = 0.0f * x[n + i];\n  if (i < n) y[i] = beyond +")


def task() -> Task:
    flat: dict[str, object] = {"dtype": "float32", "shape": ("n",)}
    arguments = (
        Argument(name="x", role="input", **flat),  # type: ignore[arg-type]
        Argument(name="y", role="output", **flat),  # type: ignore[arg-type]
        Argument(name="n", role="scalar", dtype="int32"),
    )
    workloads = (Workload(name="w", dims={"n": 1_000_003}),)
    return Task(
        name="square", language="cuda", arguments=arguments, reference=REFERENCE, workloads=workloads, baseline=CLEAN
    )


@pytest.mark.gpu
@pytest.mark.skipif(cuda_compile.program("nvcc") is None, reason="no nvcc here")
def test_memcheck_names_kernel_and_line_of_a_read_beyond_the_input(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device here")
    records = Records(tmp_path)
    with LocalExecutor(records.blobs, tmp_path / "scratch") as executor:
        judge = open_judge(task(), Cuda(), executor, records, JudgeSettings(hidden_workloads=0), device="cuda:0")
        clean, faulty = (
            judge.read_or_run_sanitizers(Candidate(language="cuda", files={"kernel.cu": source}))
            for source in (CLEAN, OUTSIDE)
        )
    assert clean and faulty
    if clean.payload["missing"]:
        pytest.skip(clean.payload["missing"])
    assert not clean.payload["failed"] and not clean.payload["found"]["memcheck"], clean.payload
    assert any("square" in line and "kernel.cu:" in line for line in faulty.payload["found"].get("memcheck", ())), (
        faulty.payload
    )
    assert clean.payload["seconds"] < 30, clean.payload
