"""`init`: a task folder around a file as somebody has it, in CUDA, C++ and Triton."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from graph.__main__ import main
from tests.support import Capsys
from tools.errors import SettingsError
from tools.languages.cuda import Cuda
from tools.tasks.scaffold import Scaffold, scaffold

KERNEL = """template <typename T>
__global__ void scale(const T* __restrict__ x, T* out, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = by * x[i];
}
"""
TORCH = (
    "#include <torch/extension.h>\n#include <cuda_runtime.h>\n"
    + KERNEL
    + """torch::Tensor scaled(torch::Tensor x, double by) {
  TORCH_CHECK(x.is_cuda());
  const int rows = x.size(0); const int columns = x.size(1);
  auto out = torch::empty_like(x);
  const int threads = 128;
  scale<float><<<(rows * columns + threads - 1) / threads, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), by, rows * columns);
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scaled", &scaled); }
"""
)
PROGRAM = (
    '#include <fstream>\n#include "tile.cuh"\n'
    + KERNEL
    + """void report(float* x) { std::ofstream("x") << x[0]; }
int main(int argc, char** argv) {
  int count = 4096;
  size_t bytes = count * sizeof(float);
  float *d_x, *d_out;
  cudaMalloc(&d_x, bytes);
  cudaMalloc((void**)&d_out, bytes);
  scale<<<count / TILE, TILE>>>(d_x, d_out, 2.0f, count);
  report(d_out);
}
"""
)
LAUNCHER = (
    KERNEL + "void launch(float* out, const float* in, int n, int block_size) { scale<<<n / block_size, "
    "block_size>>>(in, out, 2.f, n); }\n"
)


def made(folder: Path, name: str, source: str, entry: str | None = None) -> tuple[Scaffold, str, str]:
    (folder / name).write_text(source)
    done = scaffold(folder / name, folder / "task", entry)
    kernel = next((folder / "task").glob("kernel.*")).read_text()
    return done, kernel, (folder / "task" / "reference.py").read_text()


def signature(kernel: str) -> list[tuple[str, str, bool]]:
    return [(p.name, p.dtype, p.pointer) for p in Cuda().parameters(kernel)]


def inputs(reference: str) -> dict[str, object]:
    space: dict[str, object] = {}
    exec(compile(reference, "reference.py", "exec"), space)
    return space["make_inputs"](space["workloads"][0]["dims"], 0)  # type: ignore[operator, index]


def test_a_function_of_tensors_becomes_a_launch_to_fill_without_torch(tmp_path: Path) -> None:
    done, kernel, reference = made(tmp_path, "scaled.cu", TORCH)
    assert (done.kernels, done.launchers, done.chosen) == (("scale",), ("scaled",), "scaled")
    assert not re.search(r"^[^/\n]*torch", kernel, re.MULTILINE) and "PYBIND" not in kernel
    assert KERNEL.strip() in kernel
    assert "scaled launches scale<float><<<(rows * columns + threads - 1) / threads, threads>>>(x.data_ptr" in kernel
    assert kernel.rstrip().endswith("scale<float><<<1, 256, 0, stream>>>(x, out, by, n);\n}")
    assert signature(_without_kernel(kernel)) == [
        ("x", "float32", True),
        ("out", "float32", True),
        ("by", "float32", False),
        ("n", "int32", False),
    ]
    given = inputs(reference)
    assert list(given) == ["x", "out", "by", "n"] and given["x"].shape == given["out"].shape == (1 << 20,)


def test_a_programs_launch_and_clears_are_quoted_and_unused_code_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "tile.cuh").write_text("#pragma once\n#define TILE 256\n#define OTHER 1\n")
    cleared = PROGRAM.replace("  scale<<<", "  cudaMemset(d_out, 0, bytes);\n  scale<<<")
    done, kernel, _ = made(tmp_path, "program.cu", cleared)
    assert done.inlined == ("tile.cuh",) and {"main", "report"} == set(done.left_out)
    assert "#define TILE 256" in kernel and not any(word in kernel for word in ("OTHER", "fstream", "pragma"))
    assert "clear what main clears: cudaMemset(d_out, 0, bytes)" in kernel
    assert "main launches scale<<<count / TILE, TILE>>>(d_x, d_out, 2.0f, count)" in kernel
    assert any(place.startswith("kernel.cu") and "blocks and threads" in place for place in done.to_fill)


def test_a_launcher_of_pointers_is_called_and_its_threads_are_no_size(tmp_path: Path) -> None:
    _, kernel, _ = made(tmp_path, "launch.cu", LAUNCHER)
    assert signature(_without_kernel(kernel)) == [
        ("out", "float32", True),
        ("in", "float32", True),
        ("n", "int32", False),
    ]
    assert "const int block_size = 256;  // FILL:" in kernel and "launch(out, in, n, block_size);" in kernel


def test_a_launcher_gets_the_stream_of_solve(tmp_path: Path) -> None:
    source = (
        ADDS + "void run(const float* x, float* sum, int n, cudaStream_t s) { k<<<n / 256, 256, 0, s>>>(x, sum, n); }"
    )
    done, kernel, _ = made(tmp_path, "run.cu", source)
    assert (
        "void solve(const float* x, float* sum, int n, cudaStream_t stream) {\n  run(x, sum, n, stream);\n}" in kernel
    )
    assert not any(line.startswith("kernel.cu") for line in done.to_fill)


ADDS = "__global__ void k(const float* x, float* sum, int n) {}\n"


def test_cutlass_is_known_by_its_headers_and_a_line_that_ends_the_process_is_to_be_filled(tmp_path: Path) -> None:
    checked = '#include "cutlass/gemm/device/gemm.h"\n#define CHECK(e) if (e) exit(1)\n' + ADDS
    done, _, _ = made(
        tmp_path, "host.cu", checked + "void f(const float* x, float* s, int n) { k<<<1, 1>>>(x, s, n); CHECK(0); }"
    )
    assert (tmp_path / "task" / "task.yaml").read_text().endswith("language: cutlass\n")
    assert [place for place in done.to_fill if place.startswith("kernel.cu")] == [
        "kernel.cu:2: a kernel may not end the process; remove this"
    ]


def test_a_bare_kernel_leaves_its_launch_to_be_filled(tmp_path: Path) -> None:
    done, kernel, _ = made(tmp_path, "bare.cu", KERNEL.replace("template <typename T>\n", "").replace("T*", "float*"))
    assert done.launchers == () and "scale<<<1, 256, 0, stream>>>(x, out, by, n);" in kernel
    assert done.to_fill[0].startswith("kernel.cu:")


def test_a_plain_cpp_function_gets_solve_that_check_reads(tmp_path: Path, capsys: Capsys) -> None:
    source = (
        "#include <cmath>\nvoid halve(const float* x, float* out, int n) { for (int i = 0; i < n; ++i) out[i] = "
        "x[i] / 2; }\n"
    )
    (tmp_path / "halve.cc").write_text(source)
    assert main(["init", str(tmp_path / "halve.cc"), "--out", str(tmp_path / "task"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chosen"] == "halve"
    reference = tmp_path / "task" / "reference.py"
    assert main(["check", str(tmp_path / "task" / "config.yaml")]) == 2, "nothing was filled"
    assert "say in reference.py what the kernel computes" in capsys.readouterr().err
    reference.write_text(reference.read_text().replace(reference.read_text().splitlines()[-1], "    return x / 2"))
    assert main(["check", str(tmp_path / "task" / "config.yaml")]) == 0


def test_a_triton_function_that_returns_its_answer_gets_run_kernel(tmp_path: Path) -> None:
    source = (
        "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x, out, n, B: "
        "tl.constexpr):\n    pass\n\n\n"
        "def double(x: torch.Tensor, n: int):\n    out = torch.empty_like(x)\n    k[(n,)](x, out, n, B=64)\n    "
        "return out\n"
    )
    done, kernel, reference = made(tmp_path, "double.py", source)
    assert (done.kernels, done.launchers) == (("k",), ("double",))
    assert (
        kernel.startswith(source.rstrip())
        and "def run_kernel(x, n, out):\n    out.copy_(double(x, n))  # FILL:" in kernel
    )
    assert list(inputs(reference)) == ["x", "n", "out"]


def test_init_overwrites_nothing_and_names_what_there_is(tmp_path: Path) -> None:
    made(tmp_path, "launch.cu", LAUNCHER)
    with pytest.raises(SettingsError, match="not empty"):
        scaffold(tmp_path / "launch.cu", tmp_path / "task")
    with pytest.raises(SettingsError, match="launch"):
        scaffold(tmp_path / "launch.cu", tmp_path / "other", "lunch")


def _without_kernel(kernel: str) -> str:
    """`solve` alone: the C++ grammar does not know launches."""
    return kernel[kernel.index('extern "C"') :].split("{")[0] + "{}"
