"""The commits of a workspace: v0, one an iteration, the report. Each is made once, however often it is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from graph.artifacts import VersionMemory
from graph.report.content import version_files as artifacts
from graph.report.content.render import ratio
from graph.services import Services
from graph.state import State
from graph.workspace import completeness
from tools.artifacts import Record, Verdict
from tools.errors import WorkspaceError
from tools.executors.protocol import PROTOCOL
from tools.store.repository import Commit, foreign, having

STORES = ("records", "blobs")
"""Everything in them is evidence: blobs that no record names lie in the private folder."""


def commit_version(state: State, services: Services, verdict: Verdict, record: Record) -> str:
    """One commit an iteration: `accept vN` changes the kernel, `close vN` only adds what was learnt."""
    workspace = services.workspace
    iteration = state["iteration"]
    kernel = f"kernel{services.language.suffix}"
    history = own_history(services)
    head = history[0].id if history else None
    if head is None or workspace.repository.show(head, kernel).decode() != services.candidate(state["incumbent"]).source:
        raise WorkspaceError(f"{workspace.root}: HEAD does not hold the kernel that was measured; restore it with git, or start a new run")
    accepted = verdict.outcome == "accept" and verdict.candidate is not None
    changed = [f"versions/v{iteration}", f"memory/v{iteration}.json", completeness.POINTER, *STORES]
    if accepted and verdict.candidate:
        workspace.write(kernel, services.candidate(verdict.candidate).source)
        changed.append(kernel)
    workspace.write(completeness.POINTER, f"{iteration}\n")
    services.emit("commit", {"state": "written", "iteration": str(iteration)})
    subject = f"accept v{iteration}: {ratio(verdict.speedup)}" if accepted else f"close v{iteration}: {verdict.outcome}"
    message = "\n".join([subject, "", *verdict.reasons])
    return workspace.repository.commit(changed, message, trailers(services, f"v{iteration}", verdict, record.id), head)


def own_history(services: Services) -> tuple[Commit, ...]:
    """The commits from HEAD back; WorkspaceError when somebody else's lie on top, for what was measured started from our own (C1)."""
    history = services.workspace.repository.log()
    strangers = foreign(history)
    if strangers:
        raise WorkspaceError(
            f"{services.workspace.root}: commit {strangers[0][:12]} was not made by this run; "
            "undo it with `git reset`, or start a new run from that kernel"
        )
    return history


def trailers(services: Services, version: str, verdict: Verdict, record: str) -> dict[str, str]:
    """What a commit says of itself in a form that programs read."""
    found = {
        "Version": version,
        "Task": services.task.identity()[:16],
        "Candidate": verdict.candidate or "none",
        "Verdict": verdict.outcome,
        "Evidence": record,
        "Protocol": str(PROTOCOL),
    }
    if verdict.speedup is not None:
        found["Speedup"] = f"{verdict.speedup.estimate:.4g} [{verdict.speedup.low:.4g}, {verdict.speedup.high:.4g}]"
        found["Confidence"] = f"{verdict.speedup.confidence:.4f}"
    return found


def commit_baseline(state: State, services: Services, inspection: Record) -> str:
    """v0: the frozen inputs, the kernel that the run begins with and everything measured about it, as the first commit."""
    workspace = services.workspace
    history = workspace.repository.log()
    known = having(history, "Version", "v0")
    if known is not None:
        return known.id
    baseline = services.candidate(state["baseline"])
    checked = services.judge.correctness(baseline, None, "baseline")
    calibration = services.judge.calibrate(baseline)
    for name, text in artifacts.render_baseline(services, state, baseline, checked, calibration, inspection).items():
        workspace.write(name, text)
    verdict = Verdict(
        outcome="accept",
        reasons=("The baseline: correct, timed, and from here on the one to beat.",),
        candidate=baseline.id,
        incumbent=baseline.id,
        noise_floor=state["noise_floor"],
        records=(checked.id, calibration.id, inspection.id),
    )
    record = services.keep("verdict", verdict, parents=verdict.records, iteration=0)
    memory = VersionMemory(
        iteration=0,
        parent="",
        candidate=baseline.id,
        verdict="baseline",
        reasons=(),
        methods=(),
        knobs={},
        speedup=None,
        predictions=(),
        attempts=(),
        records=(record.id, checked.id, calibration.id, inspection.id),
    )
    workspace.write("memory/v0.json", memory.model_dump_json(indent=1) + "\n")
    workspace.write(f"versions/v0/{completeness.VERDICT}", verdict.model_dump_json(indent=1) + "\n")
    workspace.write(completeness.POINTER, "0\n")
    everything = [
        *(".gitignore", "README.md", "settings.yaml", "env_check.md", "baseline_report.md", "test_kernel.py", "task"),
        *(f"kernel{services.language.suffix}", "versions/v0", "memory/v0.json", completeness.POINTER, *STORES),
    ]
    message = "baseline v0\n\nThe kernel that the run begins with: correct against the float64 reference and timed against itself."
    said = trailers(services, "v0", verdict, record.id) | {"Verdict": "baseline"}
    return workspace.repository.commit(everything, message, said, history[0].id if history else None)


def commit_report(services: Services, record: str, texts: Mapping[str, str]) -> str:
    """The final report and benchmark (`record`) as the last commit; made once, so that a second call writes nothing."""
    repository = services.workspace.repository
    history = repository.log()
    made = having(history, "Report", record)
    if made is not None:
        return made.id
    for name, text in texts.items():
        services.workspace.write(name, text)
    services.emit("commit", {"state": "written", "iteration": "report"})
    paths = [*texts, *STORES]
    return repository.commit(paths, "report\n\nFinal audit, benchmark and report.", {"Report": record}, history[0].id if history else None)
