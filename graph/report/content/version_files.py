"""The files of versions/v<N>/ (design 10), rendered from records; and those of v0 and the workspace's root.

The profile files carry no tool's name (`profile_summary.md`, not `ncu_summary.md`): which profiler spoke is said inside, and a CPU run has
no ncu.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agents.artifacts import Dossier, Plan
from graph.artifacts import Attribution, Inspection, Judged
from graph.report.content.placeholders import analysis
from graph.report.content.render import render
from graph.specs import datasheet
from tools.artifacts import Artifact, Candidate, Record
from tools.gate import gate
from tools.judge import evidence
from tools.roofline import microbenchmarks, roofline

if TYPE_CHECKING:
    from graph.services import Services
    from graph.state import State


class Contents(Artifact):
    """Everything that one closed iteration is described from."""

    iteration: int
    incumbent: Candidate
    candidate: Candidate | None
    dossier: Record
    plan: Record
    inspection: Record
    trials: tuple[Judged, ...]
    candidates: dict[str, Candidate]
    ablations: dict[str, Judged]
    """Method -> trial without it."""
    attribution: Attribution | None
    attribution_record: str | None
    correctness: Record | None
    evidence: gate.Evidence
    diff: str
    architecture: str


def render_version(c: Contents) -> dict[str, str]:
    """Relative name -> text of everything that the audit asks for before the verdict."""
    plan = Plan.model_validate(c.plan.payload)
    dossier = Dossier.model_validate(c.dossier.payload)
    files = {
        "hypothesis.md": render("hypothesis.md", c=c, plan=plan),
        "evidence.md": render("evidence.md", c=c, dossier=dossier),
        "methods.json": _json([item.model_dump(mode="json") for item in plan.methods]),
        "correctness.md": render("correctness.md", checked=_checked(c.correctness), record=c.correctness.id if c.correctness else None),
        "bench.json": _json([judged.trial.model_dump(mode="json") for judged in c.trials]),
        "diff.patch": c.diff or "No candidate: nothing differs.\n",
        "attribution.json": _json(c.attribution.model_dump(mode="json") if c.attribution else _nothing("no candidate became champion")),
        "sass_check.json": _json(_signatures(c)),
        **inspected(c.inspection),
    }
    for judged in c.trials:
        candidate = c.candidates[judged.trial.candidate]
        for name, text in candidate.files.items():
            files[f"branches/{candidate.id}/{name}"] = text
        files[f"branches/{candidate.id}/trial.json"] = judged.trial.model_dump_json(indent=1) + "\n"
    if not c.trials:
        files["branches/none.md"] = "The coder wrote no candidate for this plan.\n"
    for method, judged in c.ablations.items():
        files[f"ablations/{method}.json"] = judged.model_dump_json(indent=1) + "\n"
    if not c.ablations:
        files["ablations/none.md"] = (
            "Nothing was ablated: no champion, or one with a single method, whose own trial says what it is worth.\n"
        )
    return files


def inspected(found: Record) -> dict[str, str]:
    """The files that describe the profile of the kernel an iteration started from, from the inspection's record."""
    inspection, record = Inspection.model_validate(found.payload), found.id
    return {
        "roofline.json": _json(
            {
                "record": record,
                "candidate": inspection.candidate,
                "workloads": [row.model_dump(mode="json") for row in inspection.rooflines],
                "objective": inspection.headroom.model_dump(mode="json"),
                "target": inspection.target.model_dump(mode="json"),
                "published": inspection.published.model_dump(mode="json") if inspection.published else None,
            }
        ),
        "analysis.md": render("analysis.md", i=inspection, record=record, text=analysis(found)),
        "profile_summary.md": render("profile_summary.md", i=inspection, record=record),
        "profile_details.md": render("profile_details.md", i=inspection, record=record),
    }


def render_baseline(
    services: Services, state: State, baseline: Candidate, checked: Record, calibration: Record, inspection: Record
) -> dict[str, str]:
    """Relative name -> text of the workspace's root files and versions/v0/."""
    found = Inspection.model_validate(inspection.payload)
    settings = services.settings
    toolchain = services.language.toolchain()
    measurements = evidence.measurements((calibration,), {}, settings.judge.confidence)
    sheet = datasheet.sheet(state["specs"], services)
    methods = [page for page in services.guide.pages if page.head.type == "method" and services.task.language in page.head.languages]
    targets = [(p.head.id, p.head.signature[services.architecture], p.path) for p in methods if services.architecture in p.head.signature]
    name = f"kernel{services.language.suffix}"
    built = evidence.Build.model_validate(services.judge.builds.build(baseline).payload)
    return {
        name: baseline.source,
        "README.md": render(
            "README.md",
            margin=settings.judge.workload_margin,
            task=services.task,
            seen=services.seen,
            sheet=sheet,
            sheet_record=state["specs"],
            roofs=(*roofline.published(sheet.here), *microbenchmarks.highest(sheet.roofs, services.records)),
            rooflines=found.rooflines,
            inspection=inspection.id,
            target=found.target,
            published=found.published,
            stop=settings.stop,
            search=settings.search,
            budget=settings.budget,
            environment=services.environment,
            linked_to=settings.linked_to,
            clocks=services.language.clocks,
            isa_targets=targets,
            architecture=services.architecture,
        ),
        "baseline_report.md": render(
            "baseline_report.md",
            baseline=baseline,
            inferred=services.task.inferred,
            clocks=services.language.clocks,
            toolchain=str(toolchain),
            correctness=checked,
            calibration=calibration,
            measurements=measurements,
            noise_floor=state["noise_floor"],
            min_effect=settings.judge.min_effect,
        ),
        "test_kernel.py": render(
            "test_kernel.py",
            task=services.task,
            kernel=name,
            argv=built.argv,
            compiled=services.language.entry == "solve",
            workload=services.task.workloads[0],
        ),
        "versions/v0/correctness.md": render("correctness.md", checked=_checked(checked), record=checked.id),
        "versions/v0/bench.json": _json([m.model_dump(mode="json") for m in measurements]),
        **{f"versions/v0/{file}": text for file, text in inspected(inspection).items()},
    }


def _checked(record: Record | None) -> evidence.Correctness | None:
    return evidence.Correctness.model_validate(record.payload) if record else None


def _signatures(c: Contents) -> Mapping[str, object]:
    if c.attribution is None:
        return _nothing("no candidate became champion")
    return {"architecture": c.architecture, "methods": {o.method: o.visible for o in c.attribution.methods}, "record": c.attribution_record}


def _nothing(why: str) -> dict[str, str]:
    return {"not_available": why}


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
