"""The kernels of benchmarks/foreign: kernel and reference of each agree, at its smallest sizes, and the screen lets
it pass."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from agents.models.playbook.recipe import RECIPES, load_recipe
from benchmarks import foreign
from tools.executors.base import Executor
from tools.screen.screen import screen
from tools.store.blobs import Blobs
from tools.tasks import loader as tasks


def declared(reference: Path, name: str) -> Any:
    """A literal that the reference assigns, without importing torch here."""
    assigned = [node for node in ast.parse(reference.read_text()).body if isinstance(node, ast.Assign)]
    return next(ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == name)


def test_there_are_as_many_as_the_table_needs() -> None:
    assert len(foreign.kernel_names()) >= 26


@pytest.mark.parametrize("name", foreign.kernel_names())
def test_a_foreign_kernel_fits_its_reference(name: str, beside: tuple[Executor, Blobs]) -> None:
    kernel, reference = foreign.KERNELS / name / "kernel.cpp", foreign.KERNELS / name / "reference.py"
    visible, ranges = declared(reference, "workloads"), declared(reference, "dims_range")
    for workload in visible:
        assert workload["name"] == "x".join(str(value) for value in workload["dims"].values())
        assert all(low <= workload["dims"][dim] <= high for dim, (low, high) in ranges.items()), workload["name"]
    smallest = visible[-1]["dims"] | {dim: low for dim, (low, _) in ranges.items()}
    loaded = tasks.load_task_files(
        kernel, reference, " ".join(f"{dim}={value}" for dim, value in smallest.items()), *beside
    )
    assert any(argument.role == "output" for argument in loaded.task.arguments)
    assert loaded.task.dims_range == ranges
    assert screen(kernel.read_text(), "cpp") == ()


@pytest.mark.parametrize("name", foreign.kernel_names())
def test_every_recipe_reads_what_the_others_made_of_a_foreign_kernel(name: str) -> None:
    source = (foreign.KERNELS / name / "kernel.cpp").read_text()
    for one in (load_recipe(known) for known in RECIPES):
        if one.language == "cpp":
            source = one.edit(source, {})
    assert screen(source, "cpp") == ()
