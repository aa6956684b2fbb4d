"""Which autotune config the user's kernel is frozen with: the fastest by a contest, so that nothing is gained over
an untuned one."""

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
"""Enough for medians; no interval is claimed."""


def pin_fastest_config(loaded: LoadedTask, judge: Judge) -> LoadedTask:
    """`loaded` with the fastest of its pinned kernels as the kernel, and a sentence that names the record.

    Variants that do not compile or are wrong drop out. Where no comparison can be made the first stays, and the
    sentence says why. InfrastructureError when the machine failed.
    """
    looked, total, fit = _find_correct_kernels(loaded, judge)
    note = f"the kernel is autotuned over {total or 'computed'} configs"
    if not fit:
        said = (
            f"{note}; none of the {looked} looked at compiles and is right here, so that it is pinned to the first "
            f"{UNTUNED_PHRASE}."
        )
        return _with_pinned_kernel(loaded, "config 0", said)
    if len(fit) == 1:
        (chosen,) = fit
        said = f"{chosen} is the only one of the {looked} looked at that compiles and is right here, and it is pinned."
        return _with_pinned_kernel(loaded, chosen, f"{note}; {said}")
    try:
        record = judge.benchmark(
            {_contestant_name(name): _make_candidate(v, judge) for name, v in fit.items()}, (), CONTEST_ROUNDS
        )
    except HarnessError as error:
        return _with_pinned_kernel(
            loaded, next(iter(fit)), f"{note}; it is pinned to the first {UNTUNED_PHRASE}: {str(error).rstrip('.')}."
        )
    costs = objective_seconds(confirmation.Contest.model_validate(record.payload), judge.policy.objective)
    chosen = min(fit, key=lambda name: costs[_contestant_name(name)])
    compared = "all" if len(fit) == total else f"{len(fit)} of {total or f'the first {looked}'}"
    said = (
        f"{chosen}, {' '.join(fit[chosen].label.split())}, was the fastest of {compared} over the visible "
        f"workloads (record {record.id})"
    )
    return _with_pinned_kernel(
        loaded, chosen, f"{note}; {said}, and it is pinned for baseline and candidates at all sizes."
    )


def objective_seconds(contest: confirmation.Contest, objective: Objective) -> Mapping[str, float]:
    """Contestant -> its objective time from medians of rounds: by the device's own events where there are any. Pure."""
    rounds = {w.workload: w.device_rounds or w.rounds for w in contest.result.workloads}
    times = {
        name: [(contest.weights[workload], median([r[name] for r in seen])) for workload, seen in rounds.items()]
        for name in contest.candidates
    }
    if objective == "geomean":
        return {
            name: math.exp(sum(w * math.log(t) for w, t in row) / sum(w for w, _ in row)) for name, row in times.items()
        }
    return {name: sum(w * t for w, t in row) for name, row in times.items()}


def _find_correct_kernels(loaded: LoadedTask, judge: Judge) -> tuple[int, int | None, dict[str, PinnedKernel]]:
    """How many pinned kernels were looked at, how many there are as far as is known, and by name those that compile
    and are right."""
    fit: dict[str, PinnedKernel] = {}
    for at, kernel in enumerate(loaded.pinned[:MAX_PINNED_KERNELS]):
        candidate = _make_candidate(kernel, judge)
        if (
            at
            and kernel.past_end_error
            and kernel.past_end_error in evidence.Build.model_validate(judge.builds.build(candidate).payload).log
        ):
            return at, at, fit
        if _compiles_and_is_correct(candidate, judge):
            fit[f"config {at}"] = kernel
    total = None if loaded.pinned[0].past_end_error else len(loaded.pinned)
    return min(len(loaded.pinned), MAX_PINNED_KERNELS), total, fit


def _compiles_and_is_correct(candidate: Candidate, judge: Judge) -> bool:
    """Whether it compiles and passes at every case: what fails only when it is launched is found here and not in the
    contest."""
    if evidence.build_failure(judge.builds.build(candidate)) is not None:
        return False
    return evidence.correctness_failure(judge.correctness(candidate, None, "autotune")) is None


def _make_candidate(kernel: PinnedKernel, judge: Judge) -> Candidate:
    return Candidate(language=judge.task.language, files={f"kernel{judge.language.suffix}": kernel.source})


def _contestant_name(label: str) -> str:
    """As a contestant is called: part of a file's name."""
    return label.replace(" ", "_")


def _with_pinned_kernel(loaded: LoadedTask, chosen: str, sentence: str) -> LoadedTask:
    at = int(chosen.split()[1])
    kept = tuple(s for s in loaded.task.inferred if UNTUNED_PHRASE not in s)
    update = {"baseline": loaded.pinned[at].source, "inferred": (sentence[0].upper() + sentence[1:], *kept)}
    return loaded.model_copy(update={"task": loaded.task.model_copy(update=update), "pinned": ()})
