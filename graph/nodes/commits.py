"""The commits of a workspace: v0, one for each iteration, and the report. A repeated call makes no second commit."""

from __future__ import annotations

import json
from collections.abc import Mapping

from graph.artifacts import COMMIT_PROTOCOL, Closing, VersionMemory
from graph.report.content import version_files as artifacts
from graph.report.content.authorship import KNOWN_CONTENT, known_contents
from graph.report.content.phrases import worth_words
from graph.services import Services
from graph.specs import hardware_sheet
from graph.state import State
from graph.workspace import completeness, drift
from tools.artifacts import Record, Verdict
from tools.environment import Environment
from tools.errors import WorkspaceError
from tools.store.repository import Commit, oldest_with_trailer

STORE_FOLDERS = ("records", "blobs", "prompts")
"""Folders of evidence, which every commit includes; prompts are records in a readable form."""
BASELINE_MESSAGE = (
    "baseline v0\n\nThe kernel that the run begins with: correct against the float64 reference and timed "
    "against itself."
)
REPORT_MESSAGE = "report\n\nFinal audit, benchmark and report."


def commit_version(state: State, services: Services, record: Record, closing: Closing) -> str:
    """Commit an iteration and return the commit's id: `accept vN` changes the kernel, `close vN` only adds artifacts.

    `record`: of the verdict. `state`: with the kernel at HEAD as incumbent.
    """
    workspace = services.workspace
    iteration = state["iteration"]
    verdict = Verdict.model_validate(record.payload)
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
    texts = root_texts(iteration, verdict, services)
    workspace.write(texts)
    changed = [f"versions/v{iteration}", f"memory/v{iteration}.json", *texts, *STORE_FOLDERS]
    services.emit("commit", {"state": "written", "iteration": str(iteration)})
    return workspace.commit(changed, *version_message(closing, services, record), head)


def root_texts(iteration: int, verdict: Verdict, services: Services) -> dict[str, str]:
    """Return what the commit of a version writes at the workspace's root: the pointer, and an accepted kernel."""
    texts = {drift.POINTER_FILE: f"{iteration}\n"}
    if verdict.outcome == "accept" and verdict.candidate:
        texts[f"kernel{services.language.suffix}"] = services.candidate(verdict.candidate).source
    return texts


def version_message(closing: Closing, services: Services, record: Record) -> tuple[str, dict[str, str]]:
    """Return message and trailers of a version's commit; `record`: of its verdict."""
    iteration, verdict = closing.state["iteration"], Verdict.model_validate(record.payload)
    said = commit_trailers(services, f"v{iteration}", verdict, record.id)
    if iteration == 0:
        return BASELINE_MESSAGE, said | {"Verdict": "baseline"}
    accepted = verdict.outcome == "accept" and verdict.candidate is not None
    subject = f"accept v{iteration}: {worth_words(verdict)}" if accepted else f"close v{iteration}: {verdict.outcome}"
    message = "\n".join([subject, "", *verdict.reasons])
    return message, said | ({"Restores": closing.restores} if closing.restores else {})


def require_own_history(services: Services) -> tuple[Commit, ...]:
    """Return the commits from HEAD back; raise WorkspaceError if another author's commit is among them (C1)."""
    repository = services.workspace.repository
    history = repository.log()
    if said := drift.foreign_commit_sentence(repository, history, services.records):
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
    if known := known_contents(services.task):
        trailers["Known"] = " ".join(said.removeprefix(KNOWN_CONTENT) for said in known)
    authors = services.task.authors
    trailers["Authors"] = f"task={authors.task}; baseline={authors.baseline}"
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
    closing_id, closing = services.save_closing(services.closing(state), iteration=0)
    record = services.save_record("verdict", verdict, parents=(*verdict.records, closing_id), iteration=0)
    texts = baseline_texts(closing, services, record) | first_root_texts(closing, services, record)
    hardware_sheet.read_verified_sheet(state["specs"], services)
    workspace.write(texts)
    everything = [*drift.FROZEN_PATHS, *texts, *STORE_FOLDERS]
    return workspace.commit(everything, *version_message(closing, services, record), history[0].id if history else None)


def first_root_texts(closing: Closing, services: Services, record: Record) -> dict[str, str]:
    """Relative path -> text of what the first commit alone writes at the root; `record`: of its verdict."""
    verdict = Verdict.model_validate(record.payload)
    baseline, evidence = services.candidate(verdict.candidate or ""), map(services.records.get, verdict.records)
    environment = Environment.model_validate(services.records.get(services.environment).payload)
    return {
        **artifacts.render_root(services, closing.state, baseline, *evidence),
        "env_check.md": environment.to_markdown(),
    }


def baseline_texts(closing: Closing, services: Services, record: Record) -> dict[str, str]:
    """Relative path -> text of versions/v0/, memory/, pointer and kernel at the first commit; `record`: of its
    verdict."""
    verdict = Verdict.model_validate(record.payload)
    memory = VersionMemory(
        iteration=0,
        parent="",
        candidate=verdict.candidate,
        verdict="baseline",
        records=(record.id, *verdict.records),
    )
    return artifacts.render_baseline_version(services, closing.state, *map(services.records.get, verdict.records)) | {
        "memory/v0.json": memory.model_dump_json(indent=1) + "\n",
        "memory/schema.json": json.dumps(VersionMemory.model_json_schema(), indent=1) + "\n",
        f"versions/v0/{completeness.VERDICT_FILE}": verdict.model_dump_json(indent=1) + "\n",
        **root_texts(0, verdict, services),
    }


def mask_message(closing: Closing, record: str) -> tuple[str, dict[str, str]]:
    """Return message and trailers of the commit of a mask or unmask; `record`: of its closing."""
    masking = closing.masking
    if masking is None:
        raise WorkspaceError(f"record {record} masks nothing")
    trailers = {"Masked" if masking.masked else "Unmasked": " ".join(f"v{n}" for n in masking.versions)}
    trailers |= {"Restores": closing.restores} if closing.restores else {}
    return f"{'mask' if masking.masked else 'unmask'} {masking.version}", trailers | {"Evidence": record}


def commit_report(services: Services, record: str, texts: Mapping[str, str]) -> str:
    """Commit the final report and benchmark (`record`) as the last commit and return its id; a second call writes
    nothing."""
    history = services.workspace.repository.log()
    known = oldest_with_trailer(history, "Report", record)
    if known is not None:
        return known.id
    services.workspace.write(texts)
    services.emit("commit", {"state": "written", "iteration": "report"})
    return services.workspace.commit(
        [*texts, *STORE_FOLDERS], REPORT_MESSAGE, {"Report": record}, history[0].id if history else None
    )
