"""The judge with the real executor, compiler and harness: right and faster, wrong, no faster, and never measured
twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.tools import builders
from tools.artifacts import Candidate, Failed, Passed, Task, Unmeasured, Workload
from tools.errors import DeviceBusyError, HarnessError, InfrastructureError, SettingsError
from tools.executors.base import FinishedJob, Job, JobUsage
from tools.executors.harness_job import read_answer
from tools.executors.local import LocalExecutor
from tools.executors.protocol import TimingResult
from tools.gate import confirmation
from tools.gate.judge_settings import JudgeSettings
from tools.judge import evidence
from tools.judge.build import compile_baseline
from tools.judge.judge import Judge
from tools.languages.cpp import Cpp
from tools.store.blobs import Blobs
from tools.store.records import Records

HEAD = (
    '#include <cmath>\nextern "C" void solve(const float* x, float* out, int M, int N) {\n  for (int i = 0; '
    "i < M; ++i) {\n"
)
HEAD += (
    "    const float* row = x + (long)i * N;\n    float* to = out + (long)i * N;\n    float top = row[0], sum = 0.0f;\n"
)
HEAD += "    for (int j = 1; j < N; ++j) top = row[j] > top ? row[j] : top;\n"
# The sum is formed again every 50 columns: twenty times the work of FASTER on 1000 columns, and each exponential a
# slower one.
NAIVE = HEAD + (
    "    for (int j = 0; j < N; ++j) {\n      if (j % 50 == 0) { sum = 0.0f; "
    "for (int k = 0; k < N; ++k) sum += std::exp((double)row[k] - top); }\n"
    "      to[j] = std::exp((double)row[j] - top) / sum;\n    }\n  }\n}\n"
)
FASTER = HEAD + (
    "    for (int j = 0; j < N; ++j) { to[j] = expf(row[j] - top); sum += to[j]; }\n    const float scale = "
    "1.0f / sum;\n"
    "    #pragma omp simd\n    for (int j = 0; j < N; ++j) to[j] *= scale;\n  }\n}\n"
)
WRONG = FASTER.replace("1.0f / sum", "1.01f / sum")
OVERFLOWS = FASTER.replace("expf(row[j] - top)", "expf(row[j])")
BROKEN = NAIVE.replace("sum = 0.0f", "sum = nothing")
WRITES_BESIDE = FASTER.replace("  }\n}\n", "  }\n  out[(long)M * N] = 0.0f;\n}\n")
CRASHES = NAIVE.replace("float top = row[0]", "float top = *(const volatile float*)nullptr")

POLICY = JudgeSettings(
    pairs=14, batches=2, warm_pairs=2, calibration_pairs=14, confirm_rounds=8, benchmark_rounds=8, hidden_workloads=1
)


class Counting(LocalExecutor):
    """The real executor, and which kinds of request it ran."""

    kinds: tuple[str, ...] = ()

    def run(self, job: Job) -> FinishedJob:
        request = job.files.get("request.json")
        kind = json.loads(self.blobs.text(request))["kind"] if request else "build"
        self.kinds += (kind,)
        return super().run(job)


def softmax() -> Task:
    workloads = (
        Workload(name="small", dims={"M": 16, "N": 500}),
        Workload(name="large", dims={"M": 64, "N": 1000}, weight=2.0),
    )
    return builders.softmax(baseline=NAIVE, workloads=workloads, dims_range={"M": (1, 64), "N": (1, 1000)})


def kernel(source: str) -> Candidate:
    return Candidate(language="cpp", files={"kernel.cpp": source})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Counting]]:
    """One workspace and one executor for all tests here: the oracle starts once."""
    root = tmp_path_factory.mktemp("judge")
    with Counting(Records(root).blobs, root / "scratch") as executor:
        yield root, executor


def open_judge(place: tuple[Path, Counting], secret: bytes = b"s" * 32, **changes) -> Judge:
    root, executor = place
    policy = POLICY.model_copy(update=changes)
    return builders.open_judge(softmax(), Cpp(), executor, Records(root), policy, secret=secret)


@pytest.fixture
def judge(place: tuple[Path, Counting]) -> Judge:
    return open_judge(place)


def test_a_faster_kernel_passes_and_is_never_measured_twice(judge: Judge, place: tuple[Path, Counting]):
    executor = place[1]
    before = len(executor.kinds)
    trial = judge.judge(kernel(FASTER), kernel(NAIVE), kernel(NAIVE), siblings=2, iteration=1)
    # Of the work one twentieth is left: no load turns that round.
    assert isinstance(trial, Passed) and trial.speedup.estimate > 1.0, trial
    assert [m.workload for m in trial.measurements] == ["small", "large"]
    assert all(m.max_error is not None and m.max_error < 4e-5 for m in trial.measurements)
    ran = executor.kinds[before:]
    assert {"correctness", "timing"} <= set(ran) <= {"build", "correctness", "timing"}
    # Another process after a kill: same records, nothing runs.
    again = open_judge(place)
    assert again.judge(kernel(FASTER), kernel(NAIVE), kernel(NAIVE), siblings=2, iteration=1) == trial
    assert executor.kinds[before:] == ran
    kinds = [judge.records.get(identity).kind for identity in trial.records]
    assert kinds[:2] == ["build", "correctness"] and set(kinds[2:]) == {"timing"}
    # The gate can compute the same interval from the records alone.
    timings = [judge.records.get(identity) for identity in trial.records[2:]]
    assert evidence.speedup(timings, "total_time", trial.speedup.confidence) == trial.speedup


def test_a_new_attempt_measures_afresh(judge: Judge, place: tuple[Path, Counting]):
    executor = place[1]
    first = judge.read_or_measure_timing(kernel(FASTER), kernel(NAIVE), None, 0, 1)
    count = len(executor.kinds)
    assert judge.read_or_measure_timing(kernel(FASTER), kernel(NAIVE), None, 0, 1) == first
    assert len(executor.kinds) == count
    assert judge.read_or_measure_timing(kernel(FASTER), kernel(NAIVE), None, 0, 2).id != first.id
    assert executor.kinds[count:] == ("timing",)


@pytest.mark.parametrize(
    ("source", "stage", "piece"),
    [
        (BROKEN, "build", "nothing"),
        (WRONG, "correctness", "tolerance"),
        (OVERFLOWS, "correctness", "inputs"),
        (WRITES_BESIDE, "correctness", "past the end of output out"),
        (CRASHES, "correctness", "workload small"),
        ('#pragma GCC optimize("fast-math")\n' + FASTER, "screen", "optimize"),
    ],
)
def test_a_kernels_failure_is_data_with_its_stage(judge: Judge, source: str, stage: str, piece: str):
    trial = judge.judge(kernel(source), kernel(NAIVE), kernel(NAIVE), siblings=1, iteration=1)
    assert isinstance(trial, Failed) and trial.stage == stage, trial
    assert "\n" not in trial.reason and piece in trial.reason


def test_unsupported_types_end_unmeasured(judge: Judge):
    arguments = tuple(
        a.model_copy(update={"dtype": "bfloat16"}) if a.role != "scalar" else a for a in judge.task.arguments
    )
    judge.task = judge.task.model_copy(update={"arguments": arguments})
    trial = judge.judge(kernel(FASTER), kernel(NAIVE), kernel(NAIVE), siblings=1, iteration=1)
    assert isinstance(trial, Unmeasured)
    assert "`x` is bfloat16, but" in trial.reason


def test_hidden_sizes_stand_in_no_record(judge: Judge):
    record = judge.read_or_check_correctness(kernel(FASTER), kernel(NAIVE), "judge")
    hidden = [c for c in record.payload["cases"] if c["case"]["hidden"]]
    assert [c["case"]["dims"] for c in hidden] == [{}]
    assert set(record.payload["hidden"]) == {"hidden-1"}
    other = open_judge((judge.records.folder.parent, judge.executor), secret=b"t" * 32)
    assert other.hidden != judge.hidden


def test_as_published_checks_on_what_the_task_draws_and_hardened_on_more(judge: Judge, place: tuple[Path, Counting]):
    published = open_judge(place, secret=b"p" * 32, inputs="as_published")
    drawn, more = (
        j.read_or_check_correctness(kernel(FASTER), kernel(NAIVE), "judge").payload["cases"] for j in (published, judge)
    )
    assert [(c["case"]["workload"], c["case"]["distribution"]) for c in drawn] == [
        (w.name, "as_given") for w in judge.task.workloads
    ]
    assert {"scaled", "shifted"} <= {c["case"]["distribution"] for c in more}


def test_calibration_loads_two_copies_and_gives_a_floor(judge: Judge):
    record = judge.read_or_measure_calibration(kernel(NAIVE))
    assert record.kind == "calibration" and evidence.noise_floor(record, "total_time") > 0.0
    assert set(evidence.incumbent_seconds(record)) == {"small", "large"}


@pytest.mark.slow
def test_the_contest_confirms_and_the_benchmark_compares_with_torch(judge: Judge):
    judge.start_torch_contestants(("eager",), ())  # it rests during the confirmation, and takes part in the benchmark
    confirmed = judge.read_or_measure_confirmation(kernel(FASTER), kernel(NAIVE))
    assert confirmation.contest_problem(confirmed) is None
    shown = confirmation.confirmed_speedup([confirmed], "total_time", 0.95)
    assert shown.estimate > 2.0 and shown.is_bounded
    table = confirmation.median_seconds(
        judge.read_or_measure_benchmark({"baseline": kernel(NAIVE), "best": kernel(FASTER)}, ("eager",))
    )
    assert set(table) == {"small", "large"}
    assert all(set(row) == {"baseline", "best", "eager"} and min(row.values()) > 0 for row in table.values())


class Disturbed(Counting):
    """The real executor on a machine that is disturbed during the first `times` contests: two rounds cost the candidate
    a hundredfold.

    `crowded`: rather, others have a core for half of the contest, and the gain shown there is no large one.
    """

    times, crowded = 1, False

    def run(self, job: Job) -> FinishedJob:
        finished = super().run(job)
        if self.kinds[-1] != "contest" or self.kinds.count("contest") > self.times:
            return finished
        result = json.loads(self.blobs.text(finished.files["result.json"]))
        result["telemetry"] |= {"stolen_fraction": 0.5} if self.crowded else {}
        for workload in result["workloads"]:
            for at, round_ in enumerate(workload["rounds"]):
                if self.crowded:
                    round_["candidate"] = round_["incumbent"] / (1.15 + 0.001 * at)
                elif at < 2:
                    round_["candidate"] *= 100
        return finished.model_copy(
            update={"files": {**finished.files, "result.json": self.blobs.put(json.dumps(result))}}
        )


@pytest.mark.slow
@pytest.mark.parametrize(("disturbed", "looks", "shown"), [(1, 2, True), (2, 2, False)])
def test_a_disturbed_confirmation_is_asked_once_more(tmp_path: Path, disturbed: int, looks: int, shown: bool):
    with Disturbed(Records(tmp_path).blobs, tmp_path / "scratch") as executor:
        executor.times = disturbed
        judge = open_judge((tmp_path, executor))
        made = judge.confirm_until_settled(kernel(FASTER), kernel(NAIVE))
        found = confirmation.confirmed_speedup(made, "total_time", 0.95)
        assert [record.payload["attempt"] for record in made] == list(range(looks))
        assert found.estimate > 2.0 and (found.low > 1.0) == shown
        ran = executor.kinds
        assert judge.confirm_until_settled(kernel(FASTER), kernel(NAIVE)) == made and executor.kinds == ran


@pytest.mark.slow
def test_a_confirmation_beside_others_is_made_once_more_and_the_repeat_counts(tmp_path: Path):
    with Disturbed(Records(tmp_path).blobs, tmp_path / "scratch") as executor:
        executor.crowded = True
        made = open_judge((tmp_path, executor)).confirm_until_settled(kernel(FASTER), kernel(NAIVE))
    first, found = (confirmation.confirmed_speedup(made[:count], "total_time", 0.95) for count in (1, 2))
    assert 1.0 < first.low < first.high < 1.25 and confirmation.any_disturbed(made[:1]) and len(made) == 2
    assert found.estimate > 2.0


def test_a_library_lost_with_a_clone_is_built_again(judge: Judge):
    sha = judge.builder.shared_object_of(kernel(FASTER))
    assert sha is not None
    (judge.records.blobs.folder / sha).unlink()
    assert judge.builder.shared_object_of(kernel(FASTER)) == sha
    assert judge.records.blobs.path(sha).is_file()
    assert judge.builder.shared_object_of(kernel(BROKEN)) is None


def test_later_builds_refuse_a_compiler_with_other_flags(
    judge: Judge, place: tuple[Path, Counting], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The same compiler without its OpenMP runtime, as after an upgrade half done, must not build what is compared."""
    judge.builder.read_or_build(kernel(FASTER))
    pinned = next(record for record in judge.records if record.kind == "toolchain")
    assert tuple(pinned.payload["flags"]) == judge.builder.toolset().flags
    real = shutil.which("g++") or shutil.which("clang++")
    wrapper = tmp_path / Path(real or "").name
    wrapper.write_text(f'#!/bin/sh\nfor a in "$@"; do [ "$a" = -fopenmp ] && exit 1; done\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    with (
        Counting(place[1].blobs, tmp_path / "scratch") as later,
        pytest.raises(
            InfrastructureError, match=r"built by .* -fopenmp, but this machine has .* -fopenmp-simd; restore"
        ),
    ):
        open_judge((place[0], later)).builder.read_or_build(kernel(NAIVE + "// not built yet\n"))
    assert len([record for record in judge.records if record.kind == "toolchain"]) == 1


def test_rounds_that_cannot_bound_an_interval_are_refused():
    with pytest.raises(ValidationError, match="confirm_rounds: 10 cannot bound an interval at confidence"):
        JudgeSettings(confidence=0.999, confirm_rounds=10)


class Busy(LocalExecutor):
    """The real executor on a device that cannot be had: it builds, and keeps the files of what it was asked to run."""

    asked: tuple[dict[str, str], ...] = ()

    def run(self, job: Job) -> FinishedJob:
        if "request.json" not in job.files:
            return super().run(job)
        self.asked += (job.files,)
        raise DeviceBusyError("the device is in use")


def test_many_workloads_are_asked_the_rounds_that_bound_their_interval(tmp_path: Path):
    few = POLICY.model_copy(update={"calibration_pairs": 8})
    least, more = few.least_rounds(12), few.least_confirm_rounds(12)
    assert few.least_rounds(1) <= 8 < least < more
    task = softmax().model_copy(
        update={"workloads": tuple(Workload(name=f"w{n}", dims={"M": 1, "N": 50 + n}) for n in range(12))}
    )
    records = Records(tmp_path)
    with Busy(records.blobs, tmp_path / "scratch") as executor:
        judge = builders.open_judge(task, Cpp(), executor, records, few)
        contestants = {"baseline": kernel(NAIVE), "best": kernel(FASTER)}
        confirm = (kernel(FASTER), kernel(NAIVE))
        for ask, arguments in (
            (judge.read_or_measure_calibration, confirm[1:]),
            (judge.read_or_measure_confirmation, confirm),
            (judge.read_or_measure_benchmark, (contestants,)),
        ):
            with pytest.raises(DeviceBusyError):
                ask(*arguments)
        asked = [json.loads(records.blobs.text(files["request.json"]))["workloads"] for files in executor.asked]
        assert [min(w["pairs"] for w in workloads) for workloads in asked] == [least, more, least]


def test_the_users_own_kernel_must_compile(judge: Judge):
    assert compile_baseline(softmax(), judge.language, judge.executor, judge.records.blobs)
    broken = softmax().model_copy(update={"baseline": BROKEN})
    with pytest.raises(SettingsError, match=r"kernel\.cpp does not compile.*(?s:.*)nothing"):
        compile_baseline(broken, judge.language, judge.executor, judge.records.blobs)


@pytest.mark.parametrize(
    ("left", "changes", "piece"),
    [
        ({}, {"exit_code": -9}, "exit -9"),
        ({}, {"timed_out": True}, "limit"),
        ({"result.json": '{"kind": "correctness", "cases": 3}'}, {}, "cannot be read"),
        ({"result.json": '{"kind": "infra", "error": "oracle died"}'}, {}, "oracle died"),
        ({"result.json": '{"kind": "correctness", "cases": []}'}, {}, "TimingResult was requested"),
    ],
)
def test_an_unreadable_answer_is_blamed_on_the_harness(
    tmp_path: Path, left: dict[str, str], changes: dict[str, object], piece: str
):
    blobs = Blobs(tmp_path)
    files = {name: blobs.put(text) for name, text in {**left, "stderr.txt": "boom"}.items()}
    finished = FinishedJob(**{"exit_code": 0, "files": files, "usage": JobUsage(wall_s=0.1), **changes})
    with pytest.raises(HarnessError, match=piece):
        read_answer(finished, blobs, TimingResult)
