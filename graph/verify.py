"""`verify`: rebuild a version from git alone, measure it again with fresh seeds, and say whether the commit tells the truth."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from graph import workspace as workspaces
from graph.services import open_executor, open_language
from graph.settings import Settings, parse
from graph.workspace import Workspace
from tools.artifacts import Artifact, Candidate, Failed, Interval, Passed, Task, Trial, Verdict
from tools.errors import SettingsError, StorageError, WorkspaceError
from tools.protocol import PROTOCOL
from tools.records import Records
from tools.repository import Commit, Repository

DRIFT = 0.2
"""Share of a claimed speed-up that another hour on the same machine may take away; beyond it the claim is not reproduced, and beyond
half of it refuted."""


class Verification(Artifact):
    """What one commit claims and what was found."""

    commit: str
    candidate: str
    outcome: Literal["agree", "disagree", "inconclusive"]
    claimed: Interval | None
    measured: Interval | None
    reason: str

    def sentence(self) -> str:
        """One line for people."""
        return f"{self.commit[:12]} {self.candidate}: {self.outcome}: {self.reason}"


def verify(path: Path, commit: str | None = None, *, every: bool = False) -> tuple[Verification, ...]:
    """Verify one commit (default: the last accepted one) or every accepted one.

    Raises WorkspaceError when there is nothing to verify, InfrastructureError when this machine cannot measure.
    """
    workspace = workspaces.reopen(path)
    try:
        chosen = _chosen(workspace.repository, commit, every=every)
        return tuple(_one(workspace, item) for item in chosen)
    finally:
        workspace.close()


def accepted(repository: Repository) -> tuple[Commit, ...]:
    """Commits that changed the kernel, oldest first."""
    return tuple(reversed([c for c in repository.log() if c.trailers.get("Verdict") == "accept"]))


def _chosen(repository: Repository, commit: str | None, *, every: bool) -> Sequence[Commit]:
    found = accepted(repository)
    if commit is not None:
        named = [c for c in repository.log() if c.id.startswith(commit)]
        if len(named) != 1 or named[0].trailers.get("Verdict") != "accept":
            raise WorkspaceError(
                f"{commit!r} does not name one accepted version of {repository.root}; `git log --grep '^accept'` in that folder lists them"
            )
        return named
    if not found:
        raise WorkspaceError(f"{repository.root}: no version was accepted, so there is nothing to verify; run longer or look at report.md")
    return found if every else found[-1:]


def _one(workspace: Workspace, commit: Commit) -> Verification:
    with tempfile.TemporaryDirectory(prefix="kernelwright-verify-") as folder:
        copy = workspace.repository.clone_to(Path(folder) / "copy", commit.id)
        return examine(copy.root, commit, Path(folder))


def examine(copy: Path, commit: Commit, scratch: Path) -> Verification:
    """Verify `commit`, checked out at `copy`; everything that is measured lies under `scratch`."""
    from tools import task as tasks

    try:
        task = tasks.thaw(copy / "task")
        settings = _settings(copy)
        candidate = _kernel(copy, task)
        verdict = _verdict(copy, commit)
    except (SettingsError, StorageError) as error:
        return _result(commit, "disagree", f"the commit does not hold what it names: {error}")
    claimed = verdict.speedup
    if commit.trailers.get("Task") != task.identity()[:16]:
        return _result(commit, "disagree", "the frozen task is not the one that the commit names", claimed)
    if commit.trailers.get("Candidate") != candidate.id or verdict.candidate not in (candidate.id, None):
        return _result(commit, "disagree", f"the kernel's content is {candidate.id}, not the candidate that the commit names", claimed)
    if claimed is None or commit.trailers.get("Speedup", "").split(" ")[0] != f"{claimed.estimate:.4g}":
        return _result(commit, "disagree", "the speed-up in the commit message is not the one in its record", claimed)
    protocol = commit.trailers.get("Protocol", "none")
    if protocol != str(PROTOCOL):
        reason = f"measured under protocol {protocol}, and this version runs only {PROTOCOL}"
        return _result(commit, "inconclusive", reason, claimed)
    incumbent = _kernel_at(copy, f"{commit.id}^", task)
    return compare(commit, claimed, _measure(task, settings, candidate, incumbent, scratch), settings)


def compare(commit: Commit, claimed: Interval, trial: Trial, settings: Settings) -> Verification:
    """The claim against a fresh trial: still correct, still faster, and by about as much."""
    if isinstance(trial, Failed):
        return _result(commit, "disagree", f"{trial.stage}: {trial.reason}", claimed)
    if not isinstance(trial, Passed):
        return _result(commit, "inconclusive", trial.reason, claimed)
    found = trial.speedup
    threshold = 1 + settings.judge.min_effect
    figures = f"claimed {claimed.estimate:.3g}x, measured {found.estimate:.3g}x [{found.low:.3g}, {found.high:.3g}]"
    if found.high < threshold:
        return _result(commit, "disagree", f"not faster: {figures}", claimed, found)
    if found.high < claimed.low / 2:
        return _result(commit, "disagree", f"faster, but by less than half of the claim: {figures}", claimed, found)
    if found.low <= threshold:
        return _result(commit, "inconclusive", f"noise hides the gain now: {figures}", claimed, found)
    if found.high < claimed.low * (1 - DRIFT):
        return _result(commit, "inconclusive", f"faster, but by less than claimed; is the machine as idle as then? {figures}", claimed, found)
    return _result(commit, "agree", figures, claimed, found)


def _measure(task: Task, settings: Settings, candidate: Candidate, incumbent: Candidate, scratch: Path) -> Trial:
    from tools.judge import Judge

    records = Records(scratch / "store")
    language = open_language(task.language)
    baseline = Candidate(language=task.language, files={f"kernel{language.suffix}": task.baseline or ""})
    with open_executor(settings.executor, records.blobs, scratch / "scratch") as executor:
        device = executor.devices()[0]
        judge = Judge(
            task,
            language,
            executor,
            records,
            environment="",
            device=f"{device.kind}:{device.index} {device.name}",
            # A fresh secret: other seeds and other hidden sizes than those the version was accepted on.
            secret=secrets.token_bytes(32),
            policy=settings.judge,
            emit=lambda kind, details: None,
        )
        return judge.judge(candidate, incumbent, baseline, siblings=1, iteration=0)


def _settings(copy: Path) -> Settings:
    import yaml

    path = copy / "settings.yaml"
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"{path.name} cannot be read ({error})") from error
    return parse(data, origin=path.name, base=copy)


def _kernel(copy: Path, task: Task) -> Candidate:
    name = f"kernel{open_language(task.language).suffix}"
    try:
        return Candidate(language=task.language, files={name: (copy / name).read_text(encoding="utf-8")})
    except (OSError, UnicodeError) as error:
        raise StorageError(f"{name} is missing or not text") from error


def _kernel_at(copy: Path, commit: str, task: Task) -> Candidate:
    name = f"kernel{open_language(task.language).suffix}"
    return Candidate(language=task.language, files={name: Repository(copy).show(commit, name).decode()})


def _verdict(copy: Path, commit: Commit) -> Verdict:
    identity = commit.trailers.get("Evidence", "").split(" ")[0]
    if not identity:
        raise StorageError("its message has no Evidence trailer")
    record = Records(copy).get(identity)
    if record.kind != "verdict":
        raise StorageError(f"its Evidence trailer names a record of kind {record.kind!r}, not a verdict")
    return Verdict.model_validate(record.payload)


def _result(
    commit: Commit,
    outcome: Literal["agree", "disagree", "inconclusive"],
    reason: str,
    claimed: Interval | None = None,
    measured: Interval | None = None,
) -> Verification:
    return Verification(
        commit=commit.id,
        candidate=commit.trailers.get("Candidate", ""),
        outcome=outcome,
        claimed=claimed,
        measured=measured,
        reason=reason,
    )
