"""What `export` writes, used as somebody uses it who has nothing else of ours."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graph.__main__ import main
from graph.export.accepted import AcceptedKernel
from graph.export.bindings import torch_library
from graph.export.formats import FORMATS, python_module
from graph.export.runtime import Exported
from graph.report.content.phrases import render
from tests.exported import made
from tests.graph.conftest import ROOT, refused
from tests.support import Beside, Capsys, run_captured
from tests.tools.tasks.test_suites import gpu_mode as gpu_mode
from tools.errors import SettingsError
from tools.executors.toolchain_job import read_toolchain
from tools.languages.cpp import Cpp
from tools.languages.triton import Triton
from tools.tasks.loader import LoadedTask, load_task_folder
from tools.tasks.suites import write_task_folder

PROBLEM = '''import torch
import torch.nn as nn


class Model(nn.Module):
    """In a forward pass."""

    def __init__(self, features: int):
        super(Model, self).__init__()
        self.line = nn.Linear(features, 1)

    def forward(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        """One pass."""
        return x * self.line.weight + by


rows, features = 16, 24


def get_inputs():
    return [torch.rand(rows, features), 3.0]


def get_init_inputs():
    return [features]
'''
KERNEL = """extern "C" void solve(const float* x, float by, const float* weight, const float* bias, float* out) {
  for (int i = 0; i < 16; ++i) for (int j = 0; j < 24; ++j) out[i * 24 + j] = x[i * 24 + j] * weight[j] + by;
}
"""


SCALED = """extern "C" void solve(const float* x, const float* by, int times, float* out, float* most, int size) {
  for (int i = 0; i < size; ++i) {
    most[i] = x[i * size];
    for (int j = 0; j < size; ++j) {
      out[i * size + j] = x[i * size + j] * by[j] * times;
      most[i] = x[i * size + j] > most[i] ? x[i * size + j] : most[i];
    }
  }
}
"""


@pytest.fixture(autouse=True)
def built_here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def softmax(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel of the recorded run as a Python module."""
    folder = tmp_path_factory.mktemp("export") / "softmax"
    assert main(["export", str(recorded), "--format", "python", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def problem(beside: Beside, tmp_path_factory: pytest.TempPathFactory) -> AcceptedKernel:
    """A kernel of a KernelBench problem with a parameter and a number among its inputs."""
    folder = tmp_path_factory.mktemp("problem")
    (folder / "scaled.py").write_text(PROBLEM)
    task, _ = write_task_folder(folder / "scaled.py", folder / "task", "")
    (task / "kernel.cpp").write_text(KERNEL)
    loaded, cpp = load_task_folder(task, *beside), Cpp()
    return made(loaded, KERNEL, cpp, cpp.flags(loaded.task, read_toolchain(*beside)))


def test_the_exported_module_passes_the_test_that_goes_with_it(softmax: Path) -> None:
    done = run_captured([sys.executable, "test_softmax_quickstart.py"], cwd=softmax)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.rand(512, 1000), None),
        (torch.rand(100, 96), None),
        (torch.rand(4096, 4096), "the sizes or values (x"),
        (torch.rand(4, 1000), "the sizes or values (x"),
        (torch.rand(512, 1000, dtype=torch.float64), "x of torch.float64"),
        (torch.rand(1000, 512).T, "x not contiguous"),
        (torch.rand(512 * 1000 + 1)[1:].view(512, 1000), "x not aligned to 64 bytes"),
    ],
    ids=["timed", "within", "larger-in-all", "below", "dtype", "strided", "misaligned"],
)
def test_the_kernel_runs_where_it_was_judged_and_the_reference_elsewhere(
    softmax: Path, x: torch.Tensor, said: str | None
) -> None:
    module = run_path(str(softmax / "softmax_quickstart.py"))
    filled = module["_exported"].complete_arguments({"x": x})
    assert filled.startswith(said) if said else filled["M"] == x.shape[0]
    torch.testing.assert_close(module["reference"](x), torch.softmax(x, dim=1))


def test_outputs_given_are_written_and_a_gradient_is_the_references(softmax: Path) -> None:
    module, x = run_path(str(softmax / "softmax_quickstart.py")), torch.rand(512, 1000)
    out = torch.empty_like(x)
    assert module["reference"](x, out) is out and torch.allclose(out, x.softmax(1))
    assert "an output that shares memory" in module["_exported"].complete_arguments({"x": x, "out": x})


def test_a_new_model_has_the_keys_of_the_old_one_and_says_the_same(problem: AcceptedKernel, tmp_path: Path) -> None:
    ((name, text),) = FORMATS["kernelbench"](problem).items()
    (tmp_path / name).write_text(text)
    theirs: dict[str, Any] = {}
    exec(PROBLEM, theirs)  # as the suite does
    old, new = theirs["Model"](24), run_path(str(tmp_path / name))["ModelNew"](24)
    new.load_state_dict(old.state_dict(), strict=True)
    x, by = theirs["get_inputs"]()
    torch.testing.assert_close(new(x, by), old(x, by).detach())
    with pytest.raises(ValueError, match="never judged"):
        new(x, 4.0)
    with pytest.raises(ValueError, match=r"never judged for that: .* is 25, not 24"):
        run_path(str(tmp_path / name))["ModelNew"](25)
    assert "pass" not in text.split("class ModelNew")[1], "the suite's static check reads it as code"


def test_a_submission_takes_the_suites_data_apart(gpu_mode: Path, tmp_path: Path, beside: Beside) -> None:
    task, _ = write_task_folder(gpu_mode, tmp_path / "task", "")
    (task / "kernel.cpp").write_text(SCALED)
    cpp, loaded = Cpp(), load_task_folder(task, *beside)
    (tmp_path / "submission.py").write_text(
        FORMATS["gpumode"](made(loaded, SCALED, cpp, cpp.flags(loaded.task, read_toolchain(*beside))))["submission.py"]
    )
    x, out = torch.rand(16, 16), torch.empty(16, 16)
    wide, most = run_path(str(tmp_path / "submission.py"))["custom_kernel"](
        (x, {"by": torch.full((16,), 3.0), "times": 2}, out)
    )
    assert wide is out and torch.equal(most, x.amax(1)) and torch.allclose(out, x * 6)


@pytest.fixture(scope="module")
def triton(beside: Beside, tmp_path_factory: pytest.TempPathFactory) -> AcceptedKernel:
    """The quickstart's kernel for a GPU, at a size for Triton's interpreter."""
    folder, shipped = tmp_path_factory.mktemp("triton"), ROOT / "configs" / "tasks" / "triton-softmax"
    small = (
        "_definition = 'softmax_n70'\nworkloads = [{'dims': {'M': 3, 'N': 70}}]\ndims_range = {'M': (3, 3), 'N': "
        "(70, 70)}\n"
    )
    (folder / "reference.py").write_text(f"{(shipped / 'reference.py').read_text()}\n\n{small}")
    for name in ("kernel.py", "task.yaml"):
        (folder / name).write_bytes((shipped / name).read_bytes())
    loaded = load_task_folder(folder, *beside)
    return made(loaded, loaded.task.baseline or "", Triton(), ())


@pytest.mark.parametrize("form", ["sol", "flashinfer"])
def test_a_triton_solution_names_its_definition_and_writes_into_the_suites_outputs(
    triton: AcceptedKernel, tmp_path: Path, form: str
) -> None:
    said = json.loads(FORMATS[form](triton)["solution.json"])
    assert (
        said["definition"] == "softmax_n70"
        and said["spec"]["entry_point"] == "kernel.py::run"
        and said["spec"]["destination_passing_style"]
    )
    assert said["spec"].get("language", said["spec"].get("languages")) in ("triton", ["triton"])
    (tmp_path / "kernel.py").write_text(said["sources"][0]["content"])
    program = "import torch, kernel\nx, out = torch.rand(3, 70), torch.zeros(3, 70)\n"
    program += "kernel.run(x, out)\ntorch.testing.assert_close(out, x.softmax(1))\n"
    interpreted = {**os.environ, "TRITON_INTERPRET": "1"}
    done = run_captured([sys.executable, "-c", program], cwd=tmp_path, env=interpreted)
    assert done.returncode == 0, done.stderr


def test_a_cuda_solution_reads_sizes_from_shapes_and_keeps_the_flags(triton: AcceptedKernel) -> None:
    flags = ("-std=c++17", "-shared", "-Xcompiler=-fPIC", "-O3", "--fmad=false")
    cuda = triton.model_copy(update={"suffix": ".cu", "flags": flags, "source": "the kernel"})
    said = json.loads(FORMATS["sol"](cuda)["solution.json"])
    assert said["spec"]["compile_options"]["cuda_cflags"][:2] == ["-O3", "--fmad=false"]
    binding = next(one["content"] for one in said["sources"] if one["path"] == "binding.cpp")
    assert "run(torch::Tensor x, torch::Tensor out)" in binding and "static_cast<int>(x.size(1))" in binding
    assert "stream" not in binding
    given = FORMATS["sol"](cuda.model_copy(update={"takes_stream": True}))["solution.json"]
    binding = next(one["content"] for one in json.loads(given)["sources"] if one["path"] == "binding.cpp")
    assert "int N, cudaStream_t stream);" in binding and "(x.size(1)), c10::cuda::getCurrentCUDAStream());" in binding


def test_an_exported_cuda_kernel_runs_on_torchs_stream_and_one_without_it_on_the_default_one(
    monkeypatch: pytest.MonkeyPatch, triton: AcceptedKernel
) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=23))
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: SimpleNamespace(cuda_stream=0))
    given = {"x": torch.rand(3, 70), "M": 3, "N": 70}
    for takes_stream in (True, False):
        contract = {**triton.contract(), "device": "cuda", "align": 1, "triton": False, "stream": takes_stream}
        kernel = Exported(contract)
        kernel.device = "cuda"
        monkeypatch.setattr(kernel, "_mismatch", lambda *_: "")
        kernel.solve = lambda *passed: seen.append(passed)
        answer = kernel(dict(given), lambda **_: "the reference")
        assert isinstance(answer, torch.Tensor) if takes_stream else answer == "the reference"
    (passed,) = seen
    assert len(passed) == 5 and passed[-1] == 23


@pytest.mark.slow
def test_an_extension_that_is_installed_passes_its_test(recorded: Path, tmp_path: Path) -> None:
    assert main(["export", str(recorded), "--format", "torch-ext", "--out", str(tmp_path)]) == 0
    place = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", "installed", "."]
    for command in (install, ["-m", "pytest", "-q", "test_softmax_quickstart.py"], ["test_softmax_quickstart.py"]):
        done = run_captured([sys.executable, *command], cwd=tmp_path, env=place)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_hub_kernel_names_the_sources_that_are_there(problem: AcceptedKernel, triton: AcceptedKernel) -> None:
    files = FORMATS["hf"](problem.model_copy(update={"task": problem.task.model_copy(update={"name": "19_ReLU"})}))
    build = tomllib.loads(files["build.toml"])
    named = [*build["torch"]["src"], *build["kernel"]["kernel_19_relu"]["src"], "torch-ext/kernel_19_relu/__init__.py"]
    assert (
        {*named} <= {*files}
        and build["general"]["name"] == "kernel-19-relu"
        and build["general"]["backends"] == ["cpu"]
    )
    assert (
        "run(Tensor x, float by, Tensor state_line_weight, Tensor state_line_bias, Tensor(a4!) out)"
        in files["torch-ext/torch_binding.cpp"]
    )
    assert "torch-noarch" in tomllib.loads(FORMATS["hf"](triton)["build.toml"])


@pytest.mark.parametrize(
    ("form", "changes", "said"),
    [
        ("sol", {}, "the suite runs on a GPU"),
        ("gpumode", {}, "no problem of GPU MODE"),
        ("torch-ext", {"suffix": ".py"}, "nothing to build"),
        ("patch", {}, "--file"),
    ],
)
def test_a_kernel_that_a_format_cannot_hold_is_refused(
    problem: AcceptedKernel, form: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        FORMATS[form](problem.model_copy(update=changes))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["v3"], "v3 is not accepted"),
        (["v9"], "not a version"),
        (["--format", "kernelbench"], "is no KernelBench problem"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    recorded: Path, tmp_path: Path, capsys: Capsys, asked: list[str], said: str
) -> None:
    assert said in refused(
        capsys, "export", str(recorded), "--format", "python", "--out", str(tmp_path / "out"), *asked
    )
    assert not (tmp_path / "out").exists()


def test_files_that_say_something_else_are_left_alone(recorded: Path, tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "reference.py").write_text("mine")
    assert "is not overwritten" in refused(
        capsys, "export", str(recorded), "--format", "python", "--out", str(tmp_path)
    )
    assert [file.name for file in tmp_path.iterdir()] == ["reference.py"]


STEP_REFERENCE = """
import torch
inout = ("y",)
workloads = [{"name": "w", "dims": {"N": 1000}}]

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    y, x = torch.randn(dims["N"], generator=g), torch.randn(dims["N"], generator=g)
    return {"y": y, "x": GIVEN, "top": torch.empty(1), "N": dims["N"]}

def reference(y, x, top, N):
    BODY
"""
STEP = """extern "C" void solve(float* y, const float* X, float* top, int N) {
  *top = -1e30f;
  for (int i = 0; i < N; ++i) {
    y[i] = 0.5f * y[i] + X[i];
    if (y[i] > *top) *top = y[i];
  }
}
"""
IN_PLACE = "y.mul_(0.5).add_(x); top.copy_(y.max())"


def step_task(folder: Path, beside: Beside, *, given: str = "x", body: str = IN_PLACE, name: str = "x") -> LoadedTask:
    """A task whose kernel changes y in place."""
    (folder / "kernel.cpp").write_text(STEP.replace("X", name))
    (folder / "reference.py").write_text(STEP_REFERENCE.replace("GIVEN", given).replace("BODY", body))
    return load_task_folder(folder, *beside)


@pytest.mark.parametrize(
    "body",
    [
        IN_PLACE,
        "y.mul_(0.5).add_(x); return y.max().reshape(1)",
        "made = 0.5 * y + x; return made, made.max().reshape(1)",
    ],
)
def test_an_exported_kernel_changes_its_argument_in_place(tmp_path: Path, beside: Beside, body: str) -> None:
    body += "\noutputs = 'top'" if "return" in body else ""
    loaded, cpp = step_task(tmp_path, beside, body=body), Cpp()
    kernel = made(loaded, STEP.replace("X", "x"), cpp, cpp.flags(loaded.task, read_toolchain(*beside)))
    for name, text in python_module(kernel).items():
        (tmp_path / name).write_text(text)
    done = run_captured([sys.executable, f"test_{kernel.name}.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    module, y, x = run_path(str(tmp_path / f"{kernel.name}.py")), torch.randn(1000), torch.randn(1000)
    expected = 0.5 * y + x
    changed, top = module["reference"](y, x)
    assert changed is y and torch.allclose(y, expected) and torch.allclose(top, expected.max())
    assert "Tensor(a0!) y, Tensor x" in torch_library(kernel)


@pytest.mark.parametrize("given", ["x", '{"of": x, "kind": "plain"}'])
def test_the_workspaces_own_test_knows_in_out_arguments_and_structs(tmp_path: Path, beside: Beside, given: str) -> None:
    named = "x" if given == "x" else "x_of"
    body = IN_PLACE if given == "x" else IN_PLACE.replace("(x)", "(x['of'])")
    loaded = step_task(tmp_path, beside, given=given, body=body, name=named)
    assert loaded.task.restructured == (given != "x")
    flags = Cpp().flags(loaded.task, read_toolchain(*beside))
    argv = ("g++", *flags, "kernel.cpp", "-o", "kernel.so")
    common = {"task": loaded.task, "kernel": "kernel.cpp", "compiled": True, "workload": loaded.task.workloads[0]}
    (tmp_path / "test_kernel.py").write_text(render("test_kernel.py", argv=argv, **common))
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "reference.py").write_text(loaded.task.reference)
    done = run_captured([sys.executable, "test_kernel.py"], cwd=tmp_path)
    assert done.returncode == 0 and "y: largest" in done.stdout, done.stdout + done.stderr
    wrong = (tmp_path / "kernel.cpp").read_text().replace("0.5f", "0.6f")
    (tmp_path / "kernel.cpp").write_text(wrong)
    assert "y is wrong" in run_captured([sys.executable, "test_kernel.py"], cwd=tmp_path).stderr
