"""`export --format patch`: the kernel behind the lines that the user names, where it was judged and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graph.__main__ import main
from graph.export.accepted import AcceptedKernel, UserFile
from graph.export.formats import FORMATS
from tests.exported import made
from tests.graph.conftest import refused
from tests.graph.export.test_export import triton  # noqa: F401  (a fixture)
from tests.support import Beside, Capsys, run_captured
from tools.artifacts import Argument, Task, Workload
from tools.errors import SettingsError
from tools.executors.protocol import ProbedArgument, ProbedWorkload
from tools.executors.toolchain_job import read_toolchain
from tools.harness.compilation.cuda_compile import program
from tools.languages.cpp import Cpp
from tools.tasks.loader import load_task_folder

OWN = """#include <cstdio>
#define STEP 2
static int other() { return STEP; }

extern "C" void scaled(const float* x, float* out, int n, float by) {
  for (int i = 0; i < n; ++i)
    out[i] = x[i] * by;
}
"""
FASTER = """#include <cstring>
#define STEP 3
extern "C" void solve(const float* x, float* out, int n, float by) {
  for (int i = 0; i < n; ++i) out[i] = STEP;
}
"""
PROGRAM_OF_OWN = """
int main() {
  alignas(64) static float x[4096], out[4096];
  scaled(x, out, 1024, 2.0f); std::printf("%g ", out[0]);
  scaled(x, out, 512, 2.0f); std::printf("%g ", out[0]);
  scaled(x, out, 4096, 2.0f); std::printf("%g ", out[0]);
  scaled(x, out, 1024, 4.0f); std::printf("%g ", out[0]);
  scaled(x + 1, out, 1024, 2.0f); std::printf("%g %d", out[0], other());
}
"""
REFERENCE = """import torch
outputs = ("out",)
workloads = [{"dims": {"n": 1024, "by": 2.0}}]
dims_range = {"n": (256, 1024)}
def make_inputs(dims, seed):
    x = torch.randn(dims["n"])
    return {"x": x, "out": torch.empty_like(x), "n": dims["n"], "by": dims["by"]}
def reference(x, by, **rest):
    return x * by
"""
PYTHON = "import torch\n\ndef mine(x, out, M, N):\n    out.fill_(\n        1.0)\n    return out\n"
SEVEN = "import torch\n\ndef run_kernel(x, out, M, N):\n    out.fill_(7.0)\n"
CUDA = """__global__ void scale(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
void launch(float* out, const float* in, int n, cudaStream_t stream) {
  scale<<<(n + 255) / 256, 256, 0, stream>>>(out, in, n);
}
"""


def with_file(kernel: AcceptedKernel, name: str, text: str, lines: tuple[int, int] | None) -> AcceptedKernel:
    return kernel.model_copy(update={"user_file": UserFile(name=name, text=text, lines=lines, in_package=False)})


def applied(folder: Path, kernel: AcceptedKernel) -> str:
    """The user's file after the patch, which lies beside what the patch makes."""
    assert kernel.user_file is not None
    (folder / kernel.user_file.name).write_text(kernel.user_file.text)
    (folder / "it.patch").write_text(next(iter(FORMATS["patch"](kernel).values())))
    subprocess.run(["git", "apply", "it.patch"], cwd=folder, check=True)
    return (folder / kernel.user_file.name).read_text()


def test_a_patched_file_calls_the_kernel_where_it_was_judged_and_its_own_lines_elsewhere(
    beside: Beside, tmp_path: Path
) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.cpp").write_text(OWN.replace("scaled(", "solve("))
    loaded, cpp = load_task_folder(tmp_path, *beside), Cpp()
    kernel = made(loaded, FASTER, cpp, cpp.flags(loaded.task, read_toolchain(*beside)))
    applied(tmp_path, with_file(kernel, "mine.cpp", OWN, (6, 7)))
    (tmp_path / "main.cpp").write_text(f'#include "mine.cpp"\n{PROGRAM_OF_OWN}')

    def printed(*flags: str) -> str:
        subprocess.run(["g++", "-std=c++17", *flags, "main.cpp", "-o", "it"], cwd=tmp_path, check=True)
        return run_captured(["./it"], cwd=tmp_path, check=True).stdout

    # Timed, drawn, too large, another number, misaligned; and a macro of both files keeps its value in each.
    assert printed("-DKERNELWRIGHT") == "3 3 0 0 0 2"
    assert printed() == "0 0 0 0 0 2", "without the macro the file is as it was"
    assert printed("-DKERNELWRIGHT", "-ffast-math") == "0 0 0 0 0 2", "the kernel was judged with exact arithmetic"


def test_a_patched_python_file_does_so_too(triton: AcceptedKernel, tmp_path: Path) -> None:  # noqa: F811
    applied(tmp_path, with_file(triton.model_copy(update={"source": SEVEN}), "mine.py", PYTHON, (4, 5)))
    code = "import torch, mine\nfor M in (3, 5): print(float(mine.mine(torch.rand(M, 70), torch.zeros(M, 70), M, 70)[0, 0]))"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = run_captured([sys.executable, "-c", code], cwd=tmp_path, env=environment)
    assert done.stdout.split() == ["7.0", "1.0"], done.stderr


def test_a_launch_on_a_stream_is_kept_where_the_stream_is_not_the_default_one(tmp_path: Path) -> None:
    arguments = tuple(
        Argument(name=name, role=role, dtype=dtype, shape=shape)
        for name, role, dtype, shape in (
            ("out", "output", "float32", ("n",)),
            ("in", "input", "float32", ("n",)),
            ("n", "scalar", "int32", ()),
        )
    )
    task = Task(
        name="scale",
        language="cuda",
        arguments=arguments,
        reference="",
        baseline="",
        workloads=(Workload(name="w", dims={"n": 4096}),),
    )
    seen = tuple(
        ProbedArgument(
            **a.model_dump(exclude={"shape"}), shape=(4096,) if a.shape else (), value=None if a.shape else 4096
        )
        for a in arguments
    )
    workload = ProbedWorkload(name="w", dims={"n": 4096}, arguments=seen, weight=1.0, flops=1, unique_bytes=1)
    source = CUDA.replace("void launch", 'extern "C" void solve').replace(", cudaStream_t stream", "")
    kernel = AcceptedKernel(
        task=task,
        probed_workloads=(workload,),
        source=source.replace(", 0, stream", ""),
        suffix=".cu",
        device="cuda",
        architecture="sm_90",
        flags=(),
        covers_drawn_sizes=True,
        title="A test.",
    )
    changed = applied(tmp_path, with_file(kernel, "own.cu", CUDA, (6, 6)))
    guard = "static_cast<cudaStream_t>(stream) == nullptr && own_kernelwright::accepts({out, in}, n)"
    assert f"if ({guard}) own_kernelwright::solve(out, in, n);\n  else\n#endif\n  {{\n  scale<<<" in changed
    assert "capability != 90" in (tmp_path / "own_kernelwright.cuh").read_text()
    own_stream = kernel.model_copy(
        update={"takes_stream": True, "source": CUDA.replace("void launch", 'extern "C" void solve')}
    )
    (tmp_path / "streamed").mkdir()
    changed = applied(tmp_path / "streamed", with_file(own_stream, "own.cu", CUDA, (6, 6)))
    assert "if (own_kernelwright::accepts({out, in}, n)) own_kernelwright::solve(out, in, n, stream);\n" in changed
    if (compiler := program("nvcc")) is not None:
        command = [compiler, "-std=c++17", "-arch=sm_90a", "-DKERNELWRIGHT", "-c", "own.cu"]
        for folder in (tmp_path, tmp_path / "streamed"):
            subprocess.run(command, cwd=folder, check=True)


@pytest.mark.parametrize(("lines", "said"), [(None, "--at"), ((6, 99), "has the lines 1 to 6")])
def test_lines_that_are_missing_or_not_in_the_file_are_refused(
    lines: tuple[int, int] | None,
    said: str,
    triton: AcceptedKernel,  # noqa: F811
) -> None:
    with pytest.raises(SettingsError, match=said):
        FORMATS["patch"](with_file(triton.model_copy(update={"source": SEVEN}), "mine.py", PYTHON, lines))


def test_a_patch_that_would_call_the_users_own_kernel_again_is_refused(triton: AcceptedKernel) -> None:  # noqa: F811
    with pytest.raises(SettingsError, match="no version was accepted"):
        FORMATS["patch"](with_file(triton, "mine.py", PYTHON, (4, 5)))


def test_the_command_says_what_remains_to_be_checked_by_hand(recorded: Path, tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "mine.cpp").write_text(OWN)
    command = [
        "export",
        str(recorded),
        "--format",
        "patch",
        "--file",
        str(tmp_path / "mine.cpp"),
        "--out",
        str(tmp_path),
    ]
    assert main([*command, "--at", "6-7"]) == 0
    printed = capsys.readouterr().out
    assert "-DKERNELWRIGHT" in printed and "the arguments have the task's names there (" in printed
    assert "--at six: give the lines" in refused(capsys, *command, "--at", "six")
