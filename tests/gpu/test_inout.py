"""In/out arguments on a GPU: every call finds the content that make_inputs gave, in checks, trains, contests and graphs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpu import bench as gpu
from tests.tools import builders
from tools.artifacts import Argument

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]
REFERENCE = """
import torch
inout = ("y",)

def make_inputs(dims, seed, device="cpu"):
    g = torch.Generator(device=device).manual_seed(seed)
    y, x = (torch.randn(dims["M"], dims["N"], generator=g, device=device) for _ in range(2))
    return {"y": y, "x": x, "top": torch.empty(dims["M"], device=device), "M": dims["M"], "N": dims["N"]}

def reference(y, x, top, M, N):
    y.mul_(0.5).add_(x)
    top.copy_(y.amax(1))
"""
ARGUMENTS = tuple(
    Argument(name=name, role=role, dtype=dtype, shape=shape)  # type: ignore[arg-type]
    for name, role, dtype, shape in (
        ("y", "inout", "float32", ("M", "N")),
        ("x", "input", "float32", ("M", "N")),
        ("top", "output", "float32", ("M",)),
        ("M", "scalar", "int32", ()),
        ("N", "scalar", "int32", ()),
    )
)
TASK = builders.softmax(language="triton", reference=REFERENCE, arguments=ARGUMENTS).model_dump(mode="json")
KERNEL = """
import triton
import triton.language as tl


@triton.jit
def step(y_ptr, x_ptr, top_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    y = tl.load(y_ptr + row * n_cols + cols, mask=inside, other=float("-inf"))
    y = 0.5 * y + tl.load(x_ptr + row * n_cols + cols, mask=inside, other=0.0)
    tl.store(y_ptr + row * n_cols + cols, y, mask=inside)
    tl.store(top_ptr + row, tl.max(y, axis=0))


def run_kernel(y, x, top, M, N):
    step[(M,)](y, x, top, N, BLOCK=triton.next_power_of_2(N))
"""
TWICE = KERNEL + "    step[(M,)](y, x, top, N, BLOCK=triton.next_power_of_2(N))\n"
SMALL = {"M": 512, "N": 1024}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gpu.GpuBench]:
    made = gpu.GpuBench(tmp_path_factory.mktemp("inout"))
    made.task = TASK
    yield made
    made.close()


def test_a_kernel_that_changes_its_argument_passes_every_distribution(bench: gpu.GpuBench) -> None:
    distributions = ("as_given", "scaled", "shifted", "outliers", "near_zero")
    cases = [gpu.case(seed=i, distribution=d, required=d == "as_given") for i, d in enumerate(distributions)]
    answer = bench.check(KERNEL, *cases, gpu.case(SMALL), baseline=KERNEL + "\n# baseline\n")
    assert [r["status"] for r in answer["cases"]] == ["passed"] * 6, answer
    answer = bench.check(TWICE, gpu.case())
    assert "relative error" in answer["cases"][0]["reason"] and "y[" in answer["cases"][0]["reason"], answer


def test_trains_find_the_content_in_every_call(bench: gpu.GpuBench) -> None:
    (timed,) = bench.time(KERNEL, KERNEL + "\n# copy\n", SMALL, warm=2)["workloads"]
    assert timed["problem"] is None and timed["calls_per_sample"] > 1, timed


def test_contests_with_torch_and_graphs_restore_it(bench: gpu.GpuBench) -> None:
    """A replay computes on what it finds in the slots, so that these are restored before it as before a call."""
    contestants = [{"name": name, "kind": "library", "library": f"{name}.py"} for name in ("incumbent", "candidate")]
    contestants += [{"name": name, "kind": name} for name in ("eager", "compile")]
    files = {"incumbent.py": KERNEL, "candidate.py": KERNEL + "\n# copy\n"}
    answer = bench.contest(contestants, files, SMALL, rounds=3, graph_rounds=2)
    (held,) = answer["workloads"]
    assert (answer["problem"], answer["unavailable"], held["uncaptured"]) == (None, {}, {}), answer
    assert len(held["rounds"]) == 3 and len(held["graph_rounds"]) == 2
