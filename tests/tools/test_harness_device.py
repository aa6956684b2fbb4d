"""What can be tested of judging on a GPU without one: recorded answers of an H200, the layout of its memory, and the pure rules."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools import evidence
from tools.artifacts import Argument, Task
from tools.protocol import (
    RESULT,
    Contestant,
    ContestRequest,
    ContestResult,
    CorrectnessResult,
    TimedWorkload,
    TimingRequest,
    TimingResult,
)

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).parent / "fixtures" / "cuda"
TASK = Task(
    name="softmax",
    language="triton",
    arguments=(Argument(name="out", role="output", dtype="float32", shape=("M", "N")),),
    reference="",
    workloads=(),
)


def module(name: str) -> ModuleType:
    """One of the harness's own modules, which stand beside the device and are no package."""
    folder = ROOT / "tools" / "harness"
    sys.path.insert(0, str(folder))
    try:
        specification = importlib.util.spec_from_file_location(f"harness_{name}", folder / f"{name}.py")
        assert specification and specification.loader
        made = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(made)
    finally:
        sys.path.remove(str(folder))
    return made


def recorded(name: str) -> object:
    return RESULT.validate_json((RECORDED / f"harness_{name}.json").read_text())


def workload(pairs: int, warm: int = 0) -> TimedWorkload:
    return TimedWorkload(name="w", dims={"M": 4096, "N": 4096}, weight=1.0, seed=1, pairs=pairs, warm_pairs=warm)


# ---------------------------------------------------------------- recorded answers


def test_recorded_correctness() -> None:
    right, wrong = recorded("correctness"), recorded("wrong")
    assert isinstance(right, CorrectnessResult) and isinstance(wrong, CorrectnessResult)
    assert [case.status for case in right.cases] == ["passed", "passed"]
    assert all(case.max_error is not None and case.tolerance is not None and case.max_error < case.tolerance for case in right.cases)
    assert wrong.cases[0].status == "failed" and "read-only" in wrong.cases[0].reason


def test_recorded_timing_has_launches_apart_and_the_state_of_the_gpu() -> None:
    timing = recorded("timing")
    assert isinstance(timing, TimingResult)
    request = TimingRequest(task=TASK, libraries={}, workloads=(workload(8, 2),), order_seed=1, device="cuda")
    evidence.check_timing(request, timing)
    found = timing.workloads[0]
    assert found.launched_candidate_s is not None and found.launched_candidate_s > min(pair.candidate_s for pair in found.pairs)
    assert timing.telemetry.gpu is not None and timing.telemetry.gpu.source == "pynvml"
    assert timing.telemetry.gpu.sm_mhz_before and not timing.telemetry.gpu.foreign_processes


def test_recorded_contest_names_what_was_executed() -> None:
    contest = recorded("contest")
    assert isinstance(contest, ContestResult)
    kernels = tuple(Contestant(name=name, kind="library", library=f"{name}.py") for name in ("incumbent", "candidate"))
    frameworks = tuple(Contestant(name=name, kind=name) for name in ("eager", "compile", "max_autotune"))  # type: ignore[arg-type]
    request = ContestRequest(task=TASK, contestants=(*kernels, *frameworks), workloads=(workload(8),), order_seed=1, device="cuda")
    evidence.check_contest(request, contest)
    assert contest.executed == {"candidate": ("softmax_kernel",)}
    found = contest.workloads[0]
    assert len(found.device_rounds) == len(found.rounds)
    assert all(
        by_device[name] < by_clock[name] for by_clock, by_device in zip(found.rounds, found.device_rounds, strict=True) for name in by_clock
    )


# ---------------------------------------------------------------- disturbances on a CPU


def scheduled(telemetry: ModuleType, count: int, ran: float, waited: float) -> object:
    seen = telemetry.Threads(0)
    seen.count, seen.ran, seen.waited = count, ran, waited
    return seen


def test_what_the_scheduler_has_counted_for_ourselves() -> None:
    seen = module("telemetry").Threads(os.getpid())
    assert seen.count >= 1 and seen.ran >= 0 and seen.waited >= 0
    assert module("telemetry").Threads(0).count == 0


@pytest.mark.parametrize(
    ("count", "busy", "waited", "disturbed"),
    [
        (1, 0.5, 0.0, False),
        (1, 0.5, 0.5, True),
        (1, 1.0, 0.05, False),
    ],
)
def test_threads_that_wait_for_a_core_are_disturbed(count: int, busy: float, waited: float, disturbed: bool) -> None:
    place, telemetry = module("place"), module("telemetry")
    before, after = scheduled(telemetry, count, 1.0, 2.0), scheduled(telemetry, count, 1.0 + busy, 2.0 + waited)
    assert place.Host.disturbed(object.__new__(place.Host), [before], [after], 1.0, [], 1e-4) is disturbed


def test_threads_that_only_wait_for_each_other_are_not() -> None:
    place, telemetry, cores = module("place"), module("telemetry"), len(os.sched_getaffinity(0))
    host, many = object.__new__(place.Host), 4 * cores
    before = scheduled(telemetry, many, 0.0, 0.0)
    alone, robbed = scheduled(telemetry, many, float(cores), 3.0 * cores), scheduled(telemetry, many, 0.5 * cores, 3.5 * cores)
    assert not host.disturbed([before], [alone], 1.0, [], 1e-4)
    assert host.disturbed([before], [robbed], 1.0, [], 1e-4)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("sizes", [[4], [1000, 3], [1 << 20, 256, 7]])
def test_outputs_are_aligned_and_guarded_on_both_sides(sizes: list[int]) -> None:
    buffers = module("devicebuffers")
    plan = buffers.DeviceOutputs(sizes, 5)
    assert len(plan.offsets) == 5 and plan.total == 5 * plan.stride
    covered = sorted([*plan.guards, *((start, start + size) for start, size in zip(plan.starts, sizes, strict=True))])
    assert covered[0][0] == 0 and covered[-1][1] == plan.stride
    assert all(left[1] == right[0] for left, right in itertools.pairwise(covered)), "gaps or overlaps"
    assert all(end - start >= buffers.GUARD for start, end in plan.guards)
    assert all(offset % buffers.ALIGN == 0 for row in plan.offsets for offset in row)


def test_slots_are_poisoned_in_runs() -> None:
    assert module("devicememory").runs([4, 0, 1, 2, 4, 7]) == [(0, 3), (4, 5), (7, 8)]
    assert module("devicememory").runs([]) == []


# ---------------------------------------------------------------- executed kernels

SOURCE = """
import triton
from triton import jit

@triton.jit
def one(x): ...

@jit
def two(x): ...

@triton.jit(do_not_specialize=["n"])
def three(x): ...

def softmax(x): ...
"""


def test_jitted_functions_are_found_however_they_are_decorated() -> None:
    assert module("executed").jitted(SOURCE) == {"one", "two", "three"}


@pytest.mark.parametrize(
    ("kernels", "streams", "words"),
    [
        (["one", "three"], [7, 7], None),
        (["Memset (Device)", "one", "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >"], [7] * 3, None),
        (["one", "void at::native::(anonymous namespace)::cunn_SoftMaxForward<float>"], [7, 7], "a kernel that is not its own"),
        (["one", "softmax"], [7, 7], "ran softmax, a kernel that is not its own"),
        (["one", "two"], [7, 13], "ran two on another stream"),
        (["Memcpy DtoD (Device -> Device)"], [7], "none of its own kernels"),
        ([], [], "none of its own kernels"),
    ],
)
def test_what_is_not_the_candidates_own_is_named(kernels: list[str], streams: list[int], words: str | None) -> None:
    said = module("executed").complaint({"kernels": kernels, "streams": streams, "stream": 7}, SOURCE)
    assert said is None if words is None else words in str(said)


def test_a_gpu_that_nobody_reports_on_is_said_to_be_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    watch = module("nvml").Watch("0")
    watch.library = None
    assert watch.state() == (0, 0)
    assert watch.summary(watch.read(), watch.read()) == {"source": "absent"}
