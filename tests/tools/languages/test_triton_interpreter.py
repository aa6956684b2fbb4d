"""Triton kernels at small sizes in the interpreter: right, wrong, broken, and what it cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Beside
from tests.tools.builders import softmax
from tools.artifacts import Task, Workload
from tools.environment import inspect_environment
from tools.languages.triton import Triton
from tools.languages.triton_interpreter import ragged_dims, run_interpreter

pytest.importorskip("triton")
FOLDER = Path(__file__).parents[3] / "configs" / "tasks" / "triton-softmax"
KERNEL = (FOLDER / "kernel.py").read_text()
ENTRY = "def run_kernel(x, out, M, N):"


def beginning(lines: str) -> str:
    """The right kernel with `lines` before its launch."""
    return KERNEL.replace(ENTRY, f"{ENTRY}\n    {lines}")


TASK = softmax(language="triton", reference=(FOLDER / "reference.py").read_text())
WRONG = {
    "wrong value": ("/ total", "/ (total + 1)", "error"),
    "not written": ("[(M,)]", "[(max(M - 1, 1),)]", "out"),
    "an exception": (ENTRY, f"{ENTRY}\n    raise RuntimeError('no')", "RuntimeError: no"),
    "input changed": (ENTRY, f"{ENTRY}\n    x.zero_()", "input x"),
    "process killed": (ENTRY, f"{ENTRY}\n    import os\n    os.kill(os.getpid(), 9)", "signal 9"),
    "process left": (ENTRY, f"{ENTRY}\n    import os\n    os._exit(0)", "before it was done"),
}


def test_a_right_kernel_passes(beside: Beside) -> None:
    found = run_interpreter(TASK, KERNEL, *beside)
    assert found.status == "passed" and len(found.cases) == 3
    assert all(case.error is not None and case.error < 1e-6 for case in found.cases)


@pytest.mark.parametrize("what", sorted(WRONG))
def test_a_wrong_kernel_fails_with_its_reason(what: str, beside: Beside) -> None:
    old, new, said = WRONG[what]
    found = run_interpreter(TASK, KERNEL.replace(old, new), *beside)
    assert found.status == "failed" and said in found.reason and "\n" not in found.reason


NARROW_REFERENCE = """
import torch

outputs = ("out",)


def make_inputs(dims, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(dims["M"], dims["N"], generator=generator).to(torch.DTYPE)
    return {"x": x, "out": torch.empty_like(x), "M": dims["M"], "N": dims["N"]}


def reference(x, out, M, N):
    x = x.to(torch.promote_types(torch.float32, x.dtype) if x.itemsize > 1 else torch.float32)
    return x * x / (1 + x.abs().sum(1, keepdim=True)) - 2
"""
NARROW_KERNEL = """import triton
import triton.language as tl


@triton.jit
def rows(x, out, N, B: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, B)
    mask = tl.arange(0, B) < N
    row = tl.load(x + at, mask, other=0.0)
    if row.dtype.primitive_bitwidth == 8:
        row = row.to(tl.bfloat16)
    total = tl.sum(tl.abs(row).to(tl.float32), axis=0)
    tl.store(out + at, (row * row / (1 + total) - 2).to(out.dtype.element_ty), mask)


def run_kernel(x, out, M, N):
    rows[(M,)](x, out, N, B=triton.next_power_of_2(N))
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_numbers_of_16_and_8_bits_are_computed_with_as_numbers(dtype: str, beside: Beside) -> None:
    arguments = tuple(
        a if a.role == "scalar" else a.model_validate({**a.model_dump(), "dtype": dtype}) for a in TASK.arguments
    )
    task = TASK.model_copy(update={"arguments": arguments, "reference": NARROW_REFERENCE.replace("DTYPE", dtype)})
    found = run_interpreter(task, NARROW_KERNEL, *beside)
    assert found.status == "passed" and len(found.cases) == 3, found.reason
    wrong = run_interpreter(task, NARROW_KERNEL.replace("- 2)", "- 3)"), *beside)
    assert wrong.status == "failed" and "out: error" in wrong.reason


def test_sums_products_and_atomics_of_bfloat16_are_right_or_refused(beside: Beside) -> None:
    reference = NARROW_REFERENCE.replace("DTYPE", "bfloat16").replace(
        "x * x / (1 + x.abs().sum(1, keepdim=True)) - 2", "torch.where(x > 0, x.sum(1, keepdim=True), x.amax(1, True))"
    )
    kernel = NARROW_KERNEL.replace(
        "total = tl.sum(tl.abs(row).to(tl.float32), axis=0)", "low = tl.where(mask, row, -9.0)"
    )
    kernel = kernel.replace(
        "(row * row / (1 + total) - 2)", "tl.where(row > 0, tl.sum(row, axis=0), tl.max(low, axis=0).to(tl.bfloat16))"
    )
    arguments = tuple(a if a.role == "scalar" else a.model_copy(update={"dtype": "bfloat16"}) for a in TASK.arguments)
    task = TASK.model_copy(update={"arguments": arguments, "reference": reference})
    assert (found := run_interpreter(task, kernel, *beside)).status == "passed", found.reason
    added = run_interpreter(task, kernel.replace("tl.store(", "tl.atomic_add("), *beside)
    assert added.status == "unmeasured" and "atomic operations on bf16" in added.reason


def ranged(task: Task, workloads: tuple[dict[str, float], ...], dims_range: dict[str, tuple[int, int]]) -> Task:
    named = tuple(Workload(name=f"w{at}", dims=dims) for at, dims in enumerate(workloads))
    return task.model_copy(update={"workloads": named, "dims_range": dims_range})


def test_sizes_keep_to_the_range_that_the_user_gives() -> None:
    task = ranged(TASK, ({"M": 4096, "N": 1024},), {"M": (1, 4096), "N": (128, 8192)})
    assert [dims["N"] for dims in ragged_dims(task)] == [128, 129, 130] and [
        dims["M"] for dims in ragged_dims(task)
    ] == [
        5,
        3,
        1,
    ]
    guessed = ranged(TASK, ({"M": 4096, "N": 1024},), {"M": (1024, 4096), "N": (256, 1024)})
    assert ragged_dims(guessed) == ragged_dims(TASK)


ASSERTING = beginning("assert N >= 128, N")


def test_a_kernel_for_large_rows_passes_in_its_range_and_fails_within_a_wider_one(
    beside: Beside,
) -> None:
    own, wider = (ranged(TASK, ({"M": 64, "N": 1024},), {"M": (1, 64), "N": (low, 8192)}) for low in (128, 127))
    found, shown = run_interpreter(own, ASSERTING, *beside), run_interpreter(wider, ASSERTING, *beside)
    assert found.status == "passed" and not found.dropped and shown.status == "failed"
    assert "at M=5 N=127: AssertionError: 127 at line" in shown.reason and "`assert N >= 128, N`" in shown.reason


def test_sizes_that_the_reference_refuses_are_not_asked_of_the_kernel(beside: Beside) -> None:
    even = TASK.reference.replace(
        "    return torch", "    assert N % 4 == 0, 'N must be a multiple of four'\n    return torch"
    )
    for ranges in ({}, {"M": (1, 64), "N": (8, 1024)}):
        task = ranged(TASK, ({"M": 64, "N": 1024},), ranges).model_copy(update={"reference": even})
        found = run_interpreter(task, KERNEL, *beside)
        assert found.status == "passed" and found.cases and all(int(case.dims["N"]) % 4 == 0 for case in found.cases)
        assert found.dropped and all("multiple of four" in case.problem for case in found.dropped)


POWERS = """import triton
import triton.language as tl


@triton.jit
def rows(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + at)
    row = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + at, row / tl.sum(row, axis=0))


def run_kernel(x, out, M, N):
    rows[(M,)](x, out, N)
"""


def test_a_kernel_for_powers_of_two_passes_where_all_workloads_are_such(beside: Beside) -> None:
    task = ranged(TASK, ({"M": 64, "N": 1024}, {"M": 32, "N": 4096}), {})
    found = run_interpreter(task, POWERS, *beside)
    assert found.status == "passed" and found.cases and "power of 2" in found.dropped[0].problem
    wrong = run_interpreter(task, POWERS.replace("row / tl", "row * 2 / tl"), *beside)
    assert wrong.status == "failed" and "above" in wrong.reason


def test_a_size_that_nobody_promised_is_not_held_against_a_kernel(beside: Beside) -> None:
    only = beginning("assert M == {M} and N == 1024")
    task = ranged(TASK, ({"M": 8, "N": 1024},), {})
    found = run_interpreter(task, only.replace("{M}", "8"), *beside)
    assert found.status == "passed" and [case.dims for case in found.cases] == [{"M": 8, "N": 1024}] and found.dropped
    large = ranged(TASK, ({"M": 1 << 17, "N": 1024},), {})
    untold = run_interpreter(large, only.replace("{M}", str(1 << 17)), *beside)
    assert untold.status == "unmeasured" and "set dims_range" in untold.reason


@pytest.mark.parametrize("query", ["torch.empty(1, device='cuda')", "assert x.is_cuda"])
def test_what_needs_a_gpu_ends_unmeasured(query: str, beside: Beside) -> None:
    source = "import torch\n" + beginning(query)
    found = run_interpreter(TASK, source, *beside)
    assert found.status == "unmeasured" and "GPU" in found.reason and query in found.reason and "\n" not in found.reason


def test_the_kernel_touches_no_file(beside: Beside, tmp_path: Path) -> None:
    executor, blobs = beside
    if not inspect_environment(executor, (Triton(),), blobs).sandbox.get("landlock", "").startswith("abi"):
        pytest.skip("this kernel has no Landlock")
    secret, written = tmp_path / "secret", tmp_path / "written"
    secret.write_text("secret")
    tries = [
        f"open({str(secret)!r}).read()",
        f"open({str(written)!r}, 'a').write('x')",
        "open('interpret.json').read()",
    ]
    tries += [
        "open('interpreted.json', 'a').write('x')",
        f"__import__('os').symlink({str(written)!r}, 'interpreted.json')",
    ]
    body = "\n".join(
        f"    try:\n        E({text!r})\n        reached = True\n    except OSError:\n        pass" for text in tries
    )
    source = KERNEL.replace(
        "def run_kernel(x, out, M, N):",
        f"E = exec\n\n\ndef run_kernel(x, out, M, N):\n    reached = False\n{body}\n    assert not reached",
    )
    found = run_interpreter(TASK, source, executor, blobs)
    assert found.status == "passed", found.reason
    assert not written.exists()


def test_a_reference_that_cannot_make_a_size_is_not_a_fault_of_the_kernel(beside: Beside) -> None:
    picky = TASK.reference.replace("    rows, columns =", "    assert dims['N'] % 64 == 0\n    rows, columns =")
    assert picky != TASK.reference
    found = run_interpreter(TASK.model_copy(update={"reference": picky}), KERNEL, *beside)
    assert found.status == "passed" and found.dropped[0].kind == "reference"
