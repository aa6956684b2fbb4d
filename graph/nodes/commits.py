"""The commits of a workspace: v0, one for each iteration, and the report. A repeated call makes no second commit."""

from __future__ import annotations

import json
from collections.abc import Mapping

from graph.artifacts import COMMIT_PROTOCOL, VersionMemory
from graph.report.content import version_files as artifacts
from graph.report.content.phrases import worth_words
from graph.services import Services
from graph.state import State
from graph.workspace import completeness, drift
from tools.artifacts import Record, Verdict
from tools.errors import WorkspaceError
from tools.store.repository import Commit, oldest_with_trailer

STORE_FOLDERS = ("records", "blobs", "prompts")
"""Folders of evidence, which every commit includes; prompts are records in a readable form."""


def commit_version(state: State, services: Services, verdict: Verdict, record: Record, restores: str = "") -> str:
    """Commit an iteration and return the commit's id: `accept vN` changes the kernel, `close vN` only adds artifacts.

    `restores`: the version whose kernel a mask has put at HEAD meanwhile.
    """
    workspace = services.workspace
    iteration = state["iteration"]
    kernel = f"kernel{services.language.suffix}"
    history = require_own_history(services)
    head = history[0].id if history else None
    if (
        head is None
        or workspace.repository.read_file_at(head, kernel).decode() != services.candidate(state["incumbent"]).source
    ):
        raise WorkspaceError(
            f"{workspace.root}: HEAD does not hold the kernel that was measured; restore it with git, or start "
            f"a new run"
        )
    accepted = verdict.outcome == "accept" and verdict.candidate is not None
    closing = {drift.POINTER_FILE: f"{iteration}\n"}
    if accepted and verdict.candidate:
        closing[kernel] = services.candidate(verdict.candidate).source
    workspace.write(closing)
    changed = [f"versions/v{iteration}", f"memory/v{iteration}.json", *closing, *STORE_FOLDERS]
    services.emit("commit", {"state": "written", "iteration": str(iteration)})
    subject = f"accept v{iteration}: {worth_words(verdict)}" if accepted else f"close v{iteration}: {verdict.outcome}"
    message = "\n".join([subject, "", *verdict.reasons])
    said = commit_trailers(services, f"v{iteration}", verdict, record.id) | ({"Restores": restores} if restores else {})
    return workspace.commit(changed, message, said, head)


def require_own_history(services: Services) -> tuple[Commit, ...]:
    """Return the commits from HEAD back; raise WorkspaceError if another author's commit is among them (C1)."""
    repository = services.workspace.repository
    history = repository.log()
    if said := drift.foreign_commit_sentence(repository, history):
        raise WorkspaceError(said)
    return history


def commit_trailers(services: Services, version: str, verdict: Verdict, record: str) -> dict[str, str]:
    """Return the trailers of a version's commit, which programs read."""
    numeric = services.task.numeric
    trailers = {
        "Version": version,
        "Task": services.task.identity()[:16],
        "Candidate": verdict.candidate or "none",
        "Verdict": verdict.outcome,
        "Evidence": record,
        "Protocol": str(COMMIT_PROTOCOL),
    }
    said = verdict.reported_speedup
    if said is not None:
        trailers["Speedup"] = f"{said.estimate:.4g} [{said.low:.4g}, {said.high:.4g}]"
        trailers["Confidence"] = f"{said.confidence:.4f}"
    if verdict.claim is not None:
        trailers["Clock"] = verdict.claim.clock
    if any(a.dtype in numeric.floor and a.dtype not in numeric.cap for a in services.task.outputs):
        trailers["Tolerance"] = "as stated"
    return trailers


def commit_baseline(state: State, services: Services, inspection: Record) -> str:
    """Make the first commit, v0: the frozen task, the baseline and its measurements; return the commit's id."""
    workspace = services.workspace
    history = workspace.repository.log()
    known = oldest_with_trailer(history, "Version", "v0")
    if known is not None:
        return known.id
    baseline = services.candidate(state["baseline"])
    checked = services.judge.read_or_check_correctness(baseline, None, "baseline")
    calibration = services.judge.read_or_measure_calibration(baseline)
    verdict = Verdict(
        outcome="accept",
        reasons=("The baseline is correct and timed.",),
        candidate=baseline.id,
        incumbent=baseline.id,
        noise_floor=state["noise_floor"],
        records=(checked.id, calibration.id, inspection.id),
    )
    record = services.save_record("verdict", verdict, parents=verdict.records, iteration=0)
    cited = (record.id, checked.id, calibration.id, inspection.id)
    memory = VersionMemory(iteration=0, parent="", candidate=baseline.id, verdict="baseline", records=cited)
    texts = artifacts.render_baseline(services, state, baseline, checked, calibration, inspection)
    texts["memory/v0.json"] = memory.model_dump_json(indent=1) + "\n"
    texts["memory/schema.json"] = json.dumps(VersionMemory.model_json_schema(), indent=1) + "\n"
    texts[f"versions/v0/{completeness.VERDICT_FILE}"] = verdict.model_dump_json(indent=1) + "\n"
    workspace.write({**texts, drift.POINTER_FILE: "0\n"})
    everything = [*drift.FROZEN_PATHS, "env_check.md", *texts, drift.POINTER_FILE, *STORE_FOLDERS]
    message = (
        "baseline v0\n\nThe kernel that the run begins with: correct against the float64 reference and timed "
        "against itself."
    )
    said = commit_trailers(services, "v0", verdict, record.id) | {"Verdict": "baseline"}
    return workspace.commit(everything, message, said, history[0].id if history else None)


def commit_report(services: Services, record: str, texts: Mapping[str, str]) -> str:
    """Commit the final report and benchmark (`record`) as the last commit and return its id; a second call writes
    nothing."""
    history = services.workspace.repository.log()
    known = oldest_with_trailer(history, "Report", record)
    if known is not None:
        return known.id
    services.workspace.write(texts)
    services.emit("commit", {"state": "written", "iteration": "report"})
    message = "report\n\nFinal audit, benchmark and report."
    return services.workspace.commit(
        [*texts, *STORE_FOLDERS], message, {"Report": record}, history[0].id if history else None
    )
