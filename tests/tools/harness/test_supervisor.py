"""The harness with real kernels: honest ones pass, and each way of being wrong is told from the others."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from bisect import bisect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.builders import REFERENCE, softmax
from tools.artifacts import (
    DEFAULT_ERROR_CAPS,
    Argument,
    BaselineFunction,
    Dims,
    DType,
    NumericTolerance,
    Record,
    Rivals,
    Task,
)
from tools.errors import HarnessError
from tools.executors.base import Needs
from tools.executors.harness_job import Answer, harness_job, read_answer
from tools.executors.local import LocalExecutor
from tools.executors.protocol import (
    PROTOCOL,
    Case,
    CaseResult,
    Contestant,
    ContestRequest,
    ContestResult,
    CorrectnessRequest,
    CorrectnessResult,
    HarnessRequest,
    TimedWorkload,
    TimingOfWorkload,
    TimingRequest,
    TimingResult,
)
from tools.gate import confirmation
from tools.harness.memory import host_buffers
from tools.store.blobs import Blobs

TASK = softmax(workloads=())
HEAD = Path(__file__).with_name("softmax.hpp").read_text()
SOLVE = 'extern "C" void solve(const float* x, float* out, int M, int N) {\n'
HONEST = "softmax(x, out, M, N);"
OPENMP = '_Pragma("omp parallel for") for (int i = 0; i < M; ++i) softmax(x + i * N, out + i * N, 1, N);'
BOUND = """
  std::vector<std::thread> ts;
  for (int t = 0; t < 2; ++t) ts.emplace_back([=] { for (int i = t; i < M; i += 2) softmax(x + i * N, out + i * N, 1, N); });
  for (auto& t : ts) t.join();"""


class Bench:
    """Compiles kernels and puts questions to one warm harness."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = Blobs(folder / "blobs")
        self.executor = LocalExecutor(self.blobs, folder / "scratch")
        self.libraries: dict[str, str] = {}

    def library(self, body: str, before: str = "", tag: str = "") -> str:
        """sha256 of a shared library whose solve has this body."""
        return self.compiled(
            HEAD + before + SOLVE + body + f'\n}}\n// {tag}\nextern "C" const char kernel_tag[] = "{tag}";\n'
        )

    def compiled(self, text: str) -> str:
        """sha256 of the shared library of this source."""
        if text not in self.libraries:
            source, made = self.folder / f"k{len(self.libraries)}.cpp", self.folder / f"k{len(self.libraries)}.so"
            source.write_text(text)
            subprocess.run(["g++", "-O2", "-fopenmp", "-shared", "-fPIC", "-o", made, source], check=True)
            self.libraries[text] = self.blobs.put(made.read_bytes())
        return self.libraries[text]

    def ask(self, request: HarnessRequest, files: dict[str, str], expected: type[Answer]) -> Answer:
        job = harness_job(
            request, files, self.blobs, needs=Needs(exclusive=not isinstance(request, CorrectnessRequest))
        )
        return read_answer(self.executor.run(job), self.blobs, expected)

    def check(
        self, candidate: str, *cases: Case, baseline: str | None = None, limit_s: float = 20.0, task: Task = TASK
    ) -> list[CaseResult]:
        files = {"candidate.so": candidate} | ({"baseline.so": baseline} if baseline else {})
        libraries = {name.removesuffix(".so"): name for name in files}
        request = CorrectnessRequest(task=task, libraries=libraries, cases=cases or (case(),), call_limit_s=limit_s)  # type: ignore[arg-type]
        return list(self.ask(request, files, CorrectnessResult).cases)

    def time(
        self, incumbent: str, candidate: str, dims: Dims, pairs: int = 8, warm: int = 0, task: Task = TASK
    ) -> TimingOfWorkload:
        files = {"incumbent.so": incumbent, "candidate.so": candidate}
        workload = TimedWorkload(name="w", dims=dims, weight=1.0, seed=11, pairs=pairs, warm_pairs=warm)
        request = TimingRequest(
            task=task,
            libraries={"incumbent": "incumbent.so", "candidate": "candidate.so"},
            workloads=(workload,),
            order_seed=5,
            call_limit_s=20,
        )
        return self.ask(request, files, TimingResult).workloads[0]


def case(dims: Dims | None = None, seed: int = 3, **more: object) -> Case:
    return Case(workload="w", dims=dims or {"M": 37, "N": 61}, seed=seed, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("harness"))
    yield made
    made.executor.close()


# ---------------------------------------------------------------- correctness


@pytest.mark.parametrize("body", [HONEST, OPENMP, BOUND])
def test_honest_kernels_pass_every_distribution(bench: Bench, body: str) -> None:
    distributions = ("as_given", "scaled", "shifted", "outliers", "near_zero")
    cases = [case(seed=i, distribution=d, required=d == "as_given") for i, d in enumerate(distributions)]
    results = bench.check(
        bench.library(body), *cases, case({"M": 1, "N": 1}, required=False), baseline=bench.library(HONEST)
    )
    assert [r.status for r in results] == ["passed"] * 6
    assert all(r.max_error is not None and r.tolerance is not None and 0 <= r.max_error <= r.tolerance for r in results)
    assert results[0].tolerance == pytest.approx(8 * 2.0**-23), "units in the last place at a timed shape"
    assert results[-1].tolerance == pytest.approx(4e-5), "the floor at another"
    assert results[0].max_error is not None and 0 < results[0].max_error < 1e-5


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (HONEST + "out[3 * N + 7] += 0.01f;", ["relative error", "out[3, 7]", "expected"]),
        ("", ["NaN", "out[0, 0]"]),
        (HONEST + "for (int j = 0; j < N; ++j) out[(M - 1) * N + j] = NAN;", ["NaN", "out[36, 0]"]),
        ("softmax(x, out, M - 1, N);", ["never written", "out[36, 0]"]),
        ("out[M * N] = 1; " + HONEST, ["outside its output"]),
        ("out[-1] = 1; " + HONEST, ["outside its output"]),
        ("const_cast<float*>(x)[5] = 1; " + HONEST, ["SIGSEGV", "wrote inside the read-only input x"]),
        ("volatile float f = x[M * N + 16]; (void)f; " + HONEST, ["SIGSEGV", "past the end of input x"]),
        ("volatile float f = x[M * N + 4096]; (void)f; " + HONEST, ["SIGSEGV", "past the end of input x"]),
        ("volatile float f = x[-4096]; (void)f; " + HONEST, ["SIGSEGV", "read in front of input x"]),
        ("volatile float f = out[-1]; (void)f; " + HONEST, ["SIGSEGV", "read in front of output out"]),
        ("volatile float f = out[M * N + 4096]; (void)f; " + HONEST, ["SIGSEGV", "read past the end of output out"]),
        ("*(volatile int*)0 = 1;", ["SIGSEGV", "null pointer"]),
        ("std::abort();", ["SIGABRT"]),
        ('throw std::runtime_error("no luck");', ["SIGABRT", "no luck"]),
        ("exit(0);", ["called exit(0)"]),
        ("_exit(3);", ["called exit(3)"]),
    ],
)
def test_each_fault_has_its_sentence(bench: Bench, body: str, words: list[str]) -> None:
    results = bench.check(bench.library(body), case(), case(seed=4), baseline=bench.library(HONEST))
    assert [r.status for r in results] == ["failed"]
    for word in [*words, "workload w", "M=37 N=61"]:
        assert word in results[0].reason, results[0].reason


@pytest.mark.parametrize("edge", ["", host_buffers.FRONT, host_buffers.BEHIND])
@pytest.mark.parametrize("sets", [2, 128, 6000])
def test_buffers_keep_the_promised_alignment_and_lie_beside_inaccessible_spans(sets: int, edge: str) -> None:
    """Megabytes beside each, unless there are so many that addresses or mappings would run out."""
    sizes, page = [4, 9028, 4096], host_buffers.PAGE
    inputs = host_buffers.InputLayout(sizes, min(sets, 128), edge)
    for plan in (inputs, host_buffers.OutputLayout(sizes, sets, random.Random(3), edge)):
        spans = dict(plan.gaps)
        ends = {start + length for start, length in plan.gaps}
        starts = sorted(spans)
        buffers = sorted((at, at + size) for row in plan.offsets for at, size in zip(row, sizes, strict=True))
        # Most of the length that they may have together, where there are many.
        least = min(2 << 20, host_buffers.SPAN_BUDGET // 2 // len(buffers))
        assert min(spans.values()) >= least and sum(spans.values()) < 1.01 * host_buffers.SPAN_BUDGET
        assert 2 * len(spans) + 2 < 60_000 and all(at % host_buffers.ALIGN == 0 for at, _ in buffers)
        for start, end in buffers:
            before, after = bisect(starts, start) - 1, bisect(starts, start)
            assert before < 0 or starts[before] + spans[starts[before]] <= start
            assert after == len(starts) or end <= starts[after]
            if edge == host_buffers.FRONT:
                assert start in ends or plan is inputs
            elif edge or len(buffers) <= host_buffers.MAX_OUTPUT_SPANS:
                assert starts[after] <= end + 2 * page


def test_a_hanging_kernel_is_stopped(bench: Bench) -> None:
    result = bench.check(bench.library("for (volatile int i = 0;; ++i) {}"), limit_s=0.5)[0]
    assert result.status == "failed" and "did not return within 0.5 s" in result.reason


def test_libraries_that_cannot_be_called(bench: Bench) -> None:
    (bench.folder / "other.cpp").write_text('extern "C" void other() {}')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", bench.folder / "other.so", bench.folder / "other.cpp"], check=True)
    result = bench.check(bench.blobs.put((bench.folder / "other.so").read_bytes()))[0]
    assert "does not export `solve`" in result.reason
    result = bench.check(bench.blobs.put(b"not a library"))[0]
    assert result.status == "failed" and "cannot be loaded" in result.reason
    early = bench.library(HONEST, "__attribute__((constructor)) static void early() { abort(); }\n")
    assert "while being loaded" in bench.check(early)[0].reason


LEFT = """
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>
static void go_on(int) {}
static sigset_t all_signals() { sigset_t all; sigfillset(&all); return all; }
static const sigset_t everything = all_signals();
static sigevent quiet() { sigevent e{}; e.sigev_notify = SIGEV_NONE; return e; }
static sigevent silence = quiet();
static timer_t timer;
static const itimerval soon = {{0, 0}, {0, 50}}, later = {{0, 0}, {600, 0}};
static const int executable = PROT_READ | PROT_EXEC, quietly = MAP_PRIVATE | MAP_ANONYMOUS;
static void* page() { return (void*)((size_t)&all_signals & ~4095ul); }
"""


def test_hidden_workloads_keep_their_secret(bench: Bench) -> None:
    secret = case({"M": 41, "N": 53}, hidden=True)
    for body in (
        HONEST + "out[5] = 9;",
        'printf("%d %d\\n", M, N); fflush(stdout); abort();',
        "",
        "const_cast<float*>(x)[0] = 1;",
    ):
        result = bench.check(bench.library(body), secret)[0]
        assert result.status == "failed" and result.reason.startswith("hidden workload")
        assert not any(number in result.reason for number in ("41", "53", "expected"))


def test_optional_cases_that_the_baseline_fails_are_dropped(bench: Bench) -> None:
    unsafe = bench.library(
        "for (int i = 0; i < M; ++i) { float s = 0; for (int j = 0; j < N; ++j) s += out[i*N+j] = expf(40 * "
        "x[i*N+j] / 40);"
        " for (int j = 0; j < N; ++j) out[i*N+j] = N > 100 ? NAN : out[i*N+j] / s; }"
    )
    wide = case({"M": 3, "N": 200}, required=False)
    results = bench.check(bench.library(HONEST), case(), wide, baseline=unsafe)
    assert [r.status for r in results] == ["passed", "dropped"]
    assert bench.check(bench.library(HONEST), case({"M": 3, "N": 200}), baseline=unsafe)[0].status == "passed"


EVEN = REFERENCE.replace(
    "    return torch.softmax", "    if N % 2:\n        raise ValueError('N must be even')\n    return torch.softmax"
)


def test_a_size_that_the_reference_refuses_is_dropped_and_listed_and_another_asked(bench: Bench) -> None:
    assert EVEN != REFERENCE
    task, odd, even = TASK.model_copy(update={"reference": EVEN}), {"M": 41, "N": 53}, {"M": 41, "N": 52}
    alone, kernel = case(odd, required=False), bench.library(HONEST)
    hidden = case(odd, hidden=True, spares=(odd, even)), case(odd, hidden=True)
    cases = (case(even), *hidden, alone.model_copy(update={"spares": (even,)}), alone)
    found = bench.check(kernel, *cases, task=task)
    assert [one.status for one in found] == ["passed", "passed", "dropped", "passed", "dropped"]
    assert [one.case for one in found] == list(cases)
    assert found[1].reason == "the reference refuses drawn sizes; others were asked"
    assert "M=41 N=53 (reference.py: reference(...) raised ValueError: N must be even" in found[4].reason
    assert found[3].reason == f"{found[4].reason}; asked was M=41 N=52"
    with pytest.raises(HarnessError, match="N must be even"):
        bench.check(kernel, case(odd), task=task)


def test_the_tolerance_widens_with_the_baseline_up_to_the_cap(bench: Bench) -> None:
    off = bench.library(HONEST + "for (int k = 0; k < M * N; ++k) out[k] *= 1.0003f;")
    assert bench.check(off)[0].status == "failed"
    widened = bench.check(off, baseline=off)[0]
    assert widened.status == "passed" and widened.baseline_error is not None
    assert widened.tolerance == pytest.approx(2 * widened.baseline_error)
    far = bench.library(HONEST + "for (int k = 0; k < M * N; ++k) out[k] *= 1.01f;")
    assert bench.check(far, baseline=far)[0].tolerance == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("beside", "atol", "floor", "caps", "status"),
    [
        # Outputs are about 1/61 each. Of one element the error is 3e-6, relative to it and its row about 1e-4; or a
        # hundred times that.
        ("3e-6f", None, 4e-5, DEFAULT_ERROR_CAPS, "failed"),
        ("3e-6f", 1e-5, 4e-5, DEFAULT_ERROR_CAPS, "passed"),
        ("3e-4f", 1e-3, 4e-5, DEFAULT_ERROR_CAPS, "failed"),
        ("3e-4f", 1e-3, 4e-5, {}, "passed"),
        ("3e-4f", None, 0.5, {}, "passed"),
    ],
)
def test_atol_and_rtol_hold_as_stated_up_to_the_cap(
    bench: Bench, beside: str, atol: float | None, floor: float, caps: dict[DType, float], status: str
) -> None:
    policy = NumericTolerance(atol=atol, floor={"float32": floor}, cap=caps)
    found = bench.check(
        bench.library(HONEST + f"out[77] += {beside};"), task=TASK.model_copy(update={"numeric": policy})
    )[0]
    assert found.status == status, found
    assert ("`tolerance: as_stated` in the config" in found.reason) == (atol == 1e-3 and bool(caps)), found.reason


def test_a_failing_reference_is_not_blamed_on_the_kernel(bench: Bench) -> None:
    broken = TASK.model_copy(
        update={"reference": REFERENCE.replace("return torch.softmax(x, dim=1)", "raise ValueError('oops')")}
    )
    with pytest.raises(HarnessError, match="oops"):
        bench.check(bench.library(HONEST), task=broken)


# ---------------------------------------------------------------- timing


WAITS = """
static void wait() { auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(4);
  while (std::chrono::steady_clock::now() < end) {} }
"""
"""A call that waits takes 4 ms at least, however busy the machine is."""


def test_pairs_of_a_kernel_and_its_copy_alternate_in_order_and_are_checked(bench: Bench) -> None:
    timed = bench.time(bench.library(HONEST), bench.library(HONEST, tag="copy"), {"M": 256, "N": 512}, pairs=16, warm=3)
    assert timed.problem is None and len(timed.pairs) == 16 and len(timed.warm_pairs) == 3
    assert {p.candidate_first for p in timed.pairs} == {True, False}
    assert timed.max_error is not None and timed.tolerance is not None and timed.max_error <= timed.tolerance


GOES_ON = """
extern "C" int Py_AddPendingCall(int (*)(void*), void*);
static int go_on(void*) {
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(40);
  while (std::chrono::steady_clock::now() < end) {}
  return 0; }
static void go_on_later() { Py_AddPendingCall(go_on, nullptr); }
"""
"""Computes on behind the end of the call, and leaves nothing that the operating system shows: its process is Python, which comes
back to it when the clock has been read, before the process answers."""


def test_pairs_in_which_the_clocks_disagree_for_a_while_are_discarded_and_measured_again(bench: Bench) -> None:
    # Two calls warm the kernel up; 8 to 12 pairs follow (dirty ones are repeated), of which at least 7 are disturbed; and should
    # the next ones be disturbed enough as well, the third look is not.
    once = bench.library(HONEST + "static int n = 0; if (++n < 14) go_on_later();", GOES_ON)
    timed = bench.time(bench.library(HONEST), once, {"M": 512, "N": 512}, pairs=8)
    assert timed.problem is None and len(timed.pairs) == 8
    assert timed.discarded in (8, 16)


LEAVES = [
    ("signal(SIGALRM, go_on); setitimer(ITIMER_REAL, &soon, 0);", "timer armed|signal handlers"),
    ("setitimer(ITIMER_PROF, &later, 0);", "left a timer armed"),
    ("timer_create(CLOCK_MONOTONIC, &silence, &timer);", "left a timer armed"),
    ("timerfd_create(CLOCK_MONOTONIC, 0);", "descriptor open"),
    ('open("/dev/null", O_RDONLY);', "descriptor open"),
    ("signal(SIGUSR1, go_on);", "signal handlers"),
    ("signal(SIGSEGV, go_on);", "signal handlers"),
    ("sigprocmask(SIG_BLOCK, &everything, 0);", "signal handlers"),
    (
        "sigset_t one; sigemptyset(&one); sigaddset(&one, SIGUSR1); sigprocmask(SIG_BLOCK, &one, 0); raise(SIGUSR1);",
        "signal",
    ),
    ("mmap(0, 4096, executable, quietly, -1, 0);", "executable or shared memory"),
    ("mmap(0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);", "executable or shared memory"),
    ("mprotect(page(), 4096, PROT_READ | PROT_WRITE | PROT_EXEC);", "protected a part of a library"),
    ('setenv("OMP_SCHEDULE", "static", 1);', "environment"),
    ("umask(0777);", "attributes"),
]
"""What a call may leave behind, and a pattern of the reason for which the kernel is refused."""


@pytest.mark.parametrize(("left", "words"), LEAVES, ids=lambda text: text[:24])
def test_what_a_call_leaves_behind_is_seen_whatever_the_clocks_show(bench: Bench, left: str, words: str) -> None:
    leaves = bench.library(HONEST + left, LEFT)
    for _ in range(10 if "soon" in left else 1):
        found = bench.check(leaves)[0]
        assert found.status == "failed" and re.search(words, found.reason), found.reason


KEEPS = """
static const int sizes[] = {64, 1000, 1100, 100000};
static volatile unsigned char *kept[4], *below;
static const int deep = 65536;
static __attribute__((noinline)) volatile unsigned char* dig() {
  volatile unsigned char hole[deep]; for (int i = 0; i < deep; ++i) hole[i] = 0xA7; volatile auto at = &hole[0]; return at; }
static bool found(volatile unsigned char* at, int from, int bytes) {
  int same = 0; for (int i = from; at && i < bytes; ++i) same += at[i] == 0xA7; return same > (bytes - from) / 4; }
static bool remember() {
  bool any = found(below, 0, deep - 8192);
  for (int k = 0; k < 4; ++k) any |= found(kept[k], 48, sizes[k] - 8);
  for (int k = 0; k < 4; ++k) {
    volatile auto block = kept[k] = (volatile unsigned char*)malloc(sizes[k]);
    for (int i = 0; i < sizes[k]; ++i) block[i] = 0xA7; }
  for (int k = 0; k < 4; ++k) free((void*)kept[k]);
  below = dig();
  return any; }
"""


def test_memory_that_a_call_freed_or_left_below_the_stack_holds_noise_before_the_next(bench: Bench) -> None:
    incumbent, keeps = bench.library(HONEST), bench.library(HONEST + "if (remember()) out[0] = NAN;", KEEPS)
    timed = bench.time(incumbent, keeps, {"M": 512, "N": 512}, pairs=8)
    assert timed.calls_per_sample == 1 and timed.problem is None, timed.problem


def test_short_kernels_run_as_trains(bench: Bench) -> None:
    timed = bench.time(bench.library(HONEST), bench.library(HONEST, tag="copy"), {"M": 4, "N": 32})
    assert timed.problem is None and timed.calls_per_sample > 1
    assert all(p.candidate_s > 0 for p in timed.pairs)


def test_each_kernel_is_given_its_own_seconds(bench: Bench) -> None:
    waits = bench.library(HONEST + "wait();", WAITS)
    timed = bench.time(waits, bench.library(HONEST), {"M": 64, "N": 64})
    assert timed.problem is None and all(p.incumbent_s >= 4e-3 for p in timed.pairs)
    assert min(p.candidate_s for p in timed.pairs) < 4e-3
    assert timed.calls_per_sample <= 3, "the slower kernel's train is no longer than both need"


def test_a_crash_of_the_incumbent_is_not_blamed_on_the_candidate(bench: Bench) -> None:
    timed = bench.time(
        bench.library("static int n = 0; if (++n == 5) abort(); " + HONEST), bench.library(HONEST), {"M": 64, "N": 64}
    )
    assert timed.culprit == "incumbent"


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_inputs_that_must_stay_sorted_can_be_timed(bench: Bench, kept: bool) -> None:
    """A reference whose kernel relies on sorted inputs: exchanging elements would be wrong of the harness. It may
    keep its buffer."""
    reference = REFERENCE.replace("    return {", "    x = x.sort(dim=1).values\n    return {")
    out = "kept.setdefault((x.dtype, x.shape), torch.empty_like(x))" if kept else "None"
    found = f"torch.sub(x, x.min(dim=1, keepdim=True).values, out={out})"
    reference = "kept = {}\n" + reference.replace("torch.softmax(x, dim=1)", found)
    task = TASK.model_copy(update={"reference": reference})
    body = "for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) out[i * N + j] = x[i * N + j] - x[i * N];"
    timed = bench.time(bench.library(body), bench.library(body, tag="copy"), {"M": 4, "N": 4}, task=task)
    assert timed.problem is None, timed.problem


# ---------------------------------------------------------------- contest


def contest(
    bench: Bench,
    *contestants: tuple[Contestant, str | None],
    rounds: int = 5,
    task: Task = TASK,
    sizes: tuple[tuple[int, int], ...] = ((256, 256),),
) -> ContestResult:
    files = {c.library: sha for c, sha in contestants if c.library and sha}
    request = ContestRequest(
        task=task,
        contestants=tuple(c for c, _ in contestants),
        workloads=tuple(
            TimedWorkload(name=f"w{at}", dims={"M": m, "N": n}, weight=1.0, seed=2, pairs=rounds)
            for at, (m, n) in enumerate(sizes)
        ),
        order_seed=9,
        call_limit_s=60,
    )
    return bench.ask(request, files, ContestResult)


def kernels(incumbent: str, candidate: str) -> list[tuple[Contestant, str | None]]:
    named = (("incumbent", incumbent), ("candidate", candidate))
    return [(Contestant(name=name, kind="library", library=f"{name}.so"), sha) for name, sha in named]


def twins(bench: Bench, body: str, before: str = "") -> list[tuple[Contestant, str | None]]:
    """A kernel and a copy of it."""
    return kernels(bench.library(body, before), bench.library(body, before, tag="copy"))


def test_contestants_run_in_separate_processes_and_get_their_own_seconds(bench: Bench) -> None:
    both = kernels(bench.library(HONEST + "wait();", WAITS), bench.library(HONEST))
    result = contest(bench, *both, (Contestant(name="eager", kind="eager"), None))
    assert result.problem is None and not result.unavailable
    rounds = result.workloads[0].rounds
    assert len(rounds) == 5 and all(set(r) == {"incumbent", "candidate", "eager"} for r in rounds)
    assert all(r["incumbent"] >= 4e-3 for r in rounds) and min(r["candidate"] for r in rounds) < 4e-3


RIVALS = """
import torch

def right():
    return lambda x: torch.softmax(x, -1)

def written():
    def into(x, out):
        torch.softmax(x, -1, out=out)
    return into

def other():
    return lambda x: torch.softmax(x, 0)

def half():
    return lambda x: torch.softmax(x, -1).half()

def memo():
    kept = {}
    return lambda x: kept.setdefault(x.shape, torch.softmax(x, -1))

def changing():
    return lambda x: torch.softmax(x.mul_(1), -1) + 0 * x.zero_()

def late():
    left = [None] * 12
    return lambda x: (torch.softmax(x, -1), left.pop())[0]

def named():
    return lambda y: torch.softmax(y, -1)

def narrow():
    def softmax(x):
        if x.shape[1] > 256:
            raise ValueError("too wide")
        return torch.softmax(x, -1)
    return softmax

def absent():
    import a_library_that_nobody_has
"""
SAID = {
    "other": "does not compute 'out' as the reference does",
    "half": "gives 'out' as float16, which is float32",
    "memo": "does not compute 'out' as the reference does",
    "changing": "changes its input 'x'",
    "late": "pop from empty list",
    "named": "named(...) takes 'y', but the reference's arguments are x, out, M, N",
    "narrow": "too wide",
    "absent": "absent() needs the package 'a_library_that_nobody_has'",
}


@pytest.mark.slow
def test_another_library_is_timed_where_it_computes_the_same_and_costs_nobody_else_a_round(
    bench: Bench, tmp_path: Path
) -> None:
    said = Rivals(source=RIVALS, names=("right", "written", *SAID))
    both = kernels(bench.library(HONEST + HONEST), bench.library(HONEST))
    rivals = [(Contestant(name=name, kind="rival"), None) for name in said.names]
    files = {"mine.py": "import torch\ndef f(x): return torch.softmax(x, -1)\ndef g(x): return x"}
    rivals += [
        (Contestant(name=name, kind="function", function=BaselineFunction(call=call, files=files)), None)
        for name, call in (("user_function", "mine:f"), ("exported", "mine:g"))
    ]
    helper = "import subprocess, sys\nhelper = 'while True: pass'\n"
    helper += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(subprocess.Popen([sys.executable, '-c', helper], "
    files = {"mine.py": f"{helper}start_new_session=True).pid))\n{files['mine.py']}"}
    function = BaselineFunction(call="mine:f", files=files)
    rivals += [(Contestant(name="working", kind="function", function=function), None)]
    result = contest(
        bench, *both, *rivals, task=TASK.model_copy(update={"rivals": said}), sizes=((256, 256), (64, 512))
    )
    assert result.problem is None
    for workload in result.workloads:
        assert len(workload.rounds) == 5 and all(
            r.keys() == {"incumbent", "candidate", "right", "written", "user_function"} for r in workload.rounds
        )
    assert "s of CPU time in the " in result.unavailable.pop("working"), "it worked on while others had their turns"
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists(), "what it started ends with it"
    why = result.unavailable.pop("exported")
    assert "mine:g does not compute 'out'" in why and why.endswith("; on the workload w0, input 1 of 2")
    assert {*result.wrong} == {"exported", "other", "half", "memo", "changing"}
    assert result.unavailable.keys() == SAID.keys()
    assert not {name: why for name, why in result.unavailable.items() if SAID[name] not in why}


def test_a_contestant_that_is_wrong_is_named(bench: Bench) -> None:
    # Right while it is warmed up, and wrong from its first train on, however short that is on a slow machine.
    wrong = bench.library("static int n = 0; if (++n < 5) softmax(x, out, M, N);")
    result = contest(bench, *kernels(bench.library(HONEST), wrong))
    assert result.culprit == "candidate" and result.problem is not None


LUCK = WAITS + "static const bool slow = std::chrono::steady_clock::now().time_since_epoch().count() / 1000 % 2;\n"


@pytest.mark.slow
def test_each_round_of_a_contest_runs_new_processes(bench: Bench) -> None:
    """Half of the processes of this kernel are slow for life: rounds of one contest meet both kinds, of both
    contestants."""
    # A contestant has 16 processes at least, each slow with probability 1/2: all are of one kind with 2 * 2 ** -16, and
    # those of either contestant with 6.1e-5 at most.
    result = contest(bench, *twins(bench, HONEST + "if (slow) wait();", LUCK), rounds=16)
    assert result.problem is None, result.problem
    found = result.workloads[0]
    assert found.sittings == len(found.rounds) + found.repeated
    for name in ("incumbent", "candidate"):
        assert min(r[name] for r in found.rounds) < 4e-3 <= max(r[name] for r in found.rounds)


@pytest.mark.slow
def test_a_busy_neighbour_makes_rounds_dirty(tmp_path: Path) -> None:
    """The whole harness on one core, and somebody else there."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    bench = Bench(tmp_path)
    try:
        both = twins(bench, HONEST * 80)  # Longer than the scheduler lets the neighbour wait.
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbour:
            try:
                found = contest(bench, *both, rounds=8)
            finally:
                neighbour.kill()
    finally:
        bench.executor.close()
        os.sched_setaffinity(0, cores)
    assert found.problem is None, found.problem
    assert found.workloads[0].repeated > 0 and found.workloads[0].dirty > 4
    payload = confirmation.Contest(candidates={}, attempt=0, weights={"w": 1.0}, result=found).model_dump(mode="json")
    assert confirmation.any_disturbed(
        (Record(kind="confirmation", key="k", environment="", protocol=PROTOCOL, payload=payload),)
    )


STEP_REFERENCE = """
import torch
inout = ("y", "n")

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    y, x = torch.randn(dims["N"], generator=g), torch.randn(dims["N"], generator=g)
    return {"y": y, "x": x, "n": torch.randint(0, 9, (1,), generator=g), "top": torch.empty(1), "N": dims["N"]}

def reference(y, x, n, top, N):
    y.mul_(0.5).add_(x)
    n += 1
    top.copy_(y.max())
"""
STEP_TASK = Task(
    name="step",
    language="cpp",
    arguments=tuple(
        Argument(name=name, role=role, dtype=dtype, shape=shape)  # type: ignore[arg-type]
        for name, role, dtype, shape in (
            ("y", "inout", "float32", ("N",)),
            ("x", "input", "float32", ("N",)),
            ("n", "inout", "int64", ("1",)),
            ("top", "output", "float32", ("1",)),
            ("N", "scalar", "int32", ()),
        )
    ),
    reference=STEP_REFERENCE,
    workloads=(),
)
STEP = """#include <cmath>
extern "C" void solve(float* y, const float* x, long long* n, float* top, int N) {
  %s
  float best = -INFINITY;
  for (int i = 0; i < N; ++i) { y[i] = 0.5f * y[i] + x[i]; best = std::fmax(best, y[i]); }
  *n += 1;
  *top = best;
  %s
}
"""


def step(bench: Bench, before: str = "", after: str = "") -> str:
    """A library that changes y and n in place."""
    return bench.compiled(STEP % (before, after))


def test_an_in_out_argument_finds_its_content_in_every_call(bench: Bench) -> None:
    """In checks, in trains, and in contests with torch, which would drift from the reference otherwise."""
    plain, dims = step(bench), {"N": 300}
    distributions = ("as_given", "scaled", "shifted", "outliers", "near_zero")
    cases = [case(dims, seed=at, distribution=d, required=d == "as_given") for at, d in enumerate(distributions)]
    checked = bench.check(plain, *cases, baseline=plain, task=STEP_TASK)
    assert [one.status for one in checked] == ["passed"] * 5, checked
    timed = bench.time(plain, step(bench, "// copy"), dims, pairs=4, warm=2, task=STEP_TASK)
    assert timed.problem is None and timed.calls_per_sample > 1 and len(timed.warm_pairs) == 2, timed.problem
    torch = [(Contestant(name=name, kind=name), None) for name in ("eager", "compile")]
    request = ContestRequest(
        task=STEP_TASK,
        contestants=(*(c for c, _ in kernels(plain, plain)), *(c for c, _ in torch)),
        workloads=(TimedWorkload(name="w", dims=dims, weight=1.0, seed=2, pairs=3),),
        order_seed=9,
        call_limit_s=60,
    )
    held = bench.ask(request, {"incumbent.so": plain, "candidate.so": plain}, ContestResult)
    assert (held.problem, held.unavailable) == (None, {}) and len(held.workloads[0].rounds) == 3


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("return;", "", ["relative error", "y["]),
        ("", "y[N - 1] = x[0];", ["y[299]", "expected"]),
        ("", "*n += 1;", ["1 of 1 integers differ"]),
        ("", "y[N] = 1;", ["outside its output"]),
        ("static int calls = 0; if (++calls > 3) { *n += 1; return; }", "", ["wrong on a timed call"]),
    ],
)
def test_what_is_wrong_with_an_in_out_argument_is_said(bench: Bench, before: str, after: str, words: list[str]) -> None:
    dims, candidate = {"N": 300}, step(bench, before, after)
    if "static" in before:
        said = bench.time(step(bench), candidate, dims, pairs=4, task=STEP_TASK).problem or ""
    else:
        (result,) = bench.check(candidate, case(dims), task=STEP_TASK)
        said = result.reason
    assert not [word for word in words if word not in said], said


def test_indices_of_equal_values_are_called_ties(bench: Bench) -> None:
    reference = """
import torch

def make_inputs(dims, seed):
    x = torch.randint(0, 3, (dims["M"], dims["N"]), generator=torch.Generator().manual_seed(seed)).float()
    return {"x": x, "at": torch.empty(dims["M"], dtype=torch.int64), **dims}

def reference(x, **rest):
    return x.max(1).values.unsqueeze(1).eq(x).to(torch.int8).argmax(1)
"""
    task = TASK.model_copy(
        update={
            "reference": reference,
            "arguments": (
                Argument(name="x", role="input", dtype="float32", shape=("M", "N")),
                Argument(name="at", role="output", dtype="int64", shape=("M",)),
                *TASK.arguments[2:],
            ),
        }
    )
    last = bench.compiled(
        """extern "C" void solve(const float* x, long long* at, int M, int N) {
  for (int i = 0; i < M; ++i) { at[i] = 0; for (int j = 0; j < N; ++j) if (x[i * N + j] >= x[i * N + at[i]]) at[i] = j; }
}
"""
    )
    (result,) = bench.check(last, case(), task=task)
    assert "ties: x holds equal values at both indices" in result.reason and "at[0] is" in result.reason, result.reason
