"""Triton kernels at small sizes in the interpreter: right, wrong, broken, and what it cannot tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.artifacts import Argument, Task, Workload
from tools.executors.local import Local
from tools.interpreter import BFLOAT16, interpret, small_dims
from tools.records import Blobs

pytest.importorskip("triton")
FOLDER = Path(__file__).parents[2] / "configs" / "tasks" / "triton-softmax"
KERNEL = (FOLDER / "kernel.py").read_text()
TASK = Task(
    name="softmax",
    language="triton",
    arguments=(
        Argument(name="x", role="input", dtype="float32", shape=("M", "N")),
        Argument(name="out", role="output", dtype="float32", shape=("M", "N")),
        Argument(name="M", role="scalar", dtype="int32"),
        Argument(name="N", role="scalar", dtype="int32"),
    ),
    reference=(FOLDER / "reference.py").read_text(),
    workloads=(Workload(name="w", dims={"M": 4096, "N": 1024}),),
)
WRONG = {
    "wrong value": ("/ total", "/ (total + 1)", "error"),
    "not written": ("[(M,)]", "[(max(M - 1, 1),)]", "out"),
    "an exception": ("def run_kernel(x, out, M, N):", "def run_kernel(x, out, M, N):\n    raise RuntimeError('no')", "RuntimeError: no"),
    "input changed": ("def run_kernel(x, out, M, N):", "def run_kernel(x, out, M, N):\n    x.zero_()", "input x"),
    "process killed": (
        "def run_kernel(x, out, M, N):",
        "def run_kernel(x, out, M, N):\n    import os\n    os.kill(os.getpid(), 9)",
        "signal 9",
    ),
    "process left": (
        "def run_kernel(x, out, M, N):",
        "def run_kernel(x, out, M, N):\n    import os\n    os._exit(0)",
        "before it was done",
    ),
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Local, Blobs]]:
    folder = tmp_path_factory.mktemp("interpreter")
    blobs = Blobs(folder / "blobs")
    with Local(blobs, folder / "scratch") as executor:
        yield executor, blobs


def test_sizes_are_small_and_ragged() -> None:
    assert all(0 < value < 200 for dims in small_dims(TASK) for value in dims.values())
    assert len({tuple(dims.values()) for dims in small_dims(TASK)}) == 3


def test_a_right_kernel_passes(beside: tuple[Local, Blobs]) -> None:
    found = interpret(TASK, KERNEL, *beside)
    assert found.status == "passed" and len(found.cases) == 3
    assert all(case.error is not None and case.error < 1e-6 for case in found.cases)


@pytest.mark.parametrize("what", sorted(WRONG))
def test_a_wrong_kernel_fails_with_its_reason(what: str, beside: tuple[Local, Blobs]) -> None:
    old, new, said = WRONG[what]
    found = interpret(TASK, KERNEL.replace(old, new), *beside)
    assert found.status == "failed" and said in found.reason and "\n" not in found.reason


def test_bfloat16_ends_unmeasured(beside: tuple[Local, Blobs]) -> None:
    arguments = tuple(a.model_copy(update={"dtype": "bfloat16"}) if a.role != "scalar" else a for a in TASK.arguments)
    found = interpret(TASK.model_copy(update={"arguments": arguments}), KERNEL, *beside)
    assert found.status == "unmeasured" and found.reason == BFLOAT16 and not found.cases
