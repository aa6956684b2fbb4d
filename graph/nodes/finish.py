"""The end of a run: final audit, benchmark against baseline, torch eager and torch.compile, report."""

from __future__ import annotations

from typing import Literal

from graph.artifacts import FinalBenchmark, Standing
from graph.nodes.commits import commit_report
from graph.report import final
from graph.report.render import ratio
from graph.report.summary import versions
from graph.services import Services
from graph.state import State
from tools import evidence, gate
from tools.artifacts import Record
from tools.errors import WorkspaceError


def finalise(state: State, services: Services) -> State:
    """Audit what was closed, benchmark the best version against everything it is compared with, write and commit the report."""
    audit(services)
    wanted = services.settings.benchmark
    frameworks: list[Literal["eager", "compile"]] = ["eager"] if wanted.eager else []
    if wanted.compile:
        frameworks.append("compile")
    contestants = {"baseline": services.candidate(state["baseline"]), "best": services.candidate(state["incumbent"])}
    measured = services.judge.benchmark(contestants, tuple(frameworks))
    benchmark = standings(measured, services)
    record = services.keep("final", benchmark, parents=(measured.id,), best=state["incumbent"])
    ended = State(**{**state, "report": record.id})
    texts = {"benchmark.md": final.benchmark(benchmark, measured.id), "report.md": final.report(ended, services)}
    commit_report(services, record.id, texts)
    services.emit("stop", {"reason": str(state.get("stop"))})
    overall = benchmark.overall.get("baseline")
    return State(report=record.id, summary=f"{ratio(overall)} over baseline; stopped: {state.get('stop')}")


def audit(services: Services) -> None:
    """Every closed version must be complete and in order (C4); WorkspaceError names what is not."""
    root = services.workspace.root
    kept = [memory.iteration for memory in versions(root)]
    for iteration in range(int((root / gate.POINTER).read_text()) + 1):
        faults = gate.audit(root, iteration, closed=True) or (() if iteration in kept else (f"memory/v{iteration}.json is missing.",))
        if faults:
            raise WorkspaceError(f"{root}: {faults[0].rstrip('.')}; restore it with `git checkout -- .`")


def standings(record: Record, services: Services) -> FinalBenchmark:
    """Each contestant against the best kernel, a workload at a time and over the objective."""
    contest = evidence.Contest.model_validate(record.payload)
    objective = services.settings.judge.objective
    times = evidence.contest_seconds(record)
    present = [name for name in ("baseline", "best", "eager", "compile") if name not in contest.result.unavailable]
    present = [name for name in present if all(name in row for row in times.values())]
    rows = []
    for workload, row in times.items():
        alone = record.model_copy(update={"payload": evidence.only(contest, workload).model_dump(mode="json")})
        for name in present:
            against = evidence.contest_speedup(alone, objective, slow=name, fast="best") if name != "best" else None
            rows.append(Standing(contestant=name, workload=workload, seconds=row[name], against_best=against))
    return FinalBenchmark(
        standings=tuple(rows),
        overall={name: evidence.contest_speedup(record, objective, slow=name, fast="best") for name in present if name != "best"},
        objective_s={name: sum(contest.weights[w] * row[name] for w, row in times.items()) for name in present},
        unavailable=contest.result.unavailable,
        wall_s=services.wall_s(),
    )
