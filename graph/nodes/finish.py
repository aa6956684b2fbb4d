"""The end of a run: final audit, benchmark against baseline, torch eager and torch.compile, report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from graph.artifacts import ContestantTime, FinalBenchmark
from graph.nodes.commits import commit_report
from graph.report import final
from graph.report.content.phrases import gain_words, objective_words, stop_reason_words
from graph.report.content.report_rows import proposal_records
from graph.report.content.view import report_basis
from graph.services import Services
from graph.specs import hardware_sheet
from graph.state import State
from graph.workspace import completeness
from graph.workspace.versions import closing_of, read_versions
from tools.artifacts import Candidate, Record
from tools.errors import WorkspaceError
from tools.gate import confirmation, ranking
from tools.judge import evidence
from tools.store.records import record_key
from tools.tasks.loader import LoadedTask


def finalise(state: State, services: Services) -> State:
    """Audit the closed versions, run the final benchmark, and write and commit the report."""
    require_complete_versions(services)
    hardware_sheet.read_verified_sheet(state["specs"], services)
    contestants = {"baseline": services.candidate(state["baseline"])}
    if state["incumbent"] != state["baseline"]:
        # A kernel is not timed against itself: noise would look like a gain.
        contestants["best"] = services.candidate(state["incumbent"])
    original, unfit = _original_kernel(services, contestants)
    if original is not None:
        contestants["original"] = original
    measured = services.judge.read_or_measure_benchmark(contestants, services.settings.benchmark.frameworks)
    benchmark = final_benchmark(measured, services, unfit)
    closing, _ = services.save_closing(report_basis(state, services), report=measured.id)
    record = services.save_record("final", benchmark, parents=(measured.id, closing), best=state["incumbent"])
    commit_report(services, record.id, final.render_reports(closing_of(record, services.records), services))
    services.emit("stop", {"reason": str(state.get("stop"))})
    times, won = benchmark.objective_s, benchmark.overall.get("baseline")
    shown = gain_words(
        times["baseline"], times[benchmark.best], won, benchmark.objective_of, disturbed=benchmark.disturbed
    )
    why = stop_reason_words(state.get("stop"), services.settings, services.recorded_cap, benchmark.overall)
    return State(report=record.id, summary=f"{shown}; it stopped because {why}")


def require_complete_versions(services: Services) -> None:
    """Raise WorkspaceError if a closed version is incomplete or out of order (C4)."""
    root = services.workspace.root
    if faults := completeness.audit_closed_versions(root):
        raise WorkspaceError(f"{root}: {faults[0].rstrip('.')}; restore it with `git checkout -- .`")


def _original_kernel(services: Services, others: Mapping[str, Candidate]) -> tuple[Candidate | None, dict[str, str]]:
    """Return the kernel that the first of the linked runs began with, if it is not among `others`.

    The dict gives the reason under "original" if that kernel cannot be timed here.
    """
    task = services.records.find(record_key("task"))
    source = LoadedTask.model_validate(task.payload).origin if task else ""
    if source in ("", *(candidate.source for candidate in others.values())):
        return None, {}
    made = Candidate(language=services.task.language, files={f"kernel{services.language.suffix}": source})
    services.save_candidate(made)
    failed = evidence.build_failure(services.judge.builder.read_or_build(made))
    failed = failed or evidence.correctness_failure(services.judge.read_or_check_correctness(made, None, "baseline"))
    return (None, {"original": failed.reason}) if failed else (made, {})


def final_benchmark(record: Record, services: Services, unfit: Mapping[str, str]) -> FinalBenchmark:
    """Return the final benchmark in a contest's record; `unfit`: contestants that were excluded -> the reason."""
    contest, objective = confirmation.Contest.model_validate(record.payload), services.settings.judge.objective
    first = next((known for known in services.records if known.kind == "user_function"), None)
    best: Literal["baseline", "best"] = "best" if "best" in contest.candidates else "baseline"
    replayed = confirmation.with_graph_times(record, "baseline", best)
    ranked = ranking.rank_contestants(replayed or record, objective, anchor="baseline", best=best)
    return FinalBenchmark(
        best=best,
        standings=tuple(
            ContestantTime(
                contestant=name, workload=workload, seconds=placing.seconds, against_best=placing.against_best
            )
            for workload, placed in ranked.workloads.items()
            for name, placing in placed.items()
        ),
        overall={
            name: placing.against_best for name, placing in ranked.overall.items() if placing.against_best is not None
        },
        objective_s={name: placing.seconds for name, placing in ranked.overall.items()},
        objective_of=objective_words(objective, services.task),
        device_s=confirmation.device_seconds(record),
        host_bound=confirmation.host_bound_rounds(record),
        graph_s=confirmation.graph_seconds(record),
        over_function=ranking.factors_over_function(record, objective, best),
        doubts=ranking.doubts_about_function(record, first, objective) if services.task.baseline_function else (),
        uncaptured=confirmation.uncaptured(record),
        by_graphs=replayed is not None,
        unavailable={**contest.result.unavailable, **unfit},
        disturbed=confirmation.any_disturbed((record,)),
        wall_s=services.wall_s(),
        spent_device_s=services.device_s(),
        proposals=proposal_records(read_versions(services.workspace.root), services.records),
    )
