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
from tools.tasks.loader import load_task_folder
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
SEVEN = "import torch\n\ndef run_kernel(x, out, M, N):\n    out.fill_(7.0)\n"
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


def test_a_patched_file_calls_the_kernel_where_it_was_judged_and_itself_elsewhere(
    beside: tuple[Local, Blobs], tmp_path: Path
) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.cpp").write_text(OWN)
    loaded, cpp = load_task_folder(tmp_path, *beside), Cpp()
    kernel = made(loaded, FASTER, cpp, cpp.flags(loaded.task)).model_copy(update={"own": OWN, "own_name": "mine.cpp"})
    applied(tmp_path, kernel)
    (tmp_path / "main.cpp").write_text(f'#include "mine.cpp"\n{PROGRAM_OF_OWN}')
    subprocess.run(["g++", "-std=c++17", "main.cpp", "-o", "it"], cwd=tmp_path, check=True)
    said = subprocess.run(["./it"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    # Timed, drawn, too large, another number, misaligned; and a macro of both keeps its value in either.
    assert said == "3 3 0 0 0 2"
    subprocess.run(["g++", "-std=c++17", "-ffast-math", "main.cpp", "-o", "it"], cwd=tmp_path, check=True)
    said = subprocess.run(["./it"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said == "0 0 0 0 0 2", "what was judged with exact arithmetic is not called without"


@pytest.mark.parametrize("renamed", [False, True], ids=["run_kernel", "own-function"])
def test_a_patched_python_file_does_so_too(renamed: bool, triton: Accepted, tmp_path: Path) -> None:  # noqa: F811
    source, own = SEVEN, triton.task.baseline or ""
    baseline = own
    if renamed:
        own = own.replace("def run_kernel(", "def mine(")
        baseline = f"{own}\n\ndef run_kernel(x, out, M, N):\n    mine(x, out, M, N)\n"
    task = triton.task.model_copy(update={"baseline": baseline})
    applied(tmp_path, triton.model_copy(update={"task": task, "source": source, "own": own, "own_name": "softmax.py"}))
    program = "import torch, softmax\nfor rows in (3, 5):\n    x = torch.rand(rows, 70); out = torch.zeros_like(x)\n"
    program += (
        f"    softmax.{'mine' if renamed else 'run_kernel'}(x, out, rows, 70)\n    print(float(out.sum() / "
        f"out.numel() * 70))\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    said = [round(float(line), 3) for line in done.stdout.split()]
    assert said == [490.0, 1.0], done.stderr


def accepted(folder: Path, own: str, workload: dict[str, Any]) -> Accepted:
    """As if a run that began with `init` of `own` had accepted what it began with."""
    (folder / "own.cu").write_text(own)
    scaffold(folder / "own.cu", folder / "task")
    source = (folder / "task" / "kernel.cu").read_text()
    parameters = re.findall(
        r"([\w ]+\*?) (\w+)[,)]", source[source.index('extern "C"') :].split("{")[0].partition("(")[2]
    )
    arguments = tuple(
        Argument(
            name=name,
            role="scalar" if "*" not in kind else "input" if "const" in kind else "output",
            dtype=dtype,
            shape=shape,
        )
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
            SeenArgument(
                **a.model_dump(exclude={"shape"}), shape=(4096,) if a.shape else (), value=workload.get(a.name)
            )
            for a in arguments
        ),
        weight=1.0,
        flops=1,
        unique_bytes=1,
    )
    return Accepted(
        task=task,
        seen=(seen,),
        source=f"// Faster.\n{source}",
        suffix=".cu",
        device="cuda",
        architecture="sm_90",
        flags=(),
        beyond=True,
        own=own,
        own_name="own.cu",
        own_whole=own,
        title="A test.",
    )


@pytest.mark.parametrize(
    ("own", "workload", "guard"),
    [
        pytest.param(
            LAUNCHER,
            {"n": 4096},
            "{\n  if (own_kernelwright::judged({out, in}, n)) own_kernelwright::solve(out, in, n);\n  else scale<<<n",
            id="launcher",
        ),
        pytest.param(
            PROGRAM.replace('#include "tile.cuh"', "#define TILE 256\n"),
            {"count": 4096},
            "if (own_kernelwright::judged({d_x, d_out}, count)) own_kernelwright::solve(d_x, d_out, count);\n    "
            "else scale<<<",
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
def test_a_launch_of_cuda_is_guarded_in_each_style(
    own: str, workload: dict[str, Any], guard: str, tmp_path: Path
) -> None:
    changed = applied(tmp_path, accepted(tmp_path, own, workload))
    assert guard in changed and "capability != 90" in (tmp_path / "own_kernelwright.cuh").read_text()
    compiler = program("nvcc")
    if compiler is not None and "torch/" not in own:
        subprocess.run([compiler, "-std=c++17", "-arch=sm_90a", "-c", "own.cu"], cwd=tmp_path, check=True)


RELU = LAUNCHER.replace("int n, int block_size) {", "int n, int block_size, bool relu) {")
PLAIN = PROGRAM.replace('#include "tile.cuh"', "#define TILE 256\n")


@pytest.mark.parametrize(
    ("own", "begun", "said"),
    [
        pytest.param(LAUNCHER[: LAUNCHER.index("void launch")], None, "no one launch", id="bare"),
        pytest.param(
            PLAIN.replace("2.0f, count", "by, count")
            .replace("report(", "by *= 2; report(")
            .replace("int count", "float by = 1.0f; int count"),
            None,
            "changes 'by'",
            id="loop",
        ),
        pytest.param(
            PLAIN.replace("2.0f, count", "by, count").replace("int count", "float by = atof(argv[1]); int count"),
            ("// FILL: float by = atof(argv[1]);", "float by = 1;"),
            "took 'atof",
            id="filled",
        ),
        pytest.param(
            LAUNCHER.replace("void launch", "template <typename T> void launch"),
            None,
            "one launch|is a template",
            id="template",
        ),
        pytest.param(LAUNCHER.replace("scale<<<", "n /= 2; scale<<<"), None, "changes 'n' before", id="changed-first"),
        pytest.param(
            TORCH.replace("  scale<float>", "  [&] { scale<float>").replace(
                "rows * columns);", "rows * columns); }();"
            ),
            None,
            "in a lambda",
            id="lambda",
        ),
        pytest.param(LAUNCHER, ("by * x[i]", "by + x[i]"), "scale has changed", id="stale"),
        pytest.param(RELU, (", block_size, relu);", ", block_size, n > 3);"), "takes 'relu'", id="switch"),
    ],
)
def test_a_file_in_which_the_kernel_does_not_stand_for_the_launch_is_refused(
    own: str, begun: tuple[str, str] | None, said: str, tmp_path: Path
) -> None:
    kernel = accepted(tmp_path, own, {"n": 4096, "by": 2.0, "count": 4096, "rows": 64, "columns": 64, "relu": False})
    if begun is not None:
        baseline = (kernel.task.baseline or "").replace(*begun)
        assert baseline != kernel.task.baseline
        kernel = kernel.model_copy(update={"task": kernel.task.model_copy(update={"baseline": baseline})})
    with pytest.raises(SettingsError, match=said):
        FORMATS["patch"](kernel)


def test_a_patch_that_would_call_the_users_own_kernel_again_is_refused(tmp_path: Path) -> None:
    kernel = accepted(tmp_path, LAUNCHER, {"n": 4096})
    with pytest.raises(SettingsError, match="no version was accepted"):
        FORMATS["patch"](kernel.model_copy(update={"source": kernel.task.baseline}))


def test_a_switch_that_the_run_held_is_asked_for_and_the_include_stands_in_no_branch(tmp_path: Path) -> None:
    own = f"#include <cstdint>\n#ifdef DEBUG\n#include <cstdio>\n#endif\n{RELU}"
    kernel = accepted(tmp_path, own, {"n": 4096})
    solve = (kernel.task.baseline or "").replace("bool relu) {\n  const", "bool relu_) {\n  const")
    held = re.sub(r"(solve\([^)]*), bool relu_?\)", r"\1)", solve).replace("block_size, relu);", "block_size, false);")
    arguments = tuple(a for a in kernel.task.arguments if a.name != "relu")
    seen = tuple(
        w.model_copy(update={"arguments": tuple(a for a in w.arguments if a.name != "relu")}) for w in kernel.seen
    )
    task = kernel.task.model_copy(update={"baseline": held, "arguments": arguments})
    changed = applied(tmp_path, kernel.model_copy(update={"task": task, "seen": seen, "source": f"// Faster.\n{held}"}))
    assert "if (relu == false && own_kernelwright::judged({out, in}, n))" in changed
    assert changed.index("own_kernelwright.cuh") < changed.index("#ifdef DEBUG")


@pytest.mark.parametrize(
    ("mine", "call", "said"),
    [
        ("def mine(x, out, M, N, scale=1.0):", "mine(x, out, M, N)", "does not take what the kernel does: scale"),
        ("def mine(x, out, rows, N):", "mine(x, out, rows=M, N=N)", None),
        ("def mine(x, out, **rest):", "mine(x, out, M=M, N=N)", None),
    ],
    ids=["further", "keyword", "rest"],
)
def test_python_arguments_are_followed_by_name(
    mine: str,
    call: str,
    said: str | None,
    triton: Accepted,  # noqa: F811
    tmp_path: Path,
) -> None:
    own = f"import torch\n\n{mine}\n  out.zero_()\n"
    baseline = f"{own}\n\ndef run_kernel(x, out, M, N):\n    {call}\n"
    kernel = triton.model_copy(
        update={
            "task": triton.task.model_copy(update={"baseline": baseline}),
            "own": own,
            "own_name": "mine.py",
            "source": SEVEN,
        }
    )
    if said:
        with pytest.raises(SettingsError, match=said):
            FORMATS["patch"](kernel)
        return
    applied(tmp_path, kernel)
    given = "rows=3, N=70" if "rows" in mine else "M=3, N=70"
    program = (
        f"import torch, mine; x = torch.rand(3, 70); out = torch.zeros_like(x); mine.mine(x, out, {given}); "
        f"print(float(out[0, 0]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=False,
    )
    assert done.stdout.strip() == "7.0", done.stderr
