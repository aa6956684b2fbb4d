"""report.md and benchmark.md, from records alone."""

from __future__ import annotations

from graph.artifacts import Attribution, FinalBenchmark, Inspection, SpecSheet
from graph.report.render import render
from graph.report.summary import versions
from graph.services import Services
from graph.state import State
from tools.artifacts import Verdict
from tools.records import key


def benchmark(found: FinalBenchmark, record: str) -> str:
    """benchmark.md."""
    return render("benchmark.md", found=found, record=record)


def report(state: State, services: Services) -> str:
    """report.md: headline, versions, evidence, attribution, predictions, budget, what was not collected."""
    memories = versions(services.workspace.root)
    final = services.records.get(state["report"]) if state.get("report") else None
    inspections = {
        c: Inspection.model_validate(record.payload)
        for c in dict.fromkeys([state["baseline"], *(m.candidate for m in memories if m.candidate and m.verdict == "accept")])
        if (record := services.records.find(key("inspection", candidate=c))) is not None
    }
    verdicts = {}
    attributions = {}
    for memory in memories:
        for identity in memory.records:
            record = services.records.get(identity)
            if record.kind == "verdict":
                verdicts[memory.iteration] = (identity, Verdict.model_validate(record.payload))
            elif record.kind == "attribution":
                attributions[memory.iteration] = Attribution.model_validate(record.payload)
    return render(
        "report.md",
        task=services.task,
        state=state,
        final=FinalBenchmark.model_validate(final.payload) if final else None,
        final_record=final.parents[0] if final else None,
        memories=memories,
        verdicts=verdicts,
        attributions=attributions,
        inspections=inspections,
        sheet=SpecSheet.model_validate(services.records.get(state["specs"]).payload),
        wall_s=services.wall_s(),
        tokens=sum(sum(r.payload["usage"][side] for side in ("input", "output")) for r in services.records if r.kind == "exchange"),
        exchanges=sum(r.kind == "exchange" for r in services.records),
        settings=services.settings,
        workspace=services.workspace.root.name,
    )
