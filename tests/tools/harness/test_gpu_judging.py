"""What can be tested of judging on a GPU without one: recorded answers of an H200, the layout of its memory, and the
pure rules."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.tools.builders import softmax
from tools.executors.protocol import (
    RESULT_ADAPTER,
    Contestant,
    ContestRequest,
    ContestResult,
    TimedWorkload,
    TimingRequest,
    TimingResult,
)
from tools.gate import confirmation
from tools.judge import evidence

ROOT = Path(__file__).resolve().parents[3]
RECORDED = Path(__file__).parents[1] / "fixtures" / "cuda"
TASK = softmax(language="triton", workloads=())


def module(name: str) -> ModuleType:
    """A module of the harness as a new object, so that what a test changes in it is seen by no other."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        specification = importlib.util.find_spec(f"harness.{name}")
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert specification and specification.loader
    made = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(made)
    return made


def recorded(name: str) -> object:
    return RESULT_ADAPTER.validate_json((RECORDED / f"harness_{name}.json").read_text())


def workload(pairs: int, warm: int = 0) -> TimedWorkload:
    return TimedWorkload(name="w", dims={"M": 4096, "N": 4096}, weight=1.0, seed=1, pairs=pairs, warm_pairs=warm)


# ---------------------------------------------------------------- recorded answers


def test_recorded_timing_has_launches_apart_and_the_state_of_the_gpu() -> None:
    timing = recorded("timing")
    assert isinstance(timing, TimingResult)
    request = TimingRequest(task=TASK, libraries={}, workloads=(workload(8, 2),), order_seed=1, device="cuda")
    evidence.check_timing(request, timing)
    found = timing.workloads[0]
    assert found.launched_candidate_s is not None and found.launched_candidate_s > min(
        pair.candidate_s for pair in found.pairs
    )
    assert timing.telemetry.gpu is not None and timing.telemetry.gpu.source == "pynvml"
    assert timing.telemetry.gpu.sm_mhz_before and not timing.telemetry.gpu.foreign_processes


def test_recorded_contest_names_what_was_executed() -> None:
    contest = recorded("contest")
    assert isinstance(contest, ContestResult)
    kernels = tuple(Contestant(name=name, kind="library", library=f"{name}.py") for name in ("incumbent", "candidate"))
    frameworks = tuple(Contestant(name=name, kind=name) for name in ("eager", "compile", "max_autotune"))  # type: ignore[arg-type]
    request = ContestRequest(
        task=TASK, contestants=(*kernels, *frameworks), workloads=(workload(8),), order_seed=1, device="cuda"
    )
    evidence.check_contest(request, contest)
    assert contest.executed == {"candidate": ("softmax_kernel",)}
    found = contest.workloads[0]
    assert len(found.device_rounds) == len(found.rounds)
    assert all(
        by_device[name] < by_clock[name]
        for by_clock, by_device in zip(found.rounds, found.device_rounds, strict=True)
        for name in by_clock
    )


# ---------------------------------------------------------------- disturbances on a CPU


def scheduled(telemetry: ModuleType, count: int, ran: float, waited: float) -> object:
    seen = telemetry.ThreadTimes(0)
    seen.count, seen.ran, seen.waited = count, ran, waited
    return seen


CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("count", "busy", "waited", "disturbed"),
    [
        (1, 0.5, 0.0, False),
        (1, 0.5, 0.5, True),
        (1, 1.0, 0.05, False),
        (4 * CORES, CORES, 3 * CORES, False),  # They only wait for each other.
        (4 * CORES, 0.5 * CORES, 3.5 * CORES, True),
    ],
)
def test_threads_that_wait_for_a_core_are_disturbed(count: int, busy: float, waited: float, disturbed: bool) -> None:
    place, telemetry = module("measurement.backend"), module("device.telemetry")
    before, after = scheduled(telemetry, count, 1.0, 2.0), scheduled(telemetry, count, 1.0 + busy, 2.0 + waited)
    assert (
        place.TimingBackend.disturbed(object.__new__(place.TimingBackend), [before], [after], 1.0, [], 1e-4)
        is disturbed
    )


def counts(path: Path, *cores: tuple[int, int, int]) -> Path:
    """A /proc/stat that says (user, idle, stolen) ticks of cores 0, 1 ..."""
    rows = [f"cpu{at} {user} 0 0 {idle} 0 0 0 {stolen} 0 0" for at, (user, idle, stolen) in enumerate(cores)]
    path.write_text("\n".join(["cpu  9999 0 0 9 0 0 0 999 0 0", *rows, "intr 1 2 3"]) + "\n")
    return path


@pytest.mark.parametrize(
    ("later", "own", "others", "stolen"),
    [
        (((20, 80, 0), (10, 90, 0)), 1.0, 0.0, 0.0),  # alone
        (((20, 80, 0), (10, 85, 5)), 1.0, 0.25, 0.5),  # beside a hypervisor
        (((20, 80, 0), (20, 80, 0)), 1.0, 0.5, 0.0),  # beside a neighbour
        (((10, 90, 0), (10, 90, 0)), 1.0, None, None),  # in a sandbox that does not count
    ],
)
def test_a_batch_says_who_else_had_the_cores(
    later: Any, own: float, others: float | None, stolen: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One second on two cores, of which we used `own`; the third is nobody's concern."""
    pairs = module("measurement.paired_samples")
    cores, time, used = {0, 1}, [0.0], [0.0]
    monkeypatch.setattr(pairs.telemetry.os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setattr(pairs.telemetry, "CLOCK_TICKS_PER_S", 10)
    monkeypatch.setattr(pairs.telemetry, "STAT_FILE", counts(tmp_path / "stat", (10, 90, 0), (10, 90, 0), (0, 0, 0)))
    supervisor = SimpleNamespace(own_cpu_seconds=lambda: used[0])
    meter = pairs.TelemetryMeter(SimpleNamespace(supervisor=supervisor, telemetry=dict), lambda: time[0])
    time[0], used[0] = 1.0, own
    counts(tmp_path / "stat", *later, (5000, 0, 0))
    cores.add(2)  # What a core was at before it was ours is no neighbour's doing.
    found = pairs.TelemetryMeter.read(meter)
    assert (found["foreign_cpu_fraction"], found["stolen_fraction"]) == (pytest.approx(others), pytest.approx(stolen))
    assert found["cores"] == 2


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("sizes", [[4], [1000, 3], [1 << 20, 256, 7]])
def test_outputs_are_aligned_and_guarded_on_both_sides(sizes: list[int]) -> None:
    buffers = module("memory.gpu_layout")
    plan = buffers.DeviceOutputs(sizes, 5)
    assert len(plan.offsets) == 5 and plan.total == 5 * plan.stride
    covered = sorted([*plan.guards, *((start, start + size) for start, size in zip(plan.starts, sizes, strict=True))])
    assert covered[0][0] == 0 and covered[-1][1] == plan.stride
    assert all(left[1] == right[0] for left, right in itertools.pairwise(covered)), "gaps or overlaps"
    assert all(end - start >= buffers.GUARD for start, end in plan.guards)
    assert all(offset % buffers.ALIGN == 0 for row in plan.offsets for offset in row)


def test_slots_are_poisoned_in_runs() -> None:
    assert module("memory.gpu_arena").contiguous_runs([4, 0, 1, 2, 4, 7]) == [(0, 3), (4, 5), (7, 8)]
    assert module("memory.gpu_arena").contiguous_runs([]) == []


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


@pytest.mark.parametrize(
    ("kernels", "streams", "words"),
    [
        (["one", "three"], [7, 7], None),
        (
            [
                "Memset (Device)",
                "one",
                "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >",
            ],
            [7] * 3,
            None,
        ),
        (
            ["one", "void at::native::(anonymous namespace)::cunn_SoftMaxForward<float>"],
            [7, 7],
            "a kernel that is not its own",
        ),
        (["one", "softmax"], [7, 7], "ran softmax, a kernel that is not its own"),
        (["one", "two"], [7, 13], "ran two on another stream"),
        (["Memcpy DtoD (Device -> Device)"], [7], "none of its own kernels"),
        ([], [], "none of its own kernels"),
    ],
)
def test_what_is_not_the_candidates_own_is_named(kernels: list[str], streams: list[int], words: str | None) -> None:
    assert module("measurement.kernel_trace").jitted_functions(SOURCE) == {"one", "two", "three"}
    said = module("measurement.kernel_trace").complaint({"kernels": kernels, "streams": streams, "stream": 7}, SOURCE)
    assert said is None if words is None else words in str(said)


@pytest.mark.parametrize(
    ("kernels", "nodes", "words"),
    [
        (["void rows<4>(float const*)", "Memset (Device)"], ["_Z4rowsILi4EEvPKf"], None),
        (["softmax_kernel"], ["softmax_kernel"], None),
        (
            ["void (anonymous namespace)::first(float*)", "second"],
            ["second"],
            "it lacks void (anonymous namespace)::first",
        ),
        (["softmax_kernel"], [], "it lacks softmax_kernel"),
        ([], [], "it holds no kernel"),  # The profiler may not work on this machine.
        ([], ["softmax_kernel"], None),
        (["softmax_kernel", "softmax_kernel"], ["softmax_kernel"], "it lacks softmax_kernel"),
    ],
)
def test_a_graph_holds_every_kernel_of_a_call_by_name(kernels: list[str], nodes: list[str], words: str | None) -> None:
    said = module("measurement.kernel_trace").missing_from_graph({"kernels": kernels}, nodes * 3, 3)
    assert said is None if words is None else words in str(said) and "default stream" in str(said)


class Replays:
    """A contestant whose replays fail from the round `fails` on, by its own fault or by wrong outputs."""

    device_s = 1e-3

    def __init__(self, rounds: ModuleType, name: str, reason: str = "", fails: int = 99, policy: bool = False) -> None:
        self.rounds, self.name, self.reason, self.fails, self.policy = rounds, name, reason, fails, policy
        self.uncaptured, self.log = "", list[str]()

    def capture(self, piece: list[int]) -> str:
        self.log.append(f"capture {len(piece)}")
        return self.reason

    def time_piece(self, piece: list[int], replay: bool) -> float:
        self.log.append("replay")
        return 2e-3 * len(piece)

    def verify(self) -> None:
        if self.log.count("replay") >= self.fails:
            raise self.rounds.BrokenRuleError(self.name, "is wrong on a timed call: NaN", policy=self.policy)

    def reopen(self) -> None:
        self.log.append("reopen")

    def announce(self, piece: list[int]) -> None: ...
    def pid(self) -> int:
        return 1

    def piece_calls(self) -> int:
        return 4


def replay(rounds: ModuleType, *contestants: Replays, scalars: int = 0) -> tuple[dict[str, Any], list[str]]:
    """What rounds of graphs of the contestants answer, and what was done with the first one and the ring."""
    log = contestants[0].log
    backend = SimpleNamespace(
        evict_cache=lambda: None, disturbance=lambda pids: 0, disturbed=lambda *_: False, go_s=1e-3
    )
    ring = SimpleNamespace(
        backend=backend,
        renew=lambda at, dims: log.append(f"renew {len(at)}"),
        sets=SimpleNamespace(scalar_changes=scalars),
    )
    field, calls = {one.name: one for one in contestants}, {one.name: 4 for one in contestants}
    return rounds.run_graph_rounds(field, calls, ring, {"dims": {}}, random.Random(1), 2), log


def test_a_graph_is_captured_before_its_inputs_are_drawn_and_timed_on_new_ones_each_round() -> None:
    rounds = module("measurement.interleaved")
    found, log = replay(rounds, Replays(rounds, "candidate"))
    assert log == ["capture 4", "renew 4", "replay", "renew 4", "replay"]
    assert found == {
        "graph_rounds": [{"candidate": 2e-3}] * 2,
        "graph_device_rounds": [{"candidate": 2.5e-4}] * 2,
        "uncaptured": {},
    }


def test_contestants_that_cannot_be_captured_leave_the_rounds_and_say_why() -> None:
    rounds = module("measurement.interleaved")
    waits, wrong, fine = (
        Replays(rounds, "waits", "it waits"),
        Replays(rounds, "wrong", fails=2),
        Replays(rounds, "fine"),
    )
    found, _ = replay(rounds, waits, wrong, fine)
    assert found["uncaptured"] == {"waits": "it waits", "wrong": "its graph is wrong on a timed call: NaN"}
    assert [one.keys() for one in found["graph_rounds"]] == [{"fine"}] * 2
    assert [one.log.count("reopen") for one in (waits, wrong, fine)] == [1, 1, 0]
    again, log = replay(rounds, waits, fine)
    assert again["uncaptured"] == {"waits": "it waits"} and log.count("capture 4") == 1, "it is not tried again"
    with pytest.raises(rounds.BrokenRuleError):
        replay(rounds, Replays(rounds, "candidate", fails=1, policy=True))
    found, _ = replay(rounds, Replays(rounds, "candidate"), scalars=1)
    assert "scalars change" in found["uncaptured"]["candidate"] and found["graph_rounds"] == []


GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32"


@pytest.mark.parametrize(
    ("launched", "library", "words"),
    [
        ([0, 12], ["aten.linear"], None),
        ([0, 13], ["aten.linear"], None),
        ([0, 12], ["aten.mm"], f"ran {GEMM}, a kernel that is not its own"),
        ([0, 14], ["aten.linear"], f"ran {GEMM}, a kernel that is not its own"),
        ([0, 0], ["aten.linear"], f"ran {GEMM}, a kernel that is not its own"),
        ([12, 13], ["aten.linear"], "is library, not a kernel: it ran nothing but aten.linear"),
    ],
)
def test_of_torchs_kernels_only_those_that_the_tasks_library_launched_are_let_pass(
    launched: list[int], library: list[str], words: str | None
) -> None:
    trace = module("measurement.kernel_trace")
    operators = [(12, "aten::linear", 100, 200), (13, "aten::addmm", 110, 190), (14, "aten::relu", 300, 400)]
    kernels = ["one" if number == 0 and at == 0 else GEMM for at, number in enumerate(launched)]
    seen = {"kernels": kernels, "streams": [7, 7], "stream": 7, "operators": operators, "launched": launched}
    said = trace.complaint(seen, SOURCE, library)
    assert said is None if words is None else words in str(said)
    assert trace.complaint(seen, SOURCE) is not None, "without a library none of torch's kernels is the candidate's"


def test_operators_that_torch_dispatches_within_one_are_known_by_its_span() -> None:
    """With torch's own trace of a call on the CPU; that a GPU kernel's event names the innermost operator is not
    seen here."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.ops.aten.linear(torch.ones(4, 8), torch.ones(2, 8), torch.ones(2))
        torch.ones(3).relu()
    assert seen.profiler is not None and seen.profiler.kineto_results is not None
    events = [e for e in seen.profiler.kineto_results.events() if e.linked_correlation_id() == 0]
    operators = [(e.correlation_id(), e.name(), e.start_ns(), e.start_ns() + e.duration_ns()) for e in events]
    inner = {name: number for number, name, *_ in operators}
    launched = [inner["aten::addmm"], inner["aten::relu"], 0]
    told = module("measurement.kernel_trace").calling_operators(
        {"kernels": ["a", "b", "c"], "operators": operators, "launched": launched}, ["aten.linear"]
    )
    assert told == ["aten.linear", "", ""]


def test_a_profiler_that_does_not_work_is_told_from_a_candidate_that_hides() -> None:
    executed = module("measurement.kernel_trace")
    works, broken = {"kernels": ["touch"], "streams": [7], "stream": 7}, {"unavailable": "no CUPTI"}
    hidden = {"unavailable": "RuntimeError: not with me"}
    assert executed.executed_names_and_complaint(
        {"kernels": ["one", "one"], "streams": [7, 7], "stream": 7}, SOURCE, lambda: broken
    ) == (
        ["one"],
        None,
    )
    names, said = executed.executed_names_and_complaint(hidden, SOURCE, lambda: broken)
    assert (
        names == ["not known: RuntimeError: not with me"]
        and said is None
        and names[0].startswith(confirmation.UNPROFILED_PREFIX)
    )
    names, said = executed.executed_names_and_complaint(hidden, SOURCE, lambda: works)
    assert names == [] and "hid what it executes from the profiler" in str(said)


# ---------------------------------------------------------------- what a kernel's process may not change


WATCHED = """
LIMIT = 3
def elapsed(a, b=1, *, c=2):
    return max(a, b)
class Watched:
    def elapsed(self): return 1.0
    made = staticmethod(lambda: 1)
    own = property(lambda self: 2)
"""


def _lie(*_: object) -> float:
    return 0.78


def _watched() -> ModuleType:
    """Like a module of the harness: a constant, a function, and a class with a method, a static method and a
    property."""
    made = ModuleType("watched")
    exec(WATCHED, vars(made))
    made.c_float = type("c_float", (ctypes.c_float,), {"__module__": "ctypes"})  # type: ignore[attr-defined]
    return made


CHANGES = {
    "a function": (lambda m: setattr(m, "elapsed", _lie), "replaced ours.elapsed"),
    "a method": (lambda m: setattr(m.Watched, "elapsed", _lie), "replaced ours.Watched.elapsed"),
    "a method's code": (
        lambda m: setattr(m.Watched.elapsed, "__code__", _lie.__code__),
        "replaced the code of ours.Watched.elapsed",
    ),
    "a property": (lambda m: setattr(m.Watched, "own", property(_lie)), "replaced ours.Watched.own"),
    "a constant": (lambda m: setattr(m, "LIMIT", 4), "replaced ours.LIMIT"),
    "a name before a builtin": (lambda m: setattr(m, "max", min), "added ours.max"),
    "a value's type": (lambda m: setattr(m.c_float, "value", property(_lie)), "added ours.c_float.value"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_changed_in_the_harness_is_named(what: str) -> None:
    held, watched = module("isolation.integrity").HeldReferences(), _watched()
    held.hold_module("ours", watched, classes=("ctypes",))
    assert held.changed() == ""
    watched.__dict__["__warningregistry__"] = {}
    assert held.changed() == "", "what `warnings` adds by itself is nobody's doing"
    change, said = CHANGES[what]
    change(watched)
    assert held.changed() == said


KERNEL = """
import triton
import triton.language as tl

CACHE = {}
SMS = None
BLOCK = 64


@triton.jit
def poke(x, BLOCK: tl.constexpr):
    tl.store(x, 1.0)


def run_kernel(x):
    global SMS
    SMS = 132
    CACHE[x] = 1
"""
SABOTAGE = {
    "its entry": (lambda m: setattr(m, "run_kernel", _lie), "replaced the incumbent's module.run_kernel"),
    "its code": (
        lambda m: setattr(m.run_kernel, "__code__", _lie.__code__),
        "replaced the code of the incumbent's module.run_kernel",
    ),
    "a constant": (lambda m: setattr(m, "BLOCK", 16), "replaced the incumbent's module.BLOCK"),
    "a jitted function": (lambda m: setattr(m, "poke", None), "replaced the incumbent's module.poke"),
    "its launch": (lambda m: setattr(m.poke, "run", _lie), "added the incumbent's poke.run"),
    "its body": (lambda m: setattr(m.poke, "fn", _lie), "replaced the incumbent's poke.fn"),
    "a hook": (lambda m: m.poke.pre_run_hooks.append(_lie), "changed the incumbent's poke.pre_run_hooks"),
}


@pytest.mark.parametrize("what", SABOTAGE)
def test_an_incumbent_that_is_sabotaged_is_named(tmp_path: Path, what: str) -> None:
    pytest.importorskip("triton")
    integrity = module("isolation.integrity")
    (tmp_path / "kernel.py").write_text(KERNEL)
    specification = importlib.util.spec_from_file_location("kernel_incumbent", tmp_path / "kernel.py")
    assert specification and specification.loader
    incumbent = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(incumbent)
    held = integrity.HeldReferences()
    integrity.hold_kernel(held, "incumbent", incumbent)
    incumbent.run_kernel(3)
    assert held.changed() == "", "what it does to itself is its own affair"
    change, said = SABOTAGE[what]
    change(incumbent)
    assert held.changed() == said


def test_the_harness_itself_passes_and_its_driver_is_held() -> None:
    """All of our modules that a kernel's process has, and a driver whose functions are those of the C library."""
    integrity, cuda = module("isolation.integrity"), module("memory.cuda_driver")
    held = integrity.HeldReferences()
    held.hold_module("the harness's cuda_driver", cuda, classes=integrity.FOREIGN_CLASSES)
    driver = object.__new__(cuda.CudaDriver)
    function = ctypes.CDLL(None).labs
    function.argtypes, function.restype = [ctypes.c_long], ctypes.c_long
    driver._bound = {"labs": function}
    host = type("Host", (), {"run": _lie})()
    host.driver, host.cycles, host.calls = driver, 1.0, []
    snapshot = object.__new__(integrity.Snapshot)
    snapshot.held, snapshot.readers, snapshot.flags = held, {}, {"current stream": 0, "current device": 0}
    snapshot.current_stream, snapshot.current_device = (lambda index: 0), (lambda: 0)
    snapshot.hold_backend(host, ("driver", "cycles"))
    host.calls = [1]
    assert snapshot.changed() == ""
    function.errcheck = lambda *_: 0
    assert snapshot.changed() == "replaced a conversion of the driver's labs"
    del function.errcheck
    assert snapshot.changed() == ""
    host.run = _lie
    assert snapshot.changed() == "added the harness's backend.run"
    del host.run
    vars(driver)["elapsed"] = _lie
    assert snapshot.changed() == "added the harness's driver.elapsed"
    del vars(driver)["elapsed"]
    cuda.CudaDriver.elapsed = _lie
    assert snapshot.changed() == "replaced the harness's cuda_driver.CudaDriver.elapsed"
