"""report.md and benchmark.md, from records alone."""

from __future__ import annotations

import math

from agents.models.ledger import exchanges as of
from agents.models.ledger import total
from graph import cited
from graph.artifacts import Attribution, FinalBenchmark, Inspection, SpecSheet
from graph.report.referred import analysis
from graph.report.render import render
from graph.report.summary import by_role, versions
from graph.services import Services
from graph.state import State
from tools.artifacts import Verdict
from tools.languages.base import UNTUNED
from tools.records import key

OBJECTIVES = {"total_time": "objective: Σ weight × time a call", "geomean": "objective: weighted geometric mean of the times a call"}


def benchmark(found: FinalBenchmark, record: str) -> str:
    """benchmark.md."""
    return render("benchmark.md", found=found, record=record)


def report(state: State, services: Services) -> str:
    """report.md: headline, versions, evidence, attribution, predictions, budget, what was not collected."""
    memories = versions(services.workspace.root)
    final = services.records.get(state["report"]) if state.get("report") else None
    benchmark_of = FinalBenchmark.model_validate(final.payload) if final else None
    kernels = dict.fromkeys([state["baseline"], *(m.candidate for m in memories if m.candidate and m.verdict == "accept")])
    inspected = {c: record for c in kernels if (record := services.records.find(key("inspection", candidate=c))) is not None}
    inspections = {c: Inspection.model_validate(record.payload) for c, record in inspected.items()}
    verdicts: dict[int, tuple[str, Verdict]] = {}
    attributions: dict[int, tuple[str, Attribution]] = {}
    for memory in memories:
        for identity in memory.records:
            record = services.records.get(identity)
            if record.kind == "verdict":
                verdicts[memory.iteration] = (identity, Verdict.model_validate(record.payload))
            elif record.kind == "attribution":
                attributions[memory.iteration] = (identity, Attribution.model_validate(record.payload))
    retrospective: dict[str, list[str]] = {"effective": [], "ineffective": [], "implementation_failed": [], "unattributed": []}
    for iteration, (_, attribution) in attributions.items():
        for outcome in attribution.methods:
            retrospective[outcome.status].append(f"{outcome.method} (v{iteration})")
    last = inspections.get(state["incumbent"])
    # Sorted: the order in which they were made is not kept, and the report must come out the same when it is rendered again.
    exchanges = sorted(of(services.records), key=lambda r: (r.payload.get("iteration", 0), r.payload["role"], r.id))
    models = by_role(services.records)
    sheet = SpecSheet.model_validate(services.records.get(state["specs"]).payload)
    return render(
        "report.md",
        task=services.task,
        clocks=services.language.clocks,
        untuned=[sentence for sentence in services.task.inferred if UNTUNED in sentence],
        state=state,
        final=benchmark_of,
        objective=OBJECTIVES[services.settings.judge.objective],
        final_record=final.parents[0] if final else None,
        claimed=math.prod(v.speedup.low for _, v in verdicts.values() if v.outcome == "accept" and v.speedup is not None),
        memories=memories,
        verdicts=verdicts,
        attributions=attributions,
        inspections=inspections,
        inspection_records={c: record.id for c, record in inspected.items()},
        analyses={c: analysis(record) for c, record in inspected.items()},
        retrospective=retrospective,
        left=list(dict.fromkeys(finding.rule for finding in last.findings)) if last else [],
        sheet=sheet,
        # Rendered again later the report must still come out, so that it says which citations no longer hold instead of refusing.
        changed=[spec.metric for spec, _ in cited.stale(sheet, services.wiki)],
        wall_s=benchmark_of.wall_s if benchmark_of else services.wall_s(),
        device_s=benchmark_of.spent_device_s if benchmark_of else services.device_s(),
        by_role=models,
        spent=total(r for r in exchanges if r.payload["role"] in models),
        caps=services.settings.budget.named(),
        reached=services.ended,
        exchanges=exchanges,
        settings=services.settings,
        workspace=services.workspace.root.name,
    )
