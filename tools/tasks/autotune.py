"""Pin an autotuned kernel of the user to its fastest config, so a speed-up is never the gain over an untuned kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median

from tools.artifacts import Candidate
from tools.errors import HarnessError
from tools.gate import confirmation
from tools.gate.statistics import Objective
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.languages.base import MAX_PINNED_KERNELS, UNTUNED_PHRASE, PinnedKernel
from tools.tasks.loader import LoadedTask

CONTEST_ROUNDS = 8
"""Rounds of the contest between configs: enough for medians, since no interval is claimed."""


def pin_fastest_config(loaded: LoadedTask, judge: Judge) -> LoadedTask:
    """Return `loaded` with the fastest of its pinned kernels as the kernel, and a sentence that names the record.

    Variants that do not compile or are wrong are left out. If no comparison is possible, the first variant stays and
    the sentence gives the reason. Raises InfrastructureError if the machine failed.
    """
    checked_count, total, correct = _find_correct_kernels(loaded, judge)
    prefix = f"the kernel is autotuned over {total or 'computed'} configs"
    if not correct:
        sentence = (
            f"{prefix}; none of the {checked_count} checked configs compiles and is correct here, so it is pinned to "
            f"the first {UNTUNED_PHRASE}."
        )
        return _with_pinned_kernel(loaded, "config 0", sentence)
    if len(correct) == 1:
        (label,) = correct
        sentence = f"{label} is the only correct one of the {checked_count} checked configs and is pinned."
        return _with_pinned_kernel(loaded, label, f"{prefix}; {sentence}")
    try:
        record = judge.read_or_measure_benchmark(
            {_contestant_name(name): _make_candidate(v, judge) for name, v in correct.items()}, (), CONTEST_ROUNDS
        )
    except HarnessError as error:
        return _with_pinned_kernel(
            loaded,
            next(iter(correct)),
            f"{prefix}; it is pinned to the first {UNTUNED_PHRASE}: {str(error).rstrip('.')}.",
        )
    costs = objective_seconds(confirmation.Contest.model_validate(record.payload), judge.policy.objective)
    label = min(correct, key=lambda name: costs[_contestant_name(name)])
    compared = "all" if len(correct) == total else f"{len(correct)} of {total or f'the first {checked_count}'}"
    sentence = (
        f"{label}, {' '.join(correct[label].label.split())}, was the fastest of {compared} over the visible "
        f"workloads (record {record.id})"
    )
    return _with_pinned_kernel(
        loaded, label, f"{prefix}; {sentence}, and it is pinned for baseline and candidates at all sizes."
    )


def objective_seconds(contest: confirmation.Contest, objective: Objective) -> Mapping[str, float]:
    """Return contestant -> seconds of the objective, from medians of rounds by the device's clock, else the host's."""
    rounds = {w.workload: w.device_rounds or w.rounds for w in contest.result.workloads}
    times = {
        name: [
            (contest.weights[workload], median([r[name] for r in rounds_of_workload]))
            for workload, rounds_of_workload in rounds.items()
        ]
        for name in contest.candidates
    }
    if objective == "geomean":
        return {
            name: math.exp(sum(w * math.log(t) for w, t in row) / sum(w for w, _ in row)) for name, row in times.items()
        }
    return {name: sum(w * t for w, t in row) for name, row in times.items()}


def _find_correct_kernels(loaded: LoadedTask, judge: Judge) -> tuple[int, int | None, dict[str, PinnedKernel]]:
    """Return how many pinned kernels were checked, how many exist (None: unknown), and the correct ones by label."""
    correct: dict[str, PinnedKernel] = {}
    for index, kernel in enumerate(loaded.pinned[:MAX_PINNED_KERNELS]):
        candidate = _make_candidate(kernel, judge)
        if (
            index
            and kernel.past_end_error
            and kernel.past_end_error
            in evidence.Build.model_validate(judge.builder.read_or_build(candidate).payload).log
        ):
            return index, index, correct
        if _compiles_and_is_correct(candidate, judge):
            correct[f"config {index}"] = kernel
    total = None if loaded.pinned[0].past_end_error else len(loaded.pinned)
    return min(len(loaded.pinned), MAX_PINNED_KERNELS), total, correct


def _compiles_and_is_correct(candidate: Candidate, judge: Judge) -> bool:
    """Return whether a candidate compiles and passes every case, so failures at launch do not stop the contest."""
    if evidence.build_failure(judge.builder.read_or_build(candidate)) is not None:
        return False
    return evidence.correctness_failure(judge.read_or_check_correctness(candidate, None, "autotune")) is None


def _make_candidate(kernel: PinnedKernel, judge: Judge) -> Candidate:
    return Candidate(language=judge.task.language, files={f"kernel{judge.language.suffix}": kernel.source})


def _contestant_name(label: str) -> str:
    """Return a config's label as a contestant's name, which becomes part of a file name."""
    return label.replace(" ", "_")


def _with_pinned_kernel(loaded: LoadedTask, label: str, sentence: str) -> LoadedTask:
    index = int(label.split()[1])
    other_notes = tuple(s for s in loaded.task.inferred if UNTUNED_PHRASE not in s)
    update = {"baseline": loaded.pinned[index].source, "inferred": (sentence[0].upper() + sentence[1:], *other_notes)}
    return loaded.model_copy(update={"task": loaded.task.model_copy(update=update), "pinned": ()})
