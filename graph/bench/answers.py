"""The texts that the bench answers with."""

from __future__ import annotations

from pathlib import Path

from agents.artifacts import PlannerBrief
from agents.prompting.render import render_sections
from agents.text.fencing import fence_data
from graph.artifacts import VersionMemory
from graph.bench.arguments import KnowledgeArguments, NoteArguments
from graph.nodes.prepare import read_or_run_profilers, relevant_metrics
from graph.services import Services
from graph.workspace.versions import read_versions
from tools.analysis import diagnosis, rules
from tools.artifacts import Candidate, Quantity
from tools.cli.formatting import format_speedup
from tools.store.repository import Repository

FIRST_SECTIONS = ("task", "reference", "judging", "kernel", "standing", "frameworks", "findings", "attempts")
"""Sections of the planner's prompt that a first look at the task shows."""
OTHER_SECTIONS = (
    "specs",
    "operator",
    "counters",
    "machine_code",
    "skills",
    "remarks",
    "signals",
    "methods",
    "passages",
)
"""Sections that the agent may ask for by name."""


def task_text(brief: PlannerBrief, sections: tuple[str, ...]) -> str:
    """Return sections of the planner's prompt about the kernel at HEAD."""
    texts = {part.section: part.text for part in render_sections("planner", brief, "Plan")}
    offered = {name: texts[name] for name in (*FIRST_SECTIONS, *OTHER_SECTIONS) if name in texts}
    shown = [offered[name] for name in sections or FIRST_SECTIONS if name in offered]
    unknown = [name for name in sections if name not in offered]
    missing = f"There is no section {', '.join(unknown)}.\n" if unknown else ""
    others = ", ".join(f"{name} ({len(text) // 3} tokens)" for name, text in offered.items())
    return "\n\n".join([*shown, f"{missing}Sections: {others}."])


def knowledge_text(asked: KnowledgeArguments, brief: PlannerBrief, services: Services) -> str:
    """Return the methods that fit the incumbent with outcomes of earlier runs, or the page of one method."""
    if asked.kind == "recommend":
        return task_text(brief, ("methods", "memory", "skills"))
    pages = {page.head.id: page for page in (*brief.dossier.methods, *brief.dossier.earlier, *brief.skills)}
    page = pages.get(asked.text) or services.guide.page(asked.text)
    if page is None:
        return f"There is no page {asked.text!r}; there are {', '.join(pages)}."
    return fence_data(f"page {page.head.id}, {page.path}:{page.body_line}", page.body)


def profile_text(candidate: Candidate, services: Services) -> str:
    """Return the launches, counters and findings of a draft."""
    profiles, records, missing = read_or_run_profilers(candidate, services)
    facts: dict[str, dict[str, Quantity]] = {
        profile.workload or services.task.workloads[0].name: {} for profile in profiles
    }
    findings = rules.evaluate_workloads(tuple(zip(profiles, records, strict=True)), facts, services.rules)
    lines = [f"{name}: not collected: {reason}" for name, reason in missing.items()]
    for profile in profiles:
        lines += [f"{profile.tool} {profile.launch}:"]
        lines += [diagnosis.describe_call(profile)] if profile.launches else []
        lines += [f"  {name} {q}" for name, q in sorted(relevant_metrics(profile.metrics, services.rules).items())]
    lines += [f"{one.severity} {one.axis} {one.rule}: {one.text}" for one in findings] or ["no rule fires"]
    return fence_data("profile of the draft", "\n".join(lines))


def history_text(brief: PlannerBrief, services: Services) -> str:
    """Return the versions, the correct candidates that lost and the agent's notes."""
    lines = [_version_line(memory) for memory in read_versions(services.workspace.root) if not memory.masked]
    lines += [
        f"frontier: {one.candidate} of v{one.iteration}, {format_speedup(one.speedup)} over {one.timed_against}: "
        f"{one.reason}"
        for one in brief.frontier
    ]
    notes = [record for record in services.records if record.kind == "note"]
    lines += [f"note: {NoteArguments.model_validate(record.payload).text}" for record in notes]
    return fence_data("versions of this run", "\n".join(lines))


def verdict_text(root: Path, iteration: int) -> str:
    """Return the verdict on a closed version: what the gate decided, why, what is claimed, and the commit."""
    memory = next((one for one in read_versions(root) if one.iteration == iteration), None)
    if memory is None:
        return f"v{iteration} has no verdict."
    scored = [f"prediction of {one.planned.method} borne out: {one.borne_out}" for one in memory.predictions]
    commit = Repository(root).find_commit("Version", f"v{iteration}") or ""
    return "\n".join([_version_line(memory), *scored, f"commit {commit[:12]} in {root}"])


def _version_line(memory: VersionMemory) -> str:
    worth = f", {format_speedup(memory.speedup)} over its parent" if memory.speedup else ""
    methods = f" ({', '.join(memory.methods)})" if memory.methods else ""
    return f"v{memory.iteration}{methods}: {memory.verdict}{worth}: {'; '.join(memory.reasons)}"
