"""What `export` writes, used as somebody uses it who has nothing else of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import torch

from graph.__main__ import main
from graph.export.accepted import Accepted
from graph.export.formats import FORMATS
from tests.graph.conftest import refused
from tools.executors.local import Local
from tools.languages.cpp import Cpp
from tools.store.records import Blobs
from tools.tasks.kernelbench import folder_of
from tools.tasks.loader import load_folder

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
def problem(beside: tuple[Local, Blobs], tmp_path_factory: pytest.TempPathFactory) -> Accepted:
    """A kernel of a KernelBench problem with a parameter and a number among its inputs."""
    folder = tmp_path_factory.mktemp("problem")
    (folder / "scaled.py").write_text(PROBLEM)
    task, _ = folder_of(folder / "scaled.py", folder / "task", "")
    (task / "kernel.cpp").write_text(KERNEL)
    loaded, cpp = load_folder(task, *beside), Cpp()
    given: dict[str, Any] = {"task": loaded.task, "seen": loaded.workloads, "source": KERNEL, "flags": cpp.flags(loaded.task)}
    return Accepted(**given, suffix=cpp.suffix, device=cpp.device, beyond=True, title="A test.")


def test_the_exported_module_passes_the_test_that_goes_with_it(softmax: Path) -> None:
    done = subprocess.run([sys.executable, "test_softmax.py"], cwd=softmax, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.rand(512, 1000), None),
        (torch.rand(100, 96), None),
        (torch.rand(4096, 4096), "the sizes or values x"),
        (torch.rand(4, 1000), "the sizes or values x"),
        (torch.rand(512, 1000, dtype=torch.float64), "x of torch.float64"),
        (torch.rand(1000, 512).T, "x not contiguous"),
        (torch.rand(512 * 1000 + 1)[1:].view(512, 1000), "x not aligned to 64 bytes"),
    ],
    ids=["timed", "within", "larger-in-all", "below", "dtype", "strided", "misaligned"],
)
def test_the_kernel_runs_where_it_was_judged_and_the_reference_elsewhere(softmax: Path, x: torch.Tensor, said: str | None) -> None:
    module = run_path(str(softmax / "softmax.py"))
    filled = module["_exported"].filled({"x": x})
    assert filled.startswith(said) if said else filled["M"] == x.shape[0]
    torch.testing.assert_close(module["reference"](x), torch.softmax(x, dim=1))


def test_outputs_given_are_written_and_a_gradient_is_the_references(softmax: Path) -> None:
    module, x = run_path(str(softmax / "softmax.py")), torch.rand(512, 1000)
    out = torch.empty_like(x)
    assert module["reference"](x, out) is out and torch.allclose(out, x.softmax(1))
    assert "an output that shares memory" in module["_exported"].filled({"x": x, "out": x})


def test_a_new_model_has_the_keys_of_the_old_one_and_says_the_same(problem: Accepted, tmp_path: Path) -> None:
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
    assert "pass" not in text.split("class ModelNew")[1], "the suite's static check reads it as code"


@pytest.mark.parametrize(
    ("asked", "said"),
    [(["v3"], "v3: is not accepted"), (["v9"], "not a version"), (["--format", "kernelbench"], "is no KernelBench problem")],
)
def test_what_cannot_be_exported_is_refused(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str], said: str
) -> None:
    assert said in refused(capsys, "export", str(recorded), "--format", "python", "--out", str(tmp_path / "out"), *asked)
    assert not (tmp_path / "out").exists()


def test_files_that_say_something_else_are_left_alone(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "reference.py").write_text("mine")
    assert "nothing is overwritten" in refused(capsys, "export", str(recorded), "--format", "python", "--out", str(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["reference.py"]
