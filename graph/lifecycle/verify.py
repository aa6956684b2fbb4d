"""`verify`: rebuild a version from git alone, measure it again with fresh seeds, and say whether the commit tells the
truth.

A clone is enough: neither the run's secret nor its private folder is needed. The task, the settings and so the
tolerances are those of the first commit, v0; a later commit that changed them is refuted. What is measured anew goes
through the same gate.
"""

from __future__ import annotations

import itertools
import json
import math
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graph.artifacts import COMMIT_PROTOCOL
from graph.services import open_executor
from graph.settings import Settings, load
from graph.workspace import drift
from tools.artifacts import Artifact, Candidate, Clock, Failed, Interval, Passed, Record, Task, Trial, Verdict
from tools.artifacts import Claim as Confirmed
from tools.cli.formatting import format_speedup
from tools.errors import SettingsError, StorageError, WorkspaceError
from tools.executors.base import Executor, pick_device
from tools.gate.judge_settings import JudgeSettings
from tools.languages.base import open_language
from tools.roofline.hardware import Roof
from tools.store.records import Records, record_key
from tools.store.repository import Commit, Repository, oldest_with_trailer, unrelated_commits
from tools.tasks.loader import LoadedTask

FROZEN_PATHS = ("task", "settings.yaml")
"""Paths that no commit after v0 may change."""
MAX_LOST_SHARE = 0.2
"""Share of a claimed speed-up that another hour on the same machine may take away; beyond it the claim is not
reproduced, and beyond half of it refuted."""
MAX_LOOKS = 3
"""The maximum number of measurements of a claim before its figures are refuted, as other processes may disturb one."""
MAX_OTHER_CPU_SHARE = 0.1
"""The share of CPU time of other processes above which a measurement can support a claim but not refute it."""


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

    def sentence(self) -> str:
        """Return the result as one line."""
        named = " ".join(part for part in (self.version, self.commit[:12], self.candidate) if part)
        return f"{named}: {self.outcome}: {self.reason}"


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


class Refuted(Exception):
    """Raised if a commit contradicts itself or v0."""


def verify(path: Path, commit: str | None = None, *, every: bool = False) -> tuple[Verification, ...]:
    """Verify one commit (an id, v<N> or HEAD; default: the last accepted one) or every accepted one of a workspace or a
    clone of it.

    Raises WorkspaceError when there is nothing to verify, InfrastructureError when this machine cannot measure.
    """
    if not (path / ".git").exists():
        raise WorkspaceError(
            f"{path}: not a Kernelwright workspace; give a folder that `python -m graph run` made, or a clone of it"
        )
    repository = Repository(path.resolve())
    repository.require_workspace()
    chosen = _chosen_commits(repository, commit, every=every)
    intruders = () if commit is not None else _unexpected_changes(repository)
    return (*intruders, *(_verify_commit(repository, item) for item in chosen))


def accepted_commits(repository: Repository) -> tuple[Commit, ...]:
    """Return the commits of accepted versions, the oldest first."""
    return tuple(reversed([c for c in repository.log() if c.trailers.get("Verdict") == "accept"]))


def _chosen_commits(repository: Repository, commit: str | None, *, every: bool) -> Sequence[Commit]:
    found = accepted_commits(repository)
    if commit is None:
        # What is masked now is verified only where it is named.
        found = tuple(
            c
            for c in found
            if not json.loads(repository.read_file_at("HEAD", f"memory/{c.trailers['Version']}.json"))["masked"]
        )
    else:
        log = repository.log()
        named = [c for c in log if c.trailers.get("Version") == commit or c.id.startswith(commit.lower())]
        if commit == "HEAD":
            named = list(log[:1])
        if len(named) != 1 or named[0].trailers.get("Verdict") != "accept":
            known = ", ".join(c.trailers["Version"] for c in found) or "none"
            raise WorkspaceError(
                f"{commit!r} does not name an accepted version of {repository.root}; accepted are: {known}"
            )
        return named
    if not found:
        raise WorkspaceError(
            f"{repository.root}: no version was accepted, so there is nothing to verify; see `python -m graph show "
            f"{repository.root}`"
        )
    return found if every else found[-1:]


def _unexpected_changes(repository: Repository) -> tuple[Verification, ...]:
    """Return disagreements about changes that are not the run's: unrelated commits, unaccepted kernels, changed
    files."""
    log = repository.log()
    found = []
    if drifted_paths := drift.drifted_paths(repository):
        found.append(
            _verification(
                log[0],
                "disagree",
                f"{drift.drift_sentence(repository, drifted_paths)}; what is verified is what git holds",
            )
        )
    strangers = set(unrelated_commits(log))
    kernels = set(repository.commits_changing("kernel"))
    for commit in log:
        if commit.id in strangers:
            found.append(
                _verification(
                    commit, "disagree", f"not a commit of the run ({commit.subject[:60]!r}): nothing in it was measured"
                )
            )
        elif commit.id in kernels and (why := _reason_change_is_unauthorised(repository, commit, log)):
            found.append(_verification(commit, "disagree", why))
    return tuple(found)


def _reason_change_is_unauthorised(repository: Repository, commit: Commit, log: Sequence[Commit]) -> str:
    """Return the reason why a commit must not change the kernel; empty: it is accepted, or restores an accepted
    kernel."""
    named = commit.trailers.get("Restores")
    if commit.trailers.get("Version") == "v0" or commit.trailers.get("Verdict") == "accept":
        return ""
    source = oldest_with_trailer(log[log.index(commit) + 1 :], "Version", named or "")
    if source is None or source.trailers.get("Verdict") not in ("accept", "baseline"):
        return "changed the kernel although the gate did not accept it"
    changed = [name for name in repository.changed_paths(source.id, commit.id) if name.startswith("kernel.")]
    return f"says that it restores {named}, and its {changed[0]} is another" if changed else ""


def _verify_commit(repository: Repository, commit: Commit) -> Verification:
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
        return compare_claim(commit, claim, measure_claim(claim, Path(folder)))


def read_claim(copy: Repository, commit: Commit) -> RecordedClaim:
    """The claim of `commit`, checked out at `copy`. Refuted when task, kernel, message and records do not belong
    together."""
    from graph.workspace import completeness
    from tools.judge import evidence
    from tools.tasks import loader as tasks

    first = copy.log()[-1]
    if first.trailers.get("Version") != "v0":
        raise Refuted("the first commit is not a baseline v0")
    if copy.changed_paths(first.id, commit.id, FROZEN_PATHS):
        raise Refuted("the frozen task or settings are not those of v0")
    task = tasks.read_frozen_task(copy.root / "task")
    settings = load(copy.root / "settings.yaml")
    candidate = _kernel_at(copy, commit.id, task)
    records = Records(copy.root)
    evidence_record = records.get(commit.trailers.get("Evidence", "").split(" ")[0])
    if evidence_record.kind != "verdict":
        raise Refuted(f"its evidence is a record of kind {evidence_record.kind!r}, not a verdict")
    verdict = Verdict.model_validate(evidence_record.payload)
    claimed = verdict.claim.speedup if verdict.claim else None
    if commit.trailers.get("Task") != task.identity()[:16]:
        raise Refuted("the frozen task is not the one that the commit names")
    if commit.trailers.get("Candidate") != candidate.id or verdict.candidate != candidate.id:
        raise Refuted(f"the kernel's content is {candidate.id}, not the candidate that the commit names")
    if (
        verdict.outcome != "accept"
        or claimed is None
        or commit.trailers.get("Speedup", "").split(" ")[0] != f"{claimed.estimate:.4g}"
    ):
        raise Refuted("the speed-up in the commit message is not the one in its record")
    incumbent = _kernel_at(copy, f"{commit.id}^", task)
    cited = [records.get(identity) for identity in verdict.records]
    confidence = verdict.speedup.confidence if verdict.speedup else claimed.confidence
    recomputed = evidence.trial_from_records(cited, settings.judge.objective, confidence, incumbent.id)
    is_recomputed = (
        isinstance(recomputed, Passed)
        and recomputed.candidate == candidate.id
        and _are_same_figures(recomputed.speedup, verdict.speedup)
    )
    claim = _confirmed_claim(cited, {"incumbent": incumbent.id, "candidate": candidate.id}, settings.judge)
    if not is_recomputed or not _are_same_figures(claim.speedup, claimed):
        raise Refuted("the speed-up does not follow from the records that the verdict names")
    if commit.trailers.get("Clock") != claim.clock:
        raise Refuted("the clock in the commit message is not the one by which its records confirm the speed-up")
    faults = completeness.audit_version(copy.root, int(commit.trailers.get("Version", "v0")[1:]), closed=True)
    if faults:
        raise Refuted(faults[0])
    task_record = records.find(record_key("task"))
    if task_record is None:
        raise Refuted("the record of the task is missing")
    loaded, timed_on = (
        LoadedTask.model_validate(task_record.payload),
        next((_device_name(r.device) for r in cited if r.device), ""),
    )
    return RecordedClaim(task, settings, loaded, candidate, incumbent, verdict, claimed, claim.clock, timed_on)


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


def _are_same_figures(one: Interval, other: Interval | None) -> bool:
    """Return whether two intervals are equal up to the last digits, in which machines may differ."""
    if other is None:
        return False
    pairs = ((one.estimate, other.estimate), (one.low, other.low), (one.high, other.high))
    return all(math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)


def measure_claim(claim: RecordedClaim, scratch: Path) -> tuple[Look, ...]:
    """Measure a claim with the whole judge and gate: own noise floor, fresh seeds and hidden sizes, separate processes.

    It is measured again, each time from nothing, while the figures speak against it; `MAX_LOOKS` times at most.
    """
    looks: list[Look] = []
    while len(looks) < MAX_LOOKS and all(_contradicts_claim(claim, look) for look in looks):
        records = Records(scratch / f"look-{len(looks)}")
        with open_executor(
            claim.settings.executor, records.blobs, scratch / "jobs", claim.settings.gpu, claim.settings.clocks
        ) as executor:
            looks.append(_measure_once(claim, executor, records))
    return tuple(looks)


def _measure_once(claim: RecordedClaim, executor: Executor, records: Records) -> Look:
    from tools.gate.verdict import GateEvidence, decide_verdict, with_confirmations, with_sanitizers
    from tools.judge import evidence
    from tools.judge.judge import Judge
    from tools.roofline import lower_bounds, microbenchmarks

    language = open_language(claim.task.language)
    judge_settings = claim.settings.judge
    baseline = Candidate(language=claim.task.language, files={f"kernel{language.suffix}": claim.task.baseline or ""})
    device = pick_device(executor.devices(), language.device)
    judge = Judge(
        claim.task,
        language,
        executor,
        records,
        environment="",
        device=device.label,
        # Other seeds and other hidden sizes than those the version was accepted on.
        secret=secrets.token_bytes(32),
        policy=judge_settings,
        emit=lambda kind, details: None,
    )
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
    outcome = look.verdict.outcome
    if not isinstance(look.trial, Passed) or outcome in ("reject_correctness", "reject_policy"):
        return False
    measured = look.measured_speedup(claim.clock)
    return outcome == "reject_perf" or (measured is not None and measured.high < claim.speedup.low / 2)


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
        why = reason if look.verdict.outcome == "reject_perf" else "not half of the claim is there"
        return _verification(
            commit, "disagree", f"{figures} (the last of {len(looks)} looks): {why}", claimed, measured
        )
    if look.verdict.outcome.startswith("reject"):
        return _verification(commit, "disagree", f"{figures}: {reason}", claimed, measured)
    if look.verdict.outcome != "accept":
        return _verification(commit, "inconclusive", f"{figures}: {reason}", claimed, measured)
    if measured.high < claimed.low * (1 - MAX_LOST_SHARE):
        return _verification(
            commit,
            "inconclusive",
            f"faster by less than claimed; is the machine as idle as then? {figures}",
            claimed,
            measured,
        )
    return _verification(commit, "agree", figures, claimed, measured)


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
    named = {name: commit.trailers.get(name.title(), "") for name in ("version", "candidate")}
    return Verification(commit=commit.id, **named, outcome=outcome, claimed=claimed, measured=measured, reason=reason)
