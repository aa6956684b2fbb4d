"""The content of a report, gathered once from records; report.md and report.html are two renderings of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from agents.models.ledger import Spending, sum_exchanges
from agents.models.ledger import exchange_records as exchanges_of
from graph.artifacts import (
    Attribution,
    AttributionStatus,
    Closing,
    FinalBenchmark,
    Inspection,
    SpecSheet,
    VersionMemory,
)
from graph.report.content.authorship import authorship_words, known_contents
from graph.report.content.frameworks import claimed_speedup, torch_times
from graph.report.content.phrases import stop_reason_words
from graph.report.content.placeholders import analysis_text
from graph.report.content.report_rows import (
    CounterRow,
    Expense,
    Point,
    Proposal,
    VersionStep,
    WorkloadRow,
    compared_frameworks,
    counter_rows,
    expenses_of,
    points_of,
    proposal_records,
    proposals_of,
    roofs_of,
    steps_of,
    workload_rows,
)
from graph.report.content.summary import spent_by_role
from graph.services import Services
from graph.settings import Settings
from graph.specs import hardware_sheet
from graph.state import State
from graph.workspace.versions import lineage, read_versions
from tools.artifacts import Interval, Record, Task, Verdict
from tools.gate.ranking import FrameworkTimes
from tools.languages.base import UNTUNED_PHRASE
from tools.roofline import microbenchmarks
from tools.roofline.hardware import Roof
from tools.store.records import Records, record_key

OBJECTIVES = {
    "total_time": "objective: Σ weight × time a call",
    "geomean": "objective: weighted geometric mean of the times a call",
}


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows. Records are named by their id, which comes first in a pair."""

    workspace: str
    task: Task
    task_record: str | None
    settings: Settings
    stopped: str
    """Why the run stopped, in words; empty before it has."""
    bar: FrameworkTimes | None
    """The times of torch beside v0, scaled to the incumbent; None: torch was not timed."""
    iterations: int
    """Iterations begun so far, without v0."""
    clocks: str
    caveats: tuple[str, ...]
    authors: str
    """Who wrote task and baseline, in sentences."""
    objective: str
    final: FinalBenchmark | None
    final_record: str | None
    """The record of the final benchmark."""
    end_record: str | None
    """The record of the end, with the final benchmark's ranking and the time and money of the run."""
    claimed: Interval
    """Product of the claimed speed-ups of the accepted versions that led to the best kernel, by the clock of the final
    benchmark."""
    workloads: tuple[WorkloadRow, ...]
    frameworks: tuple[str, ...]
    """The frameworks to be compared."""
    memories: tuple[VersionMemory, ...]
    verdicts: Mapping[int, tuple[str, Verdict]]
    steps: tuple[VersionStep, ...]
    """Every closed version but v0."""
    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]
    """The roofs above `points`: memory and arithmetic, measured and cited."""
    labels: Mapping[str, str]
    """Candidate -> the version under which it was accepted."""
    inspections: Mapping[str, Inspection]
    inspection_records: Mapping[str, str]
    analyses: Mapping[str, str]
    attributions: Mapping[int, tuple[str, Attribution]]
    retrospective: Mapping[str, tuple[str, ...]]
    counters: tuple[CounterRow, ...]
    left: tuple[str, ...]
    """Rules that still fire on the best kernel."""
    proposals: tuple[Proposal, ...]
    sheet: SpecSheet
    sheet_record: str
    changed: tuple[str, ...]
    """Metrics whose cited line has changed since."""
    exchanges: tuple[Record, ...]
    by_role: Mapping[str, Spending]
    spent: Spending
    caps: Mapping[str, str]
    wall_s: float
    device_s: float | None
    exceeded_caps: tuple[str, ...]
    """Sentences on caps on time that the run exceeded."""
    expenses: tuple[Expense, ...]
    records: Records


def report_basis(state: State, services: Services) -> Closing:
    """Return what a report of a run in `state`, finished or not, shows besides records, as of now."""
    sheet = SpecSheet.model_validate(services.records.get(state["specs"]).payload)
    # Rendered again later the report must still come out, so that it says which citations no longer hold instead of
    # refusing.
    changed = tuple(spec.metric for spec, _ in hardware_sheet.stale_specs(sheet, services.wiki))
    return services.closing(state).model_copy(update={"changed": changed})


def gather_report(closing: Closing, services: Services) -> ReportData:
    """The content of a report; `closing`: as `report_basis` gives it."""
    state, records, task, settings = closing.state, services.records, services.task, services.settings
    memories = read_versions(services.workspace.root)
    final = records.get(state["report"]) if state.get("report") else None
    benchmark = FinalBenchmark.model_validate(final.payload) if final else None
    labels = {state["baseline"]: "v0"} | {
        m.candidate: f"v{m.iteration}" for m in memories if m.candidate and m.verdict == "accept"
    }
    inspected = {
        c: record for c in labels if (record := records.find(record_key("inspection", candidate=c))) is not None
    }
    inspections = {c: Inspection.model_validate(record.payload) for c, record in inspected.items()}
    inspection_records = {c: record.id for c, record in inspected.items()}
    verdicts, attributions = _closed_versions(memories, records)
    masked = {m.iteration for m in memories if m.masked}
    last = inspections.get(state["incumbent"])
    # Sorted: the order in which they were made is not kept, and the report must come out the same when it is rendered
    # again.
    exchanges = tuple(
        sorted(exchanges_of(records), key=lambda r: (r.payload.get("iteration", 0), r.payload["role"], r.id))
    )
    models = spent_by_role(records)
    spent = sum_exchanges(r for r in exchanges if r.payload["role"] in models)
    sheet = SpecSheet.model_validate(records.get(state["specs"]).payload)
    sheet = sheet.model_copy(update={"roofs": microbenchmarks.best_measured_roofs(sheet.roofs, records)})
    wall_s = benchmark.wall_s if benchmark else closing.wall_s
    device_s = benchmark.spent_device_s if benchmark else closing.device_s
    steps = tuple(steps_of(memories, verdicts))
    expenses = tuple(expenses_of({f"v{n}": record for n, (record, _) in verdicts.items()}, records))
    if expenses and final:
        expenses = (*expenses, Expense("end", wall_s, device_s, spent, final.id))
    return ReportData(
        workspace=services.workspace.root.name,
        task=task,
        task_record=loaded.id if (loaded := records.find(record_key("task"))) else None,
        settings=settings,
        stopped=stop_reason_words(
            state.get("stop"), settings, services.recorded_cap, benchmark.overall if benchmark else {}
        ),
        bar=torch_times(state, services),
        iterations=state["iteration"],
        clocks=services.language.clock_description,
        authors=authorship_words(task),
        caveats=(*(said for said in task.inferred if UNTUNED_PHRASE in said), *known_contents(task)),
        objective=OBJECTIVES[settings.judge.objective],
        final=benchmark,
        final_record=final.parents[0] if final else None,
        end_record=final.id if final else None,
        claimed=claimed_speedup(
            (verdicts[m.iteration][1] for m in lineage(memories) if m.verdict == "accept"),
            "graph" if benchmark and benchmark.by_graphs else "launch-included",
        ),
        workloads=workload_rows(task, settings, benchmark, last, inspection_records.get(state["incumbent"])),
        frameworks=compared_frameworks(benchmark),
        memories=memories,
        verdicts=verdicts,
        steps=steps,
        points=tuple(points_of(steps, verdicts, inspections, inspection_records, state, records)),
        roofs=roofs_of(sheet, task),
        labels=labels,
        inspections=inspections,
        inspection_records=inspection_records,
        analyses={c: analysis_text(record) for c, record in inspected.items()},
        attributions=attributions,
        retrospective=retrospective_of({n: a for n, a in attributions.items() if n not in masked}, verdicts),
        counters=tuple(counter_rows(memories, inspections)),
        left=tuple(dict.fromkeys(finding.rule for finding in last.findings)) if last else (),
        proposals=tuple(
            proposals_of(benchmark.proposals if benchmark else proposal_records(memories, records), records)
        ),
        sheet=sheet,
        sheet_record=state["specs"],
        changed=closing.changed,
        exchanges=exchanges,
        by_role=models,
        spent=spent,
        caps=settings.budget.caps_by_key(),
        wall_s=wall_s,
        device_s=device_s,
        exceeded_caps=settings.budget.exceeded_caps(wall_s, device_s),
        expenses=expenses,
        records=records,
    )


def _closed_versions(
    memories: Sequence[VersionMemory], records: Records
) -> tuple[dict[int, tuple[str, Verdict]], dict[int, tuple[str, Attribution]]]:
    """Iteration -> (record, verdict), and iteration -> (record, attribution)."""
    verdicts: dict[int, tuple[str, Verdict]] = {}
    attributions: dict[int, tuple[str, Attribution]] = {}
    for memory in memories:
        for identity in memory.records:
            record = records.get(identity)
            if record.kind == "verdict":
                verdicts[memory.iteration] = (identity, Verdict.model_validate(record.payload))
            elif record.kind == "attribution":
                attributions[memory.iteration] = (identity, Attribution.model_validate(record.payload))
    return verdicts, attributions


def retrospective_of(
    attributions: Mapping[int, tuple[str, Attribution]], verdicts: Mapping[int, tuple[str, Verdict]]
) -> dict[str, tuple[str, ...]]:
    """Status -> the methods that ended with it, with their versions, and whether the gate did not take these."""
    lost = {n: "" if n in verdicts and verdicts[n][1].outcome == "accept" else ", not accepted" for n in attributions}
    names_by_status = [
        (o.status, f"{o.method} (v{n}{lost[n]})")
        for n, (_, attribution) in attributions.items()
        for o in attribution.methods
    ]
    return {
        status: tuple(name for found, name in names_by_status if found == status)
        for status in get_args(AttributionStatus)
    }
