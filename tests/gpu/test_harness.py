"""The harness on a GPU with real Triton kernels: honest ones pass, and each way of being wrong is told from the
others."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gpu import bench as gpu
from tools.artifacts import Record
from tools.executors.protocol import PROTOCOL, ContestResult
from tools.gate import confirmation

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]

HONEST, case, kernel = gpu.HONEST, gpu.case, gpu.kernel

WIDE = {"M": 4096, "N": 4096}
SMALL = {"M": 512, "N": 1024}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gpu.GpuBench]:
    made = gpu.GpuBench(tmp_path_factory.mktemp("harness"))
    yield made
    made.close()


def test_an_honest_kernel_passes_every_distribution(bench: gpu.GpuBench) -> None:
    distributions = ("as_given", "scaled", "shifted", "outliers", "near_zero")
    cases = [case(seed=i, distribution=d, required=d == "as_given") for i, d in enumerate(distributions)]
    answer = bench.check(kernel(), *cases, case({"M": 1, "N": 1}), case(WIDE), baseline=kernel(tag="baseline"))
    assert [r["status"] for r in answer["cases"]] == ["passed"] * 7, answer
    assert all(0 <= r["max_error"] <= r["tolerance"] for r in answer["cases"])
    assert 0 < answer["cases"][0]["max_error"] < 1e-5


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (kernel(HONEST + "    poke[(1,)](out, 3 * N + 7, 0.5)\n"), ["relative error", "out[3, 7]", "expected"]),
        (kernel("    pass\n"), ["NaN", "out[0, 0]"]),
        (kernel("    softmax(x, out, M - 1, N)\n"), ["never written", "out[36, 0]"]),
        (kernel(HONEST + "    poke[(1,)](out, M * N, 1.0)\n"), ["outside its output"]),
        (kernel(HONEST + "    poke[(1,)](out, -1, 1.0)\n"), ["outside its output"]),
        (kernel(HONEST + "    poke[(1,)](x, 5, 1.0)\n"), ["illegal memory access", "read-only"]),
        (kernel("    raise ValueError('no luck')\n"), ["raised ValueError: no luck"]),
        (kernel("    import os; os._exit(3)\n"), ["called exit(3)"]),
        (kernel(HONEST + "    import time; time.perf_counter = lambda: 0.0\n"), ["replaced time.perf_counter"]),
        (kernel(HONEST, "torch.cuda.synchronize = lambda *_: None\n"), ["replaced torch.cuda.synchronize"]),
        (kernel(HONEST + "    torch.backends.cuda.matmul.allow_tf32 = True\n"), ["changed torch's"]),
        (kernel(HONEST, "def broken(:\n"), ["cannot be imported: SyntaxError"]),
        ("import triton\n", ["has no function `run_kernel`"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_each_fault_has_its_sentence(bench: gpu.GpuBench, source: str, words: list[str]) -> None:
    answer = bench.check(source, case(), case(seed=4), baseline=kernel(tag="baseline"))
    results = answer.get("cases", [])
    assert [r["status"] for r in results] == ["failed"], answer
    for word in [*words, "workload w", "M=37 N=61"]:
        assert word in results[0]["reason"], results[0]["reason"]


def test_an_import_that_sleeps_is_stopped(bench: gpu.GpuBench) -> None:
    answer = bench.check(kernel(before="import time\ntime.sleep(60)\n"), limit_s=2.0)
    assert "did not return within 2 s while being imported" in answer["cases"][0]["reason"], answer


def test_the_sandbox_holds(bench: gpu.GpuBench) -> None:
    body = """
    bad = 0
    for path, mode in (("/etc/passwd", "r"), ("/tmp/kernel-was-here", "w"), ("request.json", "r")):
        try:
            open(path, mode).close()
            bad = 1
        except OSError:
            pass
    import os
    if "HOME" in os.environ:
        bad = 2
    softmax(x, out, M, N)
    if bad:
        poke[(1,)](out, 0, 100.0 + bad)
"""
    answer = bench.check(kernel(body))
    assert answer["cases"][0]["status"] == "passed", answer


def test_pairs_of_a_kernel_and_its_copy_alternate_in_order_and_are_checked(bench: gpu.GpuBench) -> None:
    answer = bench.time(kernel(), kernel(tag="copy"), WIDE, pairs=16, warm=3)
    timed = answer["workloads"][0]
    assert timed["problem"] is None, answer
    assert len(timed["pairs"]) == 16 and len(timed["warm_pairs"]) == 3
    assert 0.8 < statistics.median(p["incumbent_s"] / p["candidate_s"] for p in timed["pairs"]) < 1.25
    assert {p["candidate_first"] for p in timed["pairs"]} == {True, False}
    assert timed["max_error"] <= timed["tolerance"]
    assert timed["launched_candidate_s"] > 0
    seen = answer["telemetry"]["gpu"]
    assert seen["source"] == "nvml", "the driver's own library is here wherever the driver is"
    assert seen["sm_mhz_before"] > 0 and seen["foreign_processes"] in (0, None)
    assert (seen["foreign_busy"] is None) is (seen["foreign_processes"] is None)


def test_short_kernels_run_as_trains(bench: gpu.GpuBench) -> None:
    timed = bench.time(kernel(), kernel(tag="copy"), SMALL)["workloads"][0]
    assert timed["problem"] is None, timed
    assert timed["calls_per_sample"] > 1


BY_ADDRESS = """
    kept = seen.get(x.data_ptr())
    if kept is None:
        softmax(x, out, M, N)
        seen[x.data_ptr()] = out.clone()
    else:
        out.copy_(kept)
"""
SIDE = """
    with torch.cuda.stream(side):
        softmax(x, out, M, N)
"""
TIMER = """
    softmax(x, out, M, N)
    calls.append(1)
    if len(calls) > 6:
        import time
        time.perf_counter = lambda: 0.0
"""
FLAGS = """
    softmax(x, out, M, N)
    calls.append(1)
    if len(calls) > 6:
        torch.backends.cudnn.allow_tf32 = True
"""
LATER = """    calls.append(1)
    if len(calls) == 7:
        {}
"""
DRIVER = """
import gc, sys
calls = []
driver = sys.modules["harness.memory.cuda_driver"].CudaDriver
honest = driver.elapsed

def gc_bound():
    return next(d for d in gc.get_objects() if isinstance(d, dict) and "cuEventElapsedTime" in d and "cuEventQuery" in d
                and not isinstance(d["cuEventQuery"], list))["cuEventElapsedTime"]
"""
OTHER = """
import sys
calls = []
other = sys.modules.get("kernel_incumbent")

def slow(*given, **named):
    return type(other.softmax_kernel).run(other.softmax_kernel, *given, **named)
"""
KEEPS_NUMBERS = """
    found = torch.empty_like(out)
    softmax(x, found, M, N)
    out.copy_(torch.where(out.isnan(), found, out))
"""
ZERO_SCRATCH = """
    kept = torch.empty(1 << 16, device=x.device)
    softmax(x, out, M, N)
    out.add_(kept[7])
    kept.zero_()
"""
WATCHES = """
    if not watchers:
        watchers.append(threading.Thread(target=watch, daemon=True))
        watchers[0].start()
    softmax(x, out, M, N)
"""
WATCHER = """
import threading
watchers = []

def watch():
    while True:
        sum(range(1000))
"""
EVIL = [
    (BY_ADDRESS, "seen = {}\n", "wrong on a timed call"),
    ("    calls.append(1)\n    if len(calls) < 9: softmax(x, out, M, N)\n", "calls = []\n", "wrong on a timed call"),
    (SIDE, "side = torch.cuda.Stream()\n", "another stream"),
    (TIMER, "calls = []\n", "replaced time.perf_counter"),
    (FLAGS, "calls = []\n", "cudnn.allow_tf32"),
    (HONEST + "    poke[(1,)](out, M * N + 3, 0.0)\n", "", "outside its output"),
    (
        HONEST + LATER.format("driver.elapsed = lambda *given: 0.78 * honest(*given)"),
        DRIVER,
        "replaced the harness's cuda_driver.CudaDriver.elapsed",
    ),
    (
        HONEST + LATER.format("gc_bound().errcheck = lambda result, *_: result"),
        DRIVER,
        "replaced a conversion of the driver's cuEventElapsedTime",
    ),
    (HONEST + LATER.format("other.softmax_kernel.run = slow"), OTHER, "added the incumbent's softmax_kernel.run"),
    (KEEPS_NUMBERS, "", "wrong on a timed call"),
    (ZERO_SCRATCH, "", "wrong on a timed call"),
    (WATCHES, WATCHER, "worked between the drawing of its inputs and the call"),
]
NAMES = ["by_address", "then_nothing", "side_stream", "timer", "flags", "guard"]
NAMES += ["elapsed", "errcheck", "incumbent_launch", "keeps_numbers", "zero_scratch", "watcher"]


@pytest.mark.parametrize(("body", "before", "words"), EVIL, ids=NAMES)
def test_timed_calls_are_checked_calls(bench: gpu.GpuBench, body: str, before: str, words: str) -> None:
    timed = bench.time(kernel(), kernel(body, before), {"M": 1024, "N": 2048}, pairs=16)["workloads"][0]
    assert timed["culprit"] == "candidate", timed
    assert words in timed["problem"]


KERNELS: list[dict[str, str | None]] = [
    {"name": name, "kind": "library", "library": f"{name}.py"} for name in ("incumbent", "candidate")
]


def contest(bench: gpu.GpuBench, candidate: str, incumbent: str = kernel(), **options: Any) -> dict[str, Any]:
    """What a contest of two kernels over a wide workload answers."""
    return bench.contest(KERNELS, {"incumbent.py": incumbent, "candidate.py": candidate}, WIDE, **options)


def test_contestants_run_in_separate_processes_and_get_their_own_seconds(bench: gpu.GpuBench) -> None:
    field = [
        *KERNELS,
        {"name": "eager", "kind": "eager", "library": None},
        {"name": "compile", "kind": "compile", "library": None},
    ]
    files = {"incumbent.py": kernel(HONEST * 3), "candidate.py": kernel()}
    answer = bench.contest(field, files, WIDE)
    assert answer["problem"] is None, answer
    rounds = answer["workloads"][0]["rounds"]
    assert len(rounds) == 6 and all({"incumbent", "candidate", "eager"} <= set(r) for r in rounds)
    assert statistics.median(r["incumbent"] / r["candidate"] for r in rounds) > 1.5
    assert "softmax_kernel" in answer["executed"]["candidate"], answer["executed"]


def test_a_library_call_in_disguise_is_named(bench: gpu.GpuBench) -> None:
    body = "    softmax(x, out, 1, N)\n    torch.softmax(x, dim=-1, out=out)\n"
    answer = contest(bench, kernel(body))
    assert answer["culprit"] == "candidate", answer
    assert "a kernel that is not its own" in answer["problem"] and answer["policy"] is True


@pytest.mark.parametrize(
    ("body", "words"),
    [("    softmax(x, out, 1, N)\n", None), ("", "is library, not a kernel: it ran nothing but aten.softmax")],
)
def test_the_tasks_library_is_let_pass_with_its_share_unless_it_is_all(
    bench: gpu.GpuBench, body: str, words: str | None
) -> None:
    candidate = kernel(f"{body}    torch.softmax(x, dim=-1, out=out)\n")
    answer = contest(bench, candidate, library=("aten.softmax",))
    assert (
        words in answer["problem"]
        if words
        else (answer["problem"] is None and 0.5 < answer["library_share"]["candidate"] < 1)
    ), answer


CUTE = """
import functools

import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor


@cute.kernel
def softmax_kernel(x: cute.Tensor, out: cute.Tensor):
    row, _, _ = cute.arch.block_idx()
    lane, _, _ = cute.arch.thread_idx()
    columns = cute.size(x, mode=[1])
    top = -cutlass.Float32.inf
    for at in range(lane, columns, 32):
        top = cute.arch.fmax(top, x[row, at])
    for step in cutlass.range_constexpr(5):
        top = cute.arch.fmax(top, cute.arch.shuffle_sync_bfly(top, offset=1 << step))
    total = cutlass.Float32(0.0)
    for at in range(lane, columns, 32):
        total += cute.math.exp(x[row, at] - top)
    for step in cutlass.range_constexpr(5):
        total += cute.arch.shuffle_sync_bfly(total, offset=1 << step)
    for at in range(lane, columns, 32):
        out[row, at] = cute.math.exp(x[row, at] - top) / total


@cute.jit
def softmax(x: cute.Tensor, out: cute.Tensor):
    softmax_kernel(x, out).launch(grid=[cute.size(x, mode=[0]), 1, 1], block=[32, 1, 1])


@functools.cache
def compiled(m: int, n: int):
    given = make_fake_compact_tensor(cutlass.Float32, (m, n), stride_order=(1, 0), assumed_align=16)
    return cute.compile(softmax, given, given)


def run_kernel(x, out, M, N):
    compiled(M, N)(from_dlpack(x, assumed_align=16), from_dlpack(out, assumed_align=16))
"""


def test_a_kernel_in_cute_dsl_is_judged_as_any_other(bench: gpu.GpuBench) -> None:
    pytest.importorskip("cutlass.cute")
    checked = bench.check(CUTE, case(SMALL), case({"M": 33, "N": 77}, seed=5))
    assert [r["status"] for r in checked["cases"]] == ["passed", "passed"], checked
    answer = contest(bench, f"{CUTE}# again\n", CUTE)
    assert answer["problem"] is None and "softmax_kernel" in " ".join(answer["executed"]["candidate"]), answer


SHY = "    if torch.autograd._profiler_enabled():\n        raise RuntimeError('no audience')\n" + HONEST
HIDES = "    if torch.autograd._profiler_enabled():\n        torch.autograd._disable_profiler()\n" + HONEST


@pytest.mark.parametrize(
    ("body", "words", "policy"), [(SHY, "no audience", False), (HIDES, "profiler", True)], ids=["raises", "hides"]
)
def test_who_does_not_want_to_be_looked_at_is_at_fault(
    bench: gpu.GpuBench, body: str, words: str, policy: bool
) -> None:
    answer = contest(bench, kernel(body))
    assert answer["kind"] == "contest" and answer["culprit"] == "candidate", answer
    assert words in answer["problem"] and answer["policy"] is policy, answer


def test_a_baseline_that_calls_a_library_is_told_at_once(bench: gpu.GpuBench) -> None:
    answer = bench.check(kernel("    softmax(x, out, 1, N)\n    torch.softmax(x, dim=-1, out=out)\n"))
    assert [(r["status"], r.get("policy")) for r in answer["cases"]] == [("failed", True)], answer
    assert answer["cases"][0]["reason"].startswith("ran ") and "not its own" in answer["cases"][0]["reason"]
    assert [r["status"] for r in bench.check(kernel(tag="alone"))["cases"]] == ["passed"]


def test_on_an_honest_gain_the_clocks_do_not_contradict_each_other(bench: gpu.GpuBench) -> None:
    slower, faster = (kernel(f"    softmax(x, out, M, N, {rounds})\n") for rounds in (1500, 1200))
    answer = contest(bench, faster, slower, rounds=12)
    assert answer["problem"] is None, answer
    result = ContestResult.model_validate_json(json.dumps(answer))
    held = confirmation.Contest(
        candidates={"incumbent": "i", "candidate": "c"}, attempt=0, weights={"w": 1.0}, result=result
    )
    record = Record(
        kind="confirmation", key="k", environment="", protocol=PROTOCOL, payload=held.model_dump(mode="json")
    )
    wall = confirmation.confirmed_speedup((record,), "total_time", 0.95)
    assert wall.low > 1.0 and not confirmation.is_contradicted_by_wall_clock((record,), "total_time", 0.95), (
        wall,
        answer["workloads"],
    )
    assert not confirmation.any_disturbed((record,)), answer["telemetry"]


BUSY = "import torch\nx = torch.ones(1 << 26, device='cuda')\nprint('on', flush=True)\nwhile True:\n    x.add_(1)\n"


def test_another_process_on_the_gpu_is_noted(bench: gpu.GpuBench) -> None:
    other = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        for _ in range(
            4
        ):  # The driver samples a few times a second, and a batch takes milliseconds: it may fall between two samples.
            answer = bench.time(kernel(), kernel(tag="copy"), WIDE)
            if answer["workloads"][0]["repeated"] + answer["workloads"][0]["dirty"]:
                break
    finally:
        other.kill()
        other.wait()
    seen = answer["telemetry"]["gpu"]
    if seen["foreign_processes"] is None:
        pytest.skip(
            "NVML lists ours under other numbers than we know, or not at all: whose the rest are is not known here"
        )
    timed = answer["workloads"][0]
    assert seen["foreign_processes"] == 1, seen
    assert timed["repeated"] + timed["dirty"] > 0, timed
