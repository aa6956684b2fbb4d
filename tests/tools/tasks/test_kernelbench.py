"""A KernelBench problem as a task: what its evaluator would compute, with the module's state among the inputs."""

from __future__ import annotations

import json
from pathlib import Path
from runpy import run_path

import pytest
import torch

from graph.__main__ import main
from tests.support import Capsys
from tools.errors import SettingsError
from tools.tasks.suites import write_task_folder

PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.bias = nn.Parameter(torch.randn(features))
        self.register_buffer("order", torch.randperm(features))
        self.offset = torch.rand(features)
        self.scale = scale

    def forward(self, x, shift):
        return torch.relu(self.norm(x) * self.scale + self.bias[self.order] + shift + self.offset)


batch_size, features = 4096, 24  # rows and columns
padding = 0
scale = 1.5


def get_inputs():
    return [torch.rand(batch_size, features), torch.randint(0, 3, (batch_size, 1))]


def get_init_inputs():
    return [features, scale]
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    file = tmp_path / "norm.py"
    file.write_text(PROBLEM)
    return file


def test_the_reference_answers_what_the_evaluator_computes_from_the_same_seed(problem: Path, tmp_path: Path) -> None:
    folder, told = write_task_folder(problem, tmp_path / "task", "batch_size=32")
    assert told == "norm.py: changed batch_size 4096 -> 32"
    ours, theirs = run_path(str(folder / "reference.py")), run_path(str(problem))
    theirs["get_inputs"].__globals__["batch_size"] = 32
    torch.manual_seed(7)
    inputs = theirs["get_inputs"]()
    torch.manual_seed(7)
    expected = theirs["Model"](*theirs["get_init_inputs"]())(*inputs)
    made = ours["make_inputs"](ours["workloads"][0]["dims"], 7)
    torch.testing.assert_close(ours["reference"](**made), expected.detach())


@pytest.mark.slow
def test_state_and_integer_inputs_are_arguments_and_v0_is_lifted(problem: Path, tmp_path: Path, capsys: Capsys) -> None:
    asked = ["check", "--problem", str(problem), "--out", str(tmp_path / "task"), "--dims", "batch_size=32", "--json"]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert {a["name"]: a["dtype"] for a in found["arguments"]} == {
        **dict.fromkeys(("x", "state_norm_weight", "state_norm_bias", "state_bias", "state_offset", "out"), "float32"),
        **dict.fromkeys(("shift", "state_order"), "int64"),
    }
    assert "v0 is what torch.compile makes" in found["inferred"][-1]


def test_active_dropout_is_refused(problem: Path, tmp_path: Path, capsys: Capsys) -> None:
    problem.write_text(PROBLEM.replace("torch.relu(", "nn.functional.dropout("))
    assert main(["check", "--problem", str(problem), "--out", str(tmp_path / "task"), "--dims", "batch_size=32"]) == 2
    told = capsys.readouterr()
    assert "dropout" in told.err and "contract    solve(x, shift," in told.out


@pytest.mark.parametrize(
    ("before", "changed"),
    [("x.relu_()", "x"), ("self.offset += 1", "state_offset"), ("self.offset = self.offset + 1", "state_offset")],
)
def test_a_forward_that_changes_what_it_is_given_is_refused(
    problem: Path, tmp_path: Path, before: str, changed: str, capsys: Capsys
) -> None:
    problem.write_text(PROBLEM.replace("        return torch.relu(", f"        {before}\n        return torch.relu("))
    assert main(["check", "--problem", str(problem), "--out", str(tmp_path / "task"), "--dims", "batch_size=32"]) == 2
    assert f"forward changes {changed}, which a kernel only reads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "sizes", "said"),
    [
        ("x = 1\n", "", "not a KernelBench problem"),
        (PROBLEM, "features=8 batches=2", "no number 'batches'"),
        (PROBLEM + "height = width = 128\n", "height=8 width=9", "assigns one number to 'height' and another name"),
    ],
)
def test_what_is_no_problem_or_no_constant_of_it_is_refused(
    problem: Path, tmp_path: Path, source: str, sizes: str, said: str
) -> None:
    problem.write_text(source)
    with pytest.raises(SettingsError, match=said):
        write_task_folder(problem, tmp_path / "task", sizes)
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize(
    ("line", "sizes", "changed", "said"),
    [
        ("height = width = 128", "width=8", "height = width = 8", "height 128 -> 8, width 128 -> 8"),
        ("length = 2 * 1024 - 1", "length=15", "length = 15", "length 2047 -> 15"),
        ("shape = (256, -2)", "shape_0=8", "shape = (8, -2)", "shape_0 256 -> 8"),
    ],
)
def test_a_number_is_changed_wherever_it_stands_at_module_level(
    problem: Path, tmp_path: Path, line: str, sizes: str, changed: str, said: str
) -> None:
    problem.write_text(f"{PROBLEM}{line}\n")
    folder, told = write_task_folder(problem, tmp_path / "task", sizes)
    assert f"\n{changed}\n" in (folder / "reference.py").read_text() and told.endswith(f"changed {said}")


def test_a_folder_with_other_contents_is_not_overwritten(problem: Path, tmp_path: Path) -> None:
    write_task_folder(problem, tmp_path / "task", "batch_size=32")
    with pytest.raises(SettingsError, match="--out"):
        write_task_folder(problem, tmp_path / "task", "batch_size=16")
