"""What judging costs and can tell on the GPU here: `python benchmarks/judge_gpu.py [--same 40] [--planted 10] [--task
FOLDER]`, from the repository's root.

Prints a table: seconds of a warm judged candidate, how often a kernel is accepted against a copy of itself, and how
often a planted gain of 2 % is. Accepted means by `decide_verdict` at the end of the whole path, as in a run: screen,
build, correctness with derived sizes and distributions, up to four batches of 12 pairs at 95 % against the larger of
the least gain and the noise floor of an A/A calibration, and the confirmation in processes of their own. The least gain
is set to 1 % here, since a gain of 2 % cannot exceed the default of 2 %. No roof is measured, so that the physics floor
is not applied, and no model reviews. With `--task` only the copies are judged, of that folder's kernel, and each is
confirmed whatever its trial says.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "gpu")]

import bench  # noqa: E402

from tools.artifacts import Argument, Candidate, Dims, Passed, Task, Verdict, Workload  # noqa: E402
from tools.executors.base import Executor, pick_device  # noqa: E402
from tools.executors.local import LocalExecutor  # noqa: E402
from tools.gate.judge_settings import JudgeSettings  # noqa: E402
from tools.gate.verdict import GateEvidence, decide_verdict, with_confirmations  # noqa: E402
from tools.judge import evidence  # noqa: E402
from tools.judge.judge import Judge  # noqa: E402
from tools.languages.base import open_language  # noqa: E402
from tools.store.records import Records  # noqa: E402
from tools.tasks.loader import detect_language, load_task_folder  # noqa: E402

POLICY = JudgeSettings(min_effect=0.01, hidden_workloads=0)
WIDE: Dims = {"M": 4096, "N": 4096}
LARGE: Dims = {"M": 12288, "N": 4096}
LONG_S, PLANTED = 200e-6, 0.02
LOW, HIGH = 512, 4096
"""Rounds of extra work whose times give the slope."""


def softmax(rounds: int = 0, tag: str = "") -> Candidate:
    source = bench.kernel(f"    softmax(x, out, M, N, {rounds})\n", tag=tag)
    return Candidate(language="triton", files={"kernel.py": source})


def task(dims: Dims) -> Task:
    arguments = tuple(Argument.model_validate(argument) for argument in bench.TASK["arguments"])
    return Task(
        name="softmax",
        language="triton",
        arguments=arguments,
        reference=bench.REFERENCE,
        baseline=softmax().files["kernel.py"],
        workloads=(Workload(name="w", dims=dims),),
    )


def open_judge(judged: Task, executor: Executor, records: Records, policy: JudgeSettings = POLICY) -> Judge:
    language = open_language(judged.language)
    device = pick_device(executor.devices(), "cuda")
    return Judge(
        judged,
        language,
        executor,
        records,
        environment="",
        device=f"{device.kind}:{device.index} {device.name}",
        secret=secrets.token_bytes(32),
        policy=policy,
        emit=lambda kind, details: None,
    )


def verdict(judge: Judge, incumbent: Candidate, candidate: Candidate, noise: float, *, always: bool = False) -> Verdict:
    """What the gate says of one candidate, by all that a run would do to it but roofs and review."""
    trial = judge.judge(candidate, incumbent, incumbent, siblings=1, iteration=0, noise_floor=noise)
    gained = isinstance(trial, Passed) and (always or trial.speedup.low > 1.0 + max(POLICY.min_effect, noise))
    weighed = GateEvidence(
        incumbent=incumbent.id,
        trial=trial,
        task_at_start=judge.task.identity(),
        task_now=judge.task.identity(),
        workloads=tuple(workload.name for workload in judge.task.workloads),
        cases=evidence.correctness_cases(trial, judge.records),
        noise_floor=noise,
        looks=sum(judge.records.get(identity).kind == "timing" for identity in trial.records) or 1,
    )
    return decide_verdict(
        with_confirmations(weighed, judge.confirm_until_settled(candidate, incumbent) if gained else (), POLICY),
        POLICY,
    )


def seconds(judge: Judge, candidate: Candidate) -> float:
    """Median seconds a call, on the device."""
    return evidence.incumbent_seconds(judge.read_or_measure_calibration(candidate))["w"]


def planted_rounds(judge: Judge) -> tuple[int, int]:
    """Rounds of extra work for a kernel that takes `LONG_S`, and for one that takes the share `PLANTED` less."""
    first, second = (seconds(judge, softmax(rounds)) for rounds in (LOW, HIGH))
    slope = (second - first) / (HIGH - LOW)
    rounds = LOW + (LONG_S - first) / slope
    return round(rounds / 16) * 16, round((rounds - PLANTED * LONG_S / slope) / 16) * 16


def costs(judge: Judge) -> None:
    """Seconds of the first judged candidate, and of warm ones."""
    incumbent = softmax(tag="incumbent")
    spent: list[tuple[float, float]] = []
    for tag in ("cold", *(f"warm {i}" for i in range(5))):
        candidate, begun = softmax(tag=tag), time.perf_counter()
        judge.builder.read_or_build(candidate)
        built = time.perf_counter()
        trial = judge.judge(candidate, incumbent, incumbent, siblings=1, iteration=0)
        if not isinstance(trial, Passed):
            sys.exit(f"the judge says: {trial.reason}")
        spent.append((built - begun, time.perf_counter() - built))
    print(f"first judged candidate, cold           {sum(spent[0]):8.2f} s", flush=True)
    building, judging = (statistics.median(part) for part in zip(*spent[1:], strict=True))
    kernel_us = 1e6 * seconds(judge, incumbent)
    print(
        f"warm judged candidate ({kernel_us:.0f} us kernel)   {judging:8.2f} s after a build of {building:.2f} s",
        flush=True,
    )


def compare(judge: Judge, name: str, rounds: int, which: int, times: int, noise: float) -> None:
    """`times` candidates with `which` rounds of extra work against an incumbent with `rounds`."""
    incumbent, begun = softmax(rounds), time.perf_counter()
    seen = [verdict(judge, incumbent, softmax(which, f"{name} {i}"), noise) for i in range(times)]
    each = (time.perf_counter() - begun) / max(times, 1)
    outcomes = Counter(v.outcome for v in seen)
    estimates = [v.speedup.estimate for v in seen if v.speedup] or [float("nan")]
    others = (
        ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if outcome != "accept")
        or "no other verdict"
    )
    print(
        f"{name:12} {1e6 * seconds(judge, incumbent):4.0f} us kernel: {outcomes['accept']:3} of {times} accepted, "
        f"{others}; estimates "
        f"{min(estimates):.4f} to {max(estimates):.4f}; {each:.2f} s each",
        flush=True,
    )
    for reason in dict.fromkeys(v.reasons[-1] for v in seen if v.outcome not in ("accept", "reject_perf")):
        print(f"             {reason}", flush=True)


def copies(folder: Path, times: int, executor: Executor, records: Records) -> None:
    """`times` copies of a task folder's kernel against it, each judged and confirmed."""
    judged = load_task_folder(folder, executor, records.blobs).task
    judge, name = open_judge(judged, executor, records), f"kernel{detect_language(folder).suffix}"
    mark = "#" if name.endswith(".py") else "//"
    incumbent = Candidate(language=judged.language, files={name: judged.baseline or ""})
    noise, seen, begun = (
        evidence.noise_floor(judge.read_or_measure_calibration(incumbent), POLICY.objective),
        Counter[str](),
        time.perf_counter(),
    )
    for at in range(times):
        copy = Candidate(language=judged.language, files={name: f"{judged.baseline}\n{mark} copy {at}\n"})
        said = verdict(judge, incumbent, copy, noise, always=True)
        seen[said.outcome] += 1
        estimate = (
            f" {said.speedup.estimate:.4f} [{said.speedup.low:.4f}, {said.speedup.high:.4f}]" if said.speedup else ""
        )
        print(f"copy {at + 1}: {said.outcome}{estimate}", flush=True)
    each = (time.perf_counter() - begun) / max(times, 1)
    print(
        f"{folder}, noise floor {noise:.2%}, least gain {POLICY.min_effect:.0%}: {dict(seen)} of {times}; "
        f"{each:.2f} s each",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--same", type=int, default=40, help="candidates that are copies of the incumbent")
    parser.add_argument("--planted", type=int, default=10, help="candidates with a planted gain of 2 %%")
    parser.add_argument(
        "--task", type=Path, help="a task folder, copies of whose kernel are judged in place of all else"
    )
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="judge-gpu-") as folder:
        records = Records(Path(folder) / "store")
        with LocalExecutor(records.blobs, Path(folder) / "scratch") as executor:
            if wanted.task:
                copies(wanted.task, wanted.same, executor, records)
                return
            # How many batches a kernel takes against its equal is chance; the cost is told of one.
            costs(open_judge(task(LARGE), executor, records, POLICY.model_copy(update={"batches": 1})))
            judge = open_judge(task(WIDE), executor, records)
            rounds, fewer = planted_rounds(judge)
            noise = evidence.noise_floor(judge.read_or_measure_calibration(softmax(rounds)), POLICY.objective)
            print(f"noise floor {noise:.2%}, least gain {POLICY.min_effect:.0%}", flush=True)
            compare(judge, "A/A", rounds, rounds, wanted.same, noise)
            compare(judge, "planted 2 %", rounds, fewer, wanted.planted, noise)


if __name__ == "__main__":
    main()
