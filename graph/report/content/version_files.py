"""The files of versions/v<N>/, rendered from records; and those of v0 and the workspace's root.

The profile files carry no tool's name (`profile_summary.md`, not `ncu_summary.md`): which profiler spoke is said
inside, and a CPU run has no ncu.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agents.artifacts import Dossier, Plan
from agents.checks.cited_figures import quantity_text
from graph.artifacts import (
    Attribution,
    Inspection,
    InstructionCheck,
    JudgedTrial,
    KernelRoofline,
    NotAvailable,
    SpecSheet,
)
from graph.report.content import frameworks
from graph.report.content.phrases import render
from graph.report.content.placeholders import analysis_text
from tools.analysis.rules import load_rules
from tools.artifacts import Artifact, Axis, Candidate, Record, Verdict
from tools.gate.ranking import FrameworkTimes
from tools.judge import evidence
from tools.roofline import microbenchmarks, roofline

if TYPE_CHECKING:
    from graph.services import Services
    from graph.settings import Settings
    from graph.state import State
    from tools.store.records import Records

MAX_TOP_METRICS = 8
"""The number of metrics of an axis that a version shows."""
SPARSE_ARTIFACTS = (Attribution, InstructionCheck, NotAvailable)
"""Artifacts that are written without the defaults of fields that were not set."""


def render_version(
    state: State,
    services: Services,
    trials: tuple[JudgedTrial, ...],
    ablations: Mapping[str, JudgedTrial],
    attribution: Attribution | None,
    checked: Record | None,
    diff: str,
    inspection: Record | None,
    verdict: Verdict,
) -> dict[str, str]:
    """Relative name -> text of everything that the audit asks for before the verdict.

    `ablations`: method -> the trial without it. `own`: the accepted kernel's inspection; a refused one was not looked
    at.
    """
    iteration, get_record = state["iteration"], services.records.get
    plan = Plan.model_validate(get_record(state["plan"]).payload)
    dossier = Dossier.model_validate(get_record(state["dossier"]).payload)
    seen: Artifact = NotAvailable(not_available="no candidate became champion")
    if attribution is not None:
        visible = {o.method: o.visible for o in attribution.methods}
        checks = {o.method: o.mechanism for o in attribution.methods if o.mechanism}
        seen = InstructionCheck(architecture=services.architecture, methods=visible, record=state.get("attribution"))
        seen = seen.model_copy(update={"checks": checks}) if checks else seen
    files = {
        "hypothesis.md": render(
            "hypothesis.md", iteration=iteration, state=state, plan=plan, architecture=services.architecture
        ),
        "evidence.md": render("evidence.md", iteration=iteration, record=state["dossier"], dossier=dossier),
        "methods.json": _json(plan.methods),
        "correctness.md": render(
            "correctness.md", checked=_parse_correctness(checked), record=checked.id if checked else None
        ),
        "bench.json": _json([judged.trial for judged in trials]),
        "diff.patch": diff or "No candidate: nothing differs.\n",
        "attribution.json": _json(attribution or seen),
        "sass_check.json": _json(seen),
        **(
            profile_files(inspection, frameworks.torch_times(state, services, verdict), services.records)
            if inspection
            else _unprofiled_files(state["profile"])
        ),
    }
    for judged in trials:
        candidate = services.candidate(judged.trial.candidate)
        for name, text in candidate.files.items():
            files[f"branches/{candidate.id}/{name}"] = text
        files[f"branches/{candidate.id}/trial.json"] = judged.trial.model_dump_json(indent=1) + "\n"
    if not trials:
        files["branches/none.md"] = (
            "No candidate of this plan was judged.\n"
            if state["drafts"]
            else "The coder wrote no candidate for this plan.\n"
        )
    budget = planned_budget(Inspection.model_validate(get_record(state["profile"]).payload), dossier, services.settings)
    files["budget.json"] = json.dumps(budget) + "\n"
    files |= services.candidate(verdict.candidate).files if verdict.candidate else {}
    for method, judged in ablations.items():
        without = services.candidate(judged.trial.candidate, iteration)
        files |= {f"ablations/{method}/{name}": text for name, text in without.files.items()}
        files[f"ablations/{method}.json"] = judged.model_dump_json(indent=1) + "\n"
    if not ablations:
        files["ablations/none.md"] = (
            "Nothing was ablated: no champion, or one with a single method, whose own trial says what it is worth.\n"
        )
    return files


def planned_budget(inspection: Inspection, dossier: Dossier, settings: Settings) -> dict[Axis, int]:
    """Return the number of methods that each axis deserves in the next iteration, given the incumbent's inspection."""
    axes = {one.axis for one in inspection.findings} | {page.head.axis for page in dossier.methods if page.head.axis}
    search = settings.search
    return roofline.method_budget(
        inspection.headroom, search.methods_per_iteration, search.methods_per_axis, asked=axes
    )


def _top_metrics(inspection: Inspection) -> dict[str, dict[str, str]]:
    """Axis -> the collected metrics that its rules read, those of rules that fired first."""
    fired, found = {finding.rule for finding in inspection.findings}, dict[str, dict[str, str]]()
    for rule in sorted(load_rules(), key=lambda rule: rule.id not in fired):
        on_axis = found.setdefault(rule.axis, {})
        for name in (c.metric for c in rule.when if c.metric in inspection.metrics):
            if len(on_axis) < MAX_TOP_METRICS:
                on_axis[name] = quantity_text(inspection.metrics[name])
    return found


def profile_files(found: Record, times: FrameworkTimes | None, records: Records) -> dict[str, str]:
    """The files that describe the profile of a version's kernel, from the inspection's record; `times`: of torch
    beside it. A report of ncu comes as `diagnose` opens it."""
    inspection, record = Inspection.model_validate(found.payload), found.id
    pages = [blobs["raw.csv"] for one in inspection.profile_records if "raw.csv" in (blobs := records.get(one).blobs)]
    return {
        **({"ncu_report.csv": records.blobs.text(pages[0])} if pages else {}),
        "top_metrics.json": json.dumps(_top_metrics(inspection), indent=1) + "\n",
        "roofline.json": _json(
            KernelRoofline(
                record=record,
                candidate=inspection.candidate,
                workloads=inspection.rooflines,
                objective=inspection.headroom,
                target=inspection.target,
                published=inspection.published,
            )
        ),
        "analysis.md": render("analysis.md", i=inspection, record=record, text=analysis_text(found), times=times),
        "profile_summary.md": render("profile_summary.md", i=inspection, record=record),
        "profile_details.md": render("profile_details.md", i=inspection, record=record),
    }


def render_baseline_version(
    services: Services, state: State, checked: Record, calibration: Record, inspection: Record
) -> dict[str, str]:
    """Relative path -> text of versions/v0/."""
    measurements = evidence.measurements((calibration,), {}, services.settings.judge.confidence)
    files = {
        "correctness.md": render("correctness.md", checked=_parse_correctness(checked), record=checked.id),
        "bench.json": _json(measurements),
        **profile_files(inspection, frameworks.torch_times(state, services), services.records),
        **services.candidate(state["baseline"]).files,
    }
    return {f"versions/v0/{name}": text for name, text in files.items()}


def render_root(
    services: Services, state: State, baseline: Candidate, checked: Record, calibration: Record, inspection: Record
) -> dict[str, str]:
    """Relative name -> text of the files at the workspace's root that v0 writes once, kernel and pointer aside."""
    found = Inspection.model_validate(inspection.payload)
    settings = services.settings
    measurements = evidence.measurements((calibration,), {}, settings.judge.confidence)
    sheet = SpecSheet.model_validate(services.records.get(state["specs"]).payload)
    methods = services.guide.methods(
        services.task.language, [finding.rule for finding in found.findings], found.metrics
    )
    targets = [
        (p.head.id, p.head.signature[services.architecture], p.path)
        for p in methods
        if services.architecture in p.head.signature
    ]
    name = f"kernel{services.language.suffix}"
    built = evidence.Build.model_validate(services.judge.builder.read_or_build(baseline).payload)
    return {
        "README.md": render(
            "README.md",
            margin=settings.judge.workload_margin,
            task=services.task,
            seen=services.probed_workloads,
            sheet=sheet,
            sheet_record=state["specs"],
            roofs=(
                *roofline.roofs_from_specs(sheet.target_specs),
                *microbenchmarks.best_measured_roofs(sheet.roofs, services.records),
            ),
            rooflines=found.rooflines,
            inspection=inspection.id,
            target=found.target,
            published=found.published,
            stop=settings.stop,
            search=settings.search,
            budget=settings.budget,
            environment=services.environment,
            linked_to=settings.linked_to,
            clocks=services.language.clock_description,
            isa_targets=targets,
            architecture=services.architecture,
        ),
        "baseline_report.md": render(
            "baseline_report.md",
            baseline=baseline,
            inferred=services.task.inferred,
            clocks=services.language.clock_description,
            toolchain=services.judge.builder.toolset().compiler_name,
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
    }


def _parse_correctness(record: Record | None) -> evidence.Correctness | None:
    return evidence.Correctness.model_validate(record.payload) if record else None


def _unprofiled_files(parent: str) -> dict[str, str]:
    """The files of a refused version in place of those of `inspected`; `parent`: the record of the inspection of the
    kernel that it started from."""
    text = f"N/A: refused before profiling.\n\nThe kernel it started from: inspection record `{parent}`.\n"
    pages = ("analysis.md", "profile_summary.md", "profile_details.md")
    return {
        "roofline.json": _json(NotAvailable(not_available="refused before profiling", parent=parent)),
        **dict.fromkeys(pages, text),
    }


def _json(found: Artifact | Sequence[Artifact]) -> str:
    artifacts = [found] if isinstance(found, Artifact) else found
    # A field that an older record lacks gets no invented value.
    payloads = [one.model_dump(mode="json", exclude_unset=isinstance(one, SPARSE_ARTIFACTS)) for one in artifacts]
    return json.dumps(payloads[0] if isinstance(found, Artifact) else payloads, indent=1, sort_keys=True) + "\n"
