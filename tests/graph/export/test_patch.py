"""`export --format patch`: the kernel behind the user's own function, where it was judged and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graph.export.accepted import Accepted
from graph.export.formats import FORMATS
from tests.graph.export.test_export import made, triton  # noqa: F401  (a fixture)
from tests.tools.tasks.test_scaffold import LAUNCHER, PROGRAM, TORCH
from tools.artifacts import Argument, Task, Workload
from tools.errors import SettingsError
from tools.executors.local import Local
from tools.executors.protocol import SeenArgument, SeenWorkload
from tools.harness.compilation.cuda_compile import program
from tools.languages.cpp import Cpp
from tools.store.records import Blobs
from tools.tasks.loader import load_folder
from tools.tasks.scaffold import scaffold

OWN = """#include <cstdio>
#define STEP 2
static int other() { return STEP; }

extern "C" void solve(const float* x, float* out, int n, float by) {
  for (int i = 0; i < n; ++i) out[i] = x[i] * by;
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
  solve(x, out, 1024, 2.0f); std::printf("%g ", out[0]);
  solve(x, out, 512, 2.0f); std::printf("%g ", out[0]);
  solve(x, out, 4096, 2.0f); std::printf("%g ", out[0]);
  solve(x, out, 1024, 4.0f); std::printf("%g ", out[0]);
  solve(x + 1, out, 1024, 2.0f); std::printf("%g %d", out[0], other());
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


def applied(folder: Path, kernel: Accepted) -> str:
    """The user's file after the patch, which lies beside what the patch makes."""
    assert kernel.own is not None
    (folder / kernel.own_name).write_text(kernel.own)
    (folder / "it.patch").write_text(next(iter(FORMATS["patch"](kernel).values())))
    subprocess.run(["git", "apply", "it.patch"], cwd=folder, check=True)
    return (folder / kernel.own_name).read_text()


def test_a_patched_file_calls_the_kernel_where_it_was_judged_and_itself_elsewhere(beside: tuple[Local, Blobs], tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.cpp").write_text(OWN)
    loaded, cpp = load_folder(tmp_path, *beside), Cpp()
    kernel = made(loaded, FASTER, cpp, cpp.flags(loaded.task)).model_copy(update={"own": OWN, "own_name": "mine.cpp"})
    applied(tmp_path, kernel)
    (tmp_path / "main.cpp").write_text(f'#include "mine.cpp"\n{PROGRAM_OF_OWN}')
    subprocess.run(["g++", "-std=c++17", "main.cpp", "-o", "it"], cwd=tmp_path, check=True)
    said = subprocess.run(["./it"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    # Timed, drawn, too large, another number, misaligned; and a macro of both keeps its value in either.
    assert said == "3 3 0 0 0 2"


@pytest.mark.parametrize("renamed", [False, True], ids=["run_kernel", "own-function"])
def test_a_patched_python_file_does_so_too(renamed: bool, triton: Accepted, tmp_path: Path) -> None:  # noqa: F811
    source, own = "import torch\n\ndef run_kernel(x, out, M, N):\n    out.fill_(7.0)\n", triton.task.baseline or ""
    baseline = own
    if renamed:
        own = own.replace("def run_kernel(", "def mine(")
        baseline = f"{own}\n\ndef run_kernel(x, out, M, N):\n    mine(x, out, M, N)\n"
    task = triton.task.model_copy(update={"baseline": baseline})
    applied(tmp_path, triton.model_copy(update={"task": task, "source": source, "own": own, "own_name": "softmax.py"}))
    program = "import torch, softmax\nfor rows in (3, 5):\n    x = torch.rand(rows, 70); out = torch.zeros_like(x)\n"
    program += f"    softmax.{'mine' if renamed else 'run_kernel'}(x, out, rows, 70)\n    print(float(out.sum() / out.numel() * 70))\n"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    said = [round(float(line), 3) for line in done.stdout.split()]
    assert said == [490.0, 1.0], done.stderr


def accepted(folder: Path, own: str, workload: dict[str, Any]) -> Accepted:
    """As if a run that began with `init` of `own` had accepted what it began with."""
    (folder / "own.cu").write_text(own)
    scaffold(folder / "own.cu", folder / "task")
    source = (folder / "task" / "kernel.cu").read_text()
    parameters = re.findall(r"([\w ]+\*?) (\w+)[,)]", source[source.index('extern "C"') :].split("{")[0].partition("(")[2])
    arguments = tuple(
        Argument(name=name, role="scalar" if "*" not in kind else "input" if "const" in kind else "output", dtype=dtype, shape=shape)
        for kind, name in parameters
        for dtype, shape in [("int32" if "int" in kind else "float32", ("4096",) if "*" in kind else ())]
    )
    task = Task(
        name="scaled",
        language="cuda",
        arguments=arguments,
        reference="",
        baseline=source,
        workloads=(Workload(name="w", dims=workload),),
    )
    seen = SeenWorkload(
        name="w",
        dims=workload,
        arguments=tuple(
            SeenArgument(**a.model_dump(exclude={"shape"}), shape=(4096,) if a.shape else (), value=workload.get(a.name)) for a in arguments
        ),
        weight=1.0,
        flops=1,
        unique_bytes=1,
    )
    return Accepted(
        task=task,
        seen=(seen,),
        source=source,
        suffix=".cu",
        device="cuda",
        architecture="sm_90",
        flags=(),
        beyond=True,
        own=own,
        own_name="own.cu",
        title="A test.",
    )


@pytest.mark.parametrize(
    ("own", "workload", "guard"),
    [
        pytest.param(
            LAUNCHER,
            {"n": 4096},
            "n, int block_size) {\n  if (own_kernelwright::judged({out, in}, n)) {\n    own_kernelwright::solve(out, in, n);\n    return;",
            id="launcher",
        ),
        pytest.param(
            PROGRAM.replace('#include "tile.cuh"', "#define TILE 256\n"),
            {"count": 4096},
            "if (own_kernelwright::judged({d_x, d_out}, count)) own_kernelwright::solve(d_x, d_out, count);\n  else scale<<<",
            id="program",
        ),
        pytest.param(
            TORCH,
            {"rows": 64, "columns": 64, "by": 2.0},
            "if (own_kernelwright::judged({x.data_ptr<float>(), out.data_ptr<float>()}, rows, columns, by)) ",
            id="torch",
        ),
    ],
)
def test_a_launch_of_cuda_is_guarded_in_each_style(own: str, workload: dict[str, Any], guard: str, tmp_path: Path) -> None:
    changed = applied(tmp_path, accepted(tmp_path, own, workload))
    assert guard in changed and "capability != 90" in (tmp_path / "own_kernelwright.cuh").read_text()
    compiler = program("nvcc")
    if compiler is not None and "torch/" not in own:
        subprocess.run([compiler, "-std=c++17", "-arch=sm_90a", "-c", "own.cu"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (LAUNCHER.replace("void launch", "int launch").replace(", 2.f, n); }", ", 2.f, n); return 0; }"), "returns something"),
        (LAUNCHER + "void again(const float* a, float* b, int n) { launch(b, a, n, 1); }\n", None),
        (LAUNCHER[: LAUNCHER.index("void launch")], "no one launch"),
    ],
    ids=["returns", "called-by-another", "bare"],
)
def test_a_file_in_which_nothing_can_be_guarded_is_refused(own: str, said: str | None, tmp_path: Path) -> None:
    kernel = accepted(tmp_path, own, {"n": 4096, "by": 2.0})
    if said is None:
        assert "judged" in applied(tmp_path, kernel)
        return
    with pytest.raises(SettingsError, match=said):
        FORMATS["patch"](kernel)
