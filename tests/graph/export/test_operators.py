"""Operators that `export --format op` writes, built and called as somebody does who has nothing else of ours; and the
decision that every exported module keeps for a signature."""

from __future__ import annotations

import os
import re
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from graph.__main__ import main
from graph.export.accepted import AcceptedKernel
from graph.export.formats import FORMATS
from graph.export.operators import operator_package
from graph.export.runtime import Exported
from tests.exported import installed, made, passes_its_test, written
from tests.graph.conftest import ROOT
from tests.graph.export.test_export import triton as triton
from tests.support import Beside, run_captured
from tools.errors import SettingsError
from tools.executors.toolchain_job import read_toolchain
from tools.languages.cpp import Cpp
from tools.tasks.loader import load_task_folder

STEP_REFERENCE = """
import torch
inout = ("y",)
outputs = ("top", "near")
workloads = [{"name": "w", "dims": {"M": 8, "N": 100}}]
dims_range = {"M": (1, 32), "N": (1, 200)}

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    y, stream = torch.randn(dims["M"], dims["N"], generator=g), torch.randn(dims["M"], dims["N"], generator=g)
    near = torch.empty(dims["M"], dtype=torch.bool)
    return {"y": y, "stream": stream, "by": 0.5, "top": torch.empty(dims["M"]), "near": near, "up": True, **dims}

def reference(y, stream, by, top, near, up, M, N):
    y.mul_(by if up else -by).add_(stream)
    top.copy_(y.amax(1)); near.copy_(top < 1)
"""
STEP = """#include <cfloat>
extern "C" void solve(float* y, const float* stream, float by, float* top, bool* near, bool up, int M, int N) {
  for (int i = 0; i < M; ++i) {
    top[i] = -FLT_MAX;
    for (int j = 0; j < N; ++j) {
      float& one = y[i * N + j];
      one = (up ? by : -by) * one + stream[i * N + j];
      if (one > top[i]) top[i] = one;
    }
    near[i] = top[i] < 1;
  }
}
"""


@pytest.fixture(scope="module")
def softmax(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The kernel of the recorded run as an installed package, and the program variables for it."""
    folder = tmp_path_factory.mktemp("op") / "softmax"
    assert main(["export", str(recorded), "--format", "op", "--out", str(folder)]) == 0
    return folder, installed(folder)


@pytest.mark.slow
def test_the_operators_of_a_cpp_kernel_pass_the_test_that_goes_with_them(softmax: tuple[Path, dict[str, str]]) -> None:
    passes_its_test(*softmax)


@pytest.mark.slow
def test_the_page_about_serving_shows_code_that_runs(softmax: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    page = (ROOT / "docs" / "serving.md").read_text()
    assert len(page.encode()) <= 12_000
    (example,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "softmax_quickstart" in code)
    done = run_captured([sys.executable, "-c", example], cwd=tmp_path, env=softmax[1])
    assert done.returncode == 0, done.stderr
    assert "'kernel': 2" in done.stdout and "the sizes or values" in done.stdout, done.stdout


@pytest.mark.slow
def test_operators_change_arguments_in_place_allocate_several_outputs_and_take_numbers(
    tmp_path: Path, beside: Beside
) -> None:
    (tmp_path / "kernel.cpp").write_text(STEP)
    (tmp_path / "reference.py").write_text(STEP_REFERENCE)
    loaded, cpp = load_task_folder(tmp_path, *beside), Cpp()
    kernel = made(loaded, STEP, cpp, cpp.flags(loaded.task, read_toolchain(*beside)))
    kernel = kernel.model_copy(update={"task": loaded.task.model_copy(update={"name": "step"})})
    folder = written(FORMATS["op"](kernel), tmp_path / "step")
    binding = (folder / "csrc" / "binding.cpp").read_text()
    assert 'm.def("step(Tensor y, Tensor stream, float by, bool up) -> (Tensor, Tensor, Tensor)");' in binding
    assert (
        'm.def("step_out(Tensor(a0!) y, Tensor stream, float by, Tensor(a3!) top, Tensor(a4!) near, bool up) -> ()");'
        in binding
    )
    passes_its_test(folder, installed(folder))


def test_the_operators_of_a_triton_kernel_pass_their_test_in_the_interpreter(
    triton: AcceptedKernel, tmp_path: Path
) -> None:
    folder = written(FORMATS["op"](triton), tmp_path)
    passes_its_test(folder, {**os.environ, "PYTHONPATH": str(folder / "src"), "TRITON_INTERPRET": "1"})


@pytest.mark.parametrize(
    ("body", "is_traced"),
    [
        ("softmax_kernel[(M,)](x, out, N, BLOCK=triton.next_power_of_2(N))", True),
        ("softmax_kernel[lambda meta: (triton.cdiv(M, 1),)](x, out, x.stride(0), BLOCK=256)", True),
        ("softmax_kernel[(M,)](x, out, N, BLOCK=choose(N))", False),
        ("with torch.cuda.stream(SIDE): softmax_kernel[(M,)](x, out, N, BLOCK=256)", False),
        ("softmax_kernel[(x.max().item(),)](x, out, N, BLOCK=256)", False),
        ("KERNELS[N][(M,)](x, out, N)", False),
    ],
)
def test_a_triton_operator_is_traced_where_its_host_code_can_be(
    triton: AcceptedKernel, body: str, is_traced: bool
) -> None:
    source = re.sub(r"(?s)def run_kernel.*", f"def run_kernel(x, out, M, N):\n    {body}\n", triton.source)
    text = operator_package(triton.model_copy(update={"source": source}))[f"src/{triton.name}/__init__.py"]
    compile(text, triton.name, "exec")
    assert ("torch.library.triton_op" in text) == is_traced and "_LIBRARY.define" in text


TRACE = """
import torch
import PACKAGE
from torch._dynamo.source import ConstantSource
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


class Model(torch.nn.Module):
    def forward(self, x):
        return (PACKAGE.PACKAGE(x),)


with FakeTensorMode() as mode, torch.no_grad():
    graph, _ = aot_export_module(Model(), [torch.empty(3, 70, device="cuda")], trace_joint=False)
    print(graph.code)
sizes = ShapeEnv()
with FakeTensorMode(shape_env=sizes), torch.no_grad():
    named = {"source": ConstantSource("M")}
    rows = sizes.create_symintnode(sizes.create_symbol(3, dynamic_dim=DimDynamic.DYNAMIC, **named), hint=3, **named)
    PACKAGE.PACKAGE(torch.empty((rows, 70), device="cuda"))
    print("guards:", [str(guard.expr).split(" ", 1)[1] for guard in sizes.guards])
print(PACKAGE.stats())
"""


def test_a_compiled_graph_holds_the_triton_kernel_itself_and_its_sizes_stay_free_within_the_range(
    triton: AcceptedKernel, tmp_path: Path
) -> None:
    task = triton.task.model_copy(update={"dims_range": {"M": (2, 3), "N": (70, 70)}})
    kernel = triton.model_copy(update={"task": task, "takes_stream": True})
    folder = written(FORMATS["op"](kernel), tmp_path)
    place = {**os.environ, "PYTHONPATH": str(folder / "src")}
    done = run_captured([sys.executable, "-c", TRACE.replace("PACKAGE", kernel.name)], cwd=tmp_path, env=place)
    assert done.returncode == 0, done.stderr
    assert "triton_kernel_wrapper_functional(" in done.stdout and "aten.softmax" not in done.stdout
    assert "guards: ['<= 3']" in done.stdout and "{'kernel': 0, 'reference': {}}" in done.stdout, done.stdout


def test_a_cuda_operator_works_on_the_callers_stream_and_device_for_the_judged_architecture(
    triton: AcceptedKernel,
) -> None:
    cuda = triton.model_copy(
        update={"suffix": ".cu", "flags": ("-O3", "-shared"), "source": "the kernel", "architecture": "sm_90"}
    )
    bound = operator_package(cuda)
    free = operator_package(cuda.model_copy(update={"takes_stream": True}))["csrc/binding.cpp"]
    assert "aoti_torch_get_current_cuda_stream" in free and "static_cast<int>(a_N), stream);" in free
    assert "DeviceGuard guard(index)" in free and "stream == nullptr" not in free
    assert "signature.add(stream == nullptr);" in bound["csrc/binding.cpp"], "Python says where it may run"
    assert "code=sm_90a" in bound["setup.py"] and f"STABLE_TORCH_LIBRARY_IMPL({triton.name}, CUDA, m)" in free
    assert "torch/library.h" not in free.replace("stable/library.h", "") and "pybind" not in free
    project = tomllib.loads(bound["pyproject.toml"])["project"]
    assert project["name"] == triton.name and project["dependencies"][0] == "torch>=2.10"


def test_a_kernel_that_reads_no_tensor_is_no_operator(triton: AcceptedKernel) -> None:
    arguments = tuple(a for a in triton.task.arguments if a.role != "input")
    task = triton.task.model_copy(update={"arguments": arguments})
    with pytest.raises(SettingsError, match="needs a tensor to read"):
        operator_package(triton.model_copy(update={"task": task}))


@pytest.fixture
def exported() -> Exported:
    """A kernel that adds one, judged for up to 64 elements."""
    contract = {
        "name": "one_more",
        "arguments": [("x", "input", "float32", ["N"]), ("out", "output", "float32", ["N"])],
        "points": [{"x": [64], "out": [64]}],
        "ranges": {"N": [1, 64]},
        "seen": {},
        "named": True,
        "most": 64,
        "device": "cpu",
        "align": 64,
        "triton": False,
        "stream": False,
    }
    return Exported(contract, lambda x, out: torch.add(x, 1, out=out))


def test_a_decision_is_made_once_for_a_signature_and_again_for_another(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[Any] = []
    decide = exported._decide
    monkeypatch.setattr(
        exported, "_decide", lambda *given, **named: (decided.append(given), decide(*given, **named))[1]
    )
    x = torch.zeros(128)
    for seed in range(3):
        x[:48] = seed
        assert exported({"x": x[:48]}, None).unique().item() == seed + 1
    assert len(decided) == 1 and exported.stats() == {"kernel": 3, "reference": {}}
    exported({"x": x[:48], "out": torch.empty(64)[:48]})
    exported({"x": x[:48], "out": x[64:112]})  # buffers of one storage that do not overlap
    exported({"x": x[:32]})
    assert len(decided) == 3 and exported.stats()["kernel"] == 6
    for given in ({"x": x[:48], "out": x[32:80]}, {"x": x[1:49]}, {"x": x[:96:2]}, {"x": x[:48].double()}):
        assert isinstance(exported.complete_arguments(given), str)
    assert len(decided) == 7


def test_a_fallback_is_counted_warned_of_once_and_an_error_where_it_is_not_wanted(exported: Exported) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for size in (65, 66, 67):
            assert exported({"x": torch.zeros(size)}, lambda x: x + 1).sum() == size
        exported({"x": torch.zeros(64).requires_grad_()}, lambda x: x + 1).sum().backward()
    assert [str(one.message).partition("judged for ")[2] for one in told] == [
        "the sizes or values (x [65])",
        "a gradient",
    ]
    assert exported.stats() == {"kernel": 0, "reference": {"the sizes or values": 3, "a gradient": 1}}
    exported.strict = True
    with pytest.raises(ValueError, match=r"one_more was never judged for that: the sizes or values \(x \[65\]\)"):
        exported({"x": torch.zeros(65)}, lambda x: x + 1)
    with torch.no_grad():
        assert exported({"x": torch.zeros(64).requires_grad_()}).sum() == 64
