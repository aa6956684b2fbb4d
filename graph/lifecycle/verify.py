"""`verify`: render what a reader reads again from the records, rebuild a version from git alone, measure it again with
fresh seeds, and say whether the commit tells the truth.

A clone is enough: neither the run's secret nor its private folder is needed. What is measured anew goes through the
same gate, on the machine that the verifier names: the clone's settings name none.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from graph.artifacts import COMMIT_PROTOCOL, FinalBenchmark
from graph.lifecycle import rendering, user_function
from graph.lifecycle.rendering import History
from graph.settings import Settings, load
from graph.state import count_siblings
from graph.workspace import drift
from graph.workspace.versions import closing_of
from tools.artifacts import Artifact, Candidate, Clock, Failed, Interval, Passed, Record, Task, Trial, Verdict
from tools.artifacts import Claim as Confirmed
from tools.cli.formatting import format_speedup
from tools.errors import SettingsError, StorageError, WorkspaceError
from tools.executors.base import Executor, pick_device
from tools.executors.choice import ExecutorChoice, open_executor
from tools.gate.confirmation import MACHINE_SPREAD
from tools.gate.judge_settings import JudgeSettings
from tools.gate.statistics import competing_candidates
from tools.languages.base import open_language
from tools.roofline.hardware import Roof
from tools.store.records import Records, record_key
from tools.store.repository import Commit, Repository
from tools.tasks.loader import LoadedTask

MAX_LOST_SHARE = 0.2
"""Share by which a claimed speed-up may exceed all that was measured, where both intervals are wide; beyond it the
measurement is inconclusive, and supports nothing."""
MAX_LOOKS = 3
"""The maximum number of measurements of a claim before its figures are refuted, as other processes may disturb one."""
MAX_OTHER_CPU_SHARE = 0.1
"""The share of CPU time of other processes above which a measurement can support a claim but not refute it."""


NOT_MEASURED = (
    "Measured was the gain of the version over its parent. Not measured again: the total over v0 (the final "
    "benchmark), the times of torch and of rivals (the user's own function is timed again beside the best version "
    "alone), roofs and profiles, which were compared with their records only."
)


class Verification(Artifact):
    """The claim of a commit and the result of its verification."""

    commit: str
    version: str
    """Such as v2; empty for a commit that is not the run's."""
    candidate: str
    outcome: Literal["agree", "disagree", "inconclusive"]
    claimed: Interval | None
    measured: Interval | None
    reason: str
    unmeasured: str = ""
    """A sentence about what was compared with its records alone, if the version was measured."""

    def sentence(self) -> str:
        """Return the result as one line."""
        named = " ".join(part for part in (self.version, self.commit[:12], self.candidate) if part)
        reason = f"{self.reason.rstrip('.')}. {self.unmeasured}" if self.unmeasured else self.reason
        return f"{named}: {self.outcome}: {reason}"


@dataclass(frozen=True)
class RecordedClaim:
    """The claim of a commit, read from git and consistent in itself."""

    task: Task
    settings: Settings
    loaded: LoadedTask
    candidate: Candidate
    incumbent: Candidate
    verdict: Verdict
    speedup: Interval
    clock: Clock
    """The clock by which `speedup` was confirmed."""
    device: str = ""
    """Name of the device that it was timed on."""


@dataclass(frozen=True)
class Look:
    """One fresh measurement of a claim."""

    trial: Trial
    verdict: Verdict
    others: float
    """The largest share of the machine's CPU time that others took during a batch of pairs."""
    device: str = ""

    def measured_speedup(self, clock: Clock) -> Interval | None:
        """Return the measured speed-up to compare with a claim by `clock`; None: nothing was timed."""
        if self.verdict.claim is not None:
            return self.verdict.claim.speedup_by(clock)
        return self.trial.speedup if isinstance(self.trial, Passed) else None


@dataclass(frozen=True)
class Machine:
    """The machine that measures, as the verifier names it; default: this one, under the Python that runs Kernelwright.

    `clocks`: "observe" those of the GPU, or "lock" them meanwhile.
    """

    executor: ExecutorChoice = field(default_factory=ExecutorChoice)
    clocks: str = "observe"


THIS_MACHINE = Machine()


class Refuted(Exception):
    """Raised if a claim does not follow from its records."""


def verify(
    path: Path, commit: str | None = None, *, every: bool = False, machine: Machine = THIS_MACHINE
) -> tuple[Verification, ...]:
    """Verify one commit (an id, v<N> or HEAD; default: the last accepted one) or every accepted one of a workspace or a
    clone of it, on `machine` (default: this one).

    Raises WorkspaceError when there is nothing to verify, InfrastructureError when this machine cannot measure.
    """
    if not (path / ".git").exists():
        raise WorkspaceError(
            f"{path}: not a Kernelwright workspace; give a folder that `python -m graph run` made, or a clone of it"
        )
    repository = Repository(path.resolve())
    repository.require_workspace()
    history = rendering.replay(repository)
    chosen = _chosen_commits(repository, commit, history, every=every)
    # What the records refute already need not be measured.
    refuted = {fault.commit.id for fault in history.faults if fault.outcome == "disagree"}
    verified = [verify_commit(repository, item, machine) for item in chosen if item.id not in refuted]
    agreed = [item for item in chosen if any((item.id, "agree") == (one.commit, one.outcome) for one in verified)]
    over_function = filter(None, (verify_over_function(repository, item, machine) for item in agreed))
    return (*unexpected_changes(repository, history), *verified, *over_function)


def unexpected_changes(repository: Repository, history: History) -> tuple[Verification, ...]:
    """Return disagreements about what is not the run's: changed files, strangers' commits, and texts that differ from
    the records."""
    found = [_verification(fault.commit, fault.outcome, fault.reason) for fault in history.faults]
    if drifted_paths := drift.drifted_paths(repository):
        sentence = f"{drift.drift_sentence(repository, drifted_paths)}; what is verified is what git holds"
        found.insert(0, _verification(repository.log()[0], "disagree", sentence))
    if replaced := drift.replacement_sentence(repository):
        found.insert(0, _verification(repository.log()[0], "disagree", replaced))
    return tuple(found)


def accepted_commits(repository: Repository) -> tuple[Commit, ...]:
    """Return the commits that say that a version was accepted, the oldest first."""
    return tuple(reversed([c for c in repository.log() if c.trailers.get("Verdict") == "accept"]))


def _chosen_commits(repository: Repository, commit: str | None, history: History, *, every: bool) -> Sequence[Commit]:
    found = tuple(c for c in accepted_commits(repository) if c.id not in history.strangers)
    if commit is None:
        # What is masked now is verified only where it is named.
        masked = {f"v{n}" for n in history.masked}
        found = tuple(c for c in found if c.trailers.get("Version") not in masked)
    else:
        log = [c for c in repository.log() if c.id not in history.strangers]
        named = [c for c in log if c.trailers.get("Version") == commit or c.id.startswith(commit.lower())]
        if commit == "HEAD":
            named = list(log[:1])
        if len(named) != 1 or named[0].trailers.get("Verdict") != "accept":
            known = ", ".join(c.trailers["Version"] for c in found) or "none"
            raise WorkspaceError(
                f"{commit!r} does not name an accepted version of {repository.root}; accepted are: {known}"
            )
        return named
    if not found and not history.faults:
        raise WorkspaceError(
            f"{repository.root}: no version was accepted, so there is nothing to verify; see `python -m graph show "
            f"{repository.root}`"
        )
    return found if every else found[-1:]


def verify_commit(repository: Repository, commit: Commit, machine: Machine = THIS_MACHINE) -> Verification:
    """Compare the claim of an accepted version's commit with its records, then measure it again on `machine`."""
    if commit.trailers.get("Protocol") != str(COMMIT_PROTOCOL):
        reason = (
            f"made under protocol {commit.trailers.get('Protocol', 'none')}; this version knows only {COMMIT_PROTOCOL}"
        )
        return _verification(commit, "inconclusive", reason)
    with tempfile.TemporaryDirectory(prefix="kernelwright-verify-") as folder:
        copy = repository.clone_to(Path(folder) / "copy", commit.id)
        try:
            claim = read_claim(copy, commit)
        except (Refuted, SettingsError, StorageError) as error:
            return _verification(commit, "disagree", str(error))
        return compare_claim(commit, claim, measure_claim(claim, Path(folder), machine))


def read_claim(copy: Repository, commit: Commit) -> RecordedClaim:
    """The claim of `commit`, checked out at `copy`; Refuted when kernel and records do not belong together.

    `rendering.replay` has compared the commit's text and files with the records before.
    """
    from tools.judge import evidence
    from tools.tasks import loader as tasks

    task = tasks.read_frozen_task(copy.root / "task")
    settings = load(copy.root / "settings.yaml")
    candidate = _kernel_at(copy, commit.id, task)
    records = Records(copy.root)
    evidence_record = records.get(commit.trailers["Evidence"])
    verdict = Verdict.model_validate(evidence_record.payload)
    if verdict.candidate != candidate.id:
        raise Refuted(f"the kernel's content is {candidate.id}, not the candidate that the commit names")
    incumbent = _kernel_at(copy, f"{commit.id}^", task)
    cited = [records.get(identity) for identity in verdict.records]
    state = closing_of(evidence_record, records).state
    looks = sum(record.kind == "timing" for record in cited)
    candidates = competing_candidates(count_siblings(state), state.get("tested", 0))
    needed = settings.judge.confidence_of_look(max(1, looks), candidates)
    if verdict.speedup is None or verdict.speedup.confidence < needed - 1e-12:
        raise Refuted("the confidence of its interval is below what the settings demand")
    recomputed = evidence.trial_from_records(cited, settings.judge.objective, verdict.speedup.confidence, incumbent.id)
    is_recomputed = (
        isinstance(recomputed, Passed)
        and recomputed.candidate == candidate.id
        and recomputed.speedup.is_close_to(verdict.speedup)
    )
    claim = _confirmed_claim(cited, {"incumbent": incumbent.id, "candidate": candidate.id}, settings.judge)
    if not is_recomputed or not verdict.claim or not claim.speedup.is_close_to(verdict.claim.speedup):
        raise Refuted("the speed-up does not follow from the records that the verdict names")
    if verdict.claim.clock != claim.clock:
        raise Refuted("the clock of the claim is not the one by which its records confirm the speed-up")
    task_record = records.find(record_key("task"))
    if task_record is None:
        raise Refuted("the record of the task is missing")
    loaded, timed_on = (
        LoadedTask.model_validate(task_record.payload),
        next((_device_name(r.device) for r in cited if r.device), ""),
    )
    speedup = verdict.claim.speedup
    return RecordedClaim(task, settings, loaded, candidate, incumbent, verdict, speedup, claim.clock, timed_on)


def _device_name(label: str) -> str:
    """Return the device's name from a label such as `cpu:0 AMD EPYC`, without its index."""
    return label.partition(" ")[2]


def _confirmed_claim(cited: Sequence[Record], kernels: Mapping[str, str], judge_settings: JudgeSettings) -> Confirmed:
    """Return the claim that the cited contests confirm; raise Refuted or StorageError if they do not."""
    from tools.gate import confirmation

    confirmed = [record for record in cited if record.kind == "confirmation"]
    if any(record.payload["candidates"] != kernels for record in confirmed):
        raise Refuted("the confirmation that the verdict names is of other kernels")
    if any(confirmation.contest_problem(record) for record in confirmed):
        raise Refuted("the candidate failed in the confirmation that the verdict names")
    if confirmation.is_contradicted_by_wall_clock(confirmed, judge_settings.objective, judge_settings.confidence):
        raise Refuted(
            "in the confirmation that the verdict names the candidate's own clock and the one outside contradict "
            "each other"
        )
    # The device's events are read in the candidate's process: that there is a gain the clock outside must show.
    if confirmation.confirmed_speedup(confirmed, judge_settings.objective, judge_settings.confidence).low <= 1.0:
        raise Refuted("the confirmation that the verdict names does not show the gain")
    return confirmation.claim_of(
        confirmed, judge_settings.objective, judge_settings.confidence, judge_settings.min_effect
    )


def measure_claim(claim: RecordedClaim, scratch: Path, machine: Machine = THIS_MACHINE) -> tuple[Look, ...]:
    """Measure a claim with the whole judge and gate: own noise floor, fresh seeds and hidden sizes, separate processes.

    It is measured again, each time from nothing, while the figures speak against it; `MAX_LOOKS` times at most.
    """
    looks: list[Look] = []
    while len(looks) < MAX_LOOKS and all(_contradicts_claim(claim, look) for look in looks):
        records = Records(scratch / f"look-{len(looks)}")
        # Whoever wrote the clone wrote its settings: `executor`, `gpu` and `clocks` in them are not used.
        with open_executor(machine.executor, records.blobs, scratch / "jobs", clocks=machine.clocks) as executor:
            looks.append(_measure_once(claim, executor, records))
    return tuple(looks)


def _measure_once(claim: RecordedClaim, executor: Executor, records: Records) -> Look:
    from tools.gate.verdict import GateEvidence, decide_verdict, with_confirmations, with_sanitizers
    from tools.judge import evidence
    from tools.roofline import lower_bounds, microbenchmarks

    # Other seeds and other hidden sizes than those the version was accepted on.
    secret, language = executor.draw_secret(), open_language(claim.task.language)
    judge_settings = claim.settings.judge
    baseline = Candidate(language=claim.task.language, files={f"kernel{language.suffix}": claim.task.baseline or ""})
    device = pick_device(executor.devices(), language.device)
    judge = user_function.open_judge(claim.task, executor, records, judge_settings, device, secret=secret)
    noise = evidence.noise_floor(judge.read_or_measure_calibration(claim.incumbent), judge_settings.objective)
    trial = judge.judge(claim.candidate, claim.incumbent, baseline, siblings=1, iteration=0, noise_floor=noise)
    confirmed = judge.confirm_until_settled(claim.candidate, claim.incumbent) if isinstance(trial, Passed) else ()
    attempts = itertools.count(1)

    def roofs() -> tuple[Roof, ...]:
        return microbenchmarks.read_or_measure_roofs(language, executor, records, attempt=next(attempts))

    bytes_by_workload = {w.name: w.unique_bytes for w in claim.loaded.workloads}
    limits = lower_bounds.limits_for_trial(
        trial,
        bytes_by_workload,
        device.last_level_cache,
        roofs(),
        roofs,
        judge.read_or_count_needed_bytes,
        lambda: evidence.incumbent_seconds(judge.read_or_measure_calibration(baseline)),
    )
    gathered = GateEvidence(
        incumbent=claim.incumbent.id,
        trial=trial,
        task_at_start=claim.task.identity(),
        task_now=claim.task.identity(),
        workloads=tuple(w.name for w in claim.task.workloads),
        margins=claim.task.margins,
        cases=evidence.correctness_cases(trial, records),
        physics=limits,
        noise_floor=noise,
        looks=sum(records.get(identity).kind == "timing" for identity in trial.records) or 1,
    )
    gathered = with_confirmations(gathered, confirmed, judge_settings)
    gathered = with_sanitizers(gathered, lambda: judge.read_or_run_sanitizers(claim.candidate), judge_settings)
    others = evidence.largest_share_of_other_processes([records.get(identity) for identity in trial.records])
    return Look(trial, decide_verdict(gathered, judge_settings), others, _device_name(device.label))


def _contradicts_claim(claim: RecordedClaim, look: Look) -> bool:
    """Return whether the figures of a measurement, and nothing else, contradict the claim."""
    if not isinstance(look.trial, Passed) or look.verdict.outcome in ("reject_correctness", "reject_policy"):
        return False
    measured = look.measured_speedup(claim.clock)
    return measured is not None and compare_speedups(claim.speedup, measured) == "disagree"


def compare_speedups(claimed: Interval, measured: Interval) -> Literal["agree", "disagree", "inconclusive"]:
    """Compare a claim with a measurement, one-sidedly: a gain that is higher than claimed refutes nothing.

    Disagree: the measured gain is lower, and the gap exceeds both intervals and `MACHINE_SPREAD`. Agree: the measured
    estimate reaches the claimed interval up to that spread, and the claimed estimate does not exceed all that was
    measured by more than `MAX_LOST_SHARE`. Inconclusive: the intervals are too wide to say either.
    """
    least = claimed.low * (1 - MACHINE_SPREAD)
    if measured.high < least:
        return "disagree"
    reached = measured.estimate >= least and measured.high >= claimed.estimate * (1 - MAX_LOST_SHARE)
    return "agree" if reached else "inconclusive"


def compare_claim(commit: Commit, claim: RecordedClaim, looks: Sequence[Look]) -> Verification:
    """Compare a claim with its measurements, of which the last decides: still accepted, with a similar speed-up."""
    look, claimed = looks[-1], claim.speedup
    reason = look.verdict.reasons[-1]
    if isinstance(look.trial, Failed):
        return _verification(commit, "disagree", reason, claimed)
    if not isinstance(look.trial, Passed):
        return _verification(commit, "inconclusive", reason, claimed)
    measured = look.measured_speedup(claim.clock) or look.trial.speedup
    clock = "" if claim.clock == "wall" else f" ({claim.clock})"
    figures = f"claimed {format_speedup(claimed)}, measured {format_speedup(measured)}{clock}"
    if _contradicts_claim(claim, look):
        others = max(look.others for look in looks)
        if others > MAX_OTHER_CPU_SHARE:
            busy = (
                f"{figures}, but others took up to {others:.0%} of the CPU time meanwhile; verify again on an "
                f"idle machine"
            )
            return _verification(commit, "inconclusive", busy, claimed, measured)
        if claim.device and look.device not in ("", claim.device):
            elsewhere = (
                f"{figures}, but it was claimed on {claim.device}, which {look.device} cannot refute; verify it there"
            )
            return _verification(commit, "inconclusive", elsewhere, claimed, measured)
        why = (
            reason
            if look.verdict.outcome == "reject_perf"
            else f"lower by more than both intervals and the {MACHINE_SPREAD:.0%} by which machines of a kind differ"
        )
        return _verification(
            commit, "disagree", f"{figures} (the last of {len(looks)} looks): {why}", claimed, measured
        )
    if look.verdict.outcome in ("reject_correctness", "reject_policy"):
        return _verification(commit, "disagree", f"{figures}: {reason}", claimed, measured)
    if look.verdict.outcome != "accept":
        return _verification(commit, "inconclusive", f"{figures}: {reason}", claimed, measured)
    if compare_speedups(claimed, measured) == "inconclusive":
        wide = f"{figures}: the intervals are too wide to tell less from noise; verify again on an idle machine"
        return _verification(commit, "inconclusive", wide, claimed, measured)
    higher = ", higher than claimed" if measured.low > claimed.high else ""
    return _verification(commit, "agree", f"{figures}{higher}", claimed, measured)


def verify_over_function(repository: Repository, commit: Commit, machine: Machine) -> Verification | None:
    """Time a version beside the user's own function again, and compare the factor with that of the final benchmark;
    None where that benchmark has none of this version."""
    from tools.gate import confirmation, ranking
    from tools.tasks.loader import read_frozen_task

    with tempfile.TemporaryDirectory(prefix="kernelwright-verify-") as folder:
        copy = repository.clone_to(Path(folder) / "copy", "HEAD")
        known, task = Records(copy.root), read_frozen_task(copy.root / "task")
        finals = ((one, known.get(one.parents[0])) for one in known if one.kind == "final")
        named = (pair for pair in finals if pair[1].payload["candidates"].get("best") == commit.trailers["Candidate"])
        final, contest = next(named, (None, None))
        factors = FinalBenchmark.model_validate(final.payload).over_function if final else {}
        if contest is None or not factors:
            return None
        clock, claimed = next(iter(factors.items()))
        policy, kernel = load(copy.root / "settings.yaml").judge, {"baseline": _kernel_at(copy, commit.id, task)}
        for look in range(MAX_LOOKS):
            records = Records(Path(folder) / f"look-{look}")
            with open_executor(
                machine.executor, records.blobs, Path(folder, "jobs"), clocks=machine.clocks
            ) as executor:
                device = pick_device(executor.devices(), open_language(task.language).device)
                judge = user_function.open_judge(task, executor, records, policy, device)
                again = judge.read_or_measure_benchmark(kernel, ())
            measured = ranking.factors_over_function(again, policy.objective, "baseline").get(clock)
            if measured is None:
                doubts = ranking.doubts_about_function(again, None, policy.objective)
                return _verification(commit, "inconclusive", " ".join(doubts))
            outcome = compare_speedups(claimed, measured)
            if outcome != "disagree":
                break
        said = f"claimed {format_speedup(claimed)} over the user's own function, measured {format_speedup(measured)}"
        if outcome == "disagree" and (
            _device_name(contest.device) != _device_name(again.device) or confirmation.any_disturbed((again,))
        ):
            outcome, said = "inconclusive", f"{said}, on {again.device}, not on {contest.device} when it was idle"
        compared = _verification(commit, outcome, f"{said} ({clock})", claimed, measured)
        return compared.model_copy(update={"unmeasured": ""})


def _kernel_at(copy: Repository, commit: str, task: Task) -> Candidate:
    name = f"kernel{open_language(task.language).suffix}"
    return Candidate(language=task.language, files={name: copy.read_file_at(commit, name).decode(errors="replace")})


def _verification(
    commit: Commit,
    outcome: Literal["agree", "disagree", "inconclusive"],
    reason: str,
    claimed: Interval | None = None,
    measured: Interval | None = None,
) -> Verification:
    return Verification(
        commit=commit.id,
        version=commit.trailers.get("Version", ""),
        candidate=commit.trailers.get("Candidate", ""),
        outcome=outcome,
        claimed=claimed,
        measured=measured,
        reason=reason,
        unmeasured=NOT_MEASURED if measured else "",
    )
