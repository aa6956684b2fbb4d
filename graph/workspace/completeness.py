"""The audit of a version: its required artifacts, their order and schemas, and what is missing (C4)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from agents.artifacts import PlannedMethod
from graph.artifacts import (
    AbsenceReason,
    Attribution,
    InstructionCheck,
    JudgedTrial,
    KernelRoofline,
    NotAvailable,
    VersionMemory,
)
from graph.workspace.drift import POINTER_FILE
from tools.artifacts import Measurement, Trial, Verdict

VERDICT_FILE = "verdict.json"
MEMORY_FOLDER = "memory/"
ARTIFACTS: dict[str, Any] = {
    "hypothesis.md": ("# v", "From kernel ", "## ", "- change: ", "- rationale: ", "- evidence: "),
    "evidence.md": (
        "# Evidence for v",
        "## Queries",
        "- (kernel) ",
        "- (bottleneck) ",
        "## Passages",
        "## Methods ",
        "## Past ",
    ),
    "roofline.json": KernelRoofline | NotAvailable,
    "methods.json": tuple[PlannedMethod, ...],
    "analysis.md": ("# Analysis of ", "| rule "),
    "profile_summary.md": ("# Profile of ", "## Roofline facts"),
    "profile_details.md": ("# What the tools say ", "## "),
    "correctness.md": ("# Correctness", "| workload "),
    "bench.json": tuple[Trial, ...] | tuple[Measurement, ...],
    "diff.patch": ("--- ", "+++ "),
    "branches/": Trial,
    "ablations/": JudgedTrial,
    "attribution.json": Attribution | NotAvailable,
    "sass_check.json": InstructionCheck | NotAvailable,
    VERDICT_FILE: Verdict,
    MEMORY_FOLDER: VersionMemory,
}
"""Required artifact of versions/v<N>/, N >= 1, in the order of creation -> its schema, or how required lines begin.

A folder (trailing slash) must hold at least one file, and its JSON files follow the schema. An artifact that does not
apply gives an `AbsenceReason` instead. The gate writes the last two, which close the version.
"""
BASELINE_ARTIFACTS = (
    "roofline.json",
    "analysis.md",
    "profile_summary.md",
    "profile_details.md",
    "correctness.md",
    "bench.json",
    VERDICT_FILE,
)
"""The required artifacts of v0, which has no plan."""


def audit_version(folder: Path, iteration: int, *, closed: bool = False) -> tuple[str, ...]:
    """Return one sentence for each fault of versions/v<iteration>/ in the workspace `folder`; empty: it has none (C4).

    `closed`: the gate has decided (final audit, `verify`), so verdict, memory and pointer are required as well.
    """
    version = f"versions/v{iteration}"
    needed = [
        name
        for name in (ARTIFACTS if iteration else BASELINE_ARTIFACTS)
        if name != MEMORY_FOLDER and (closed or name != VERDICT_FILE)
    ]
    name_by_path = {f"{version}/{name}": name for name in needed} | (
        {f"{MEMORY_FOLDER}v{iteration}.json": MEMORY_FOLDER} if closed else {}
    )
    found = [sentence for where, name in name_by_path.items() if (sentence := _artifact_fault(folder, where, name))]
    pointer = last_closed_iteration(folder)
    unjudged = [n for n in range(iteration) if not (folder / "versions" / f"v{n}" / VERDICT_FILE).is_file()]
    found += [
        f"versions/v{n}/{VERDICT_FILE} is missing: v{iteration} is out of order, v{n} never passed its gate."
        for n in unjudged
    ]
    if pointer < (iteration if closed else iteration - 1):
        found.append(f"{POINTER_FILE} says {pointer if pointer >= 0 else 'nothing'}: v{iteration} is out of order.")
    present = [int(p.name[1:]) for p in (folder / "versions").glob("v*") if p.name[1:].isdigit()]
    later = sorted(n for n in present if n > max(iteration, pointer + 1))
    if later:
        found.append(
            f"versions/v{later[0]} is out of order: nothing of it may exist before v{later[0] - 1} passed its gate."
        )
    return tuple(found)


def audit_closed_versions(folder: Path) -> tuple[str, ...]:
    """Return the faults of every closed version of a workspace, one sentence each; v0 is always required."""
    return tuple(
        fault
        for iteration in range(max(last_closed_iteration(folder), 0) + 1)
        for fault in audit_version(folder, iteration, closed=True)
    )


def last_closed_iteration(folder: Path) -> int:
    """Return the last closed iteration by the pointer file; -1 before v0 is closed."""
    path = folder / POINTER_FILE
    text = path.read_text().strip() if path.is_file() else ""
    return int(text) if text.isdigit() else -1


def _artifact_fault(folder: Path, relative_path: str, name: str) -> str | None:
    """What is wrong with the artifact `name` at `where`."""
    path = folder / relative_path
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in (".json", ".md"))
        faults = (_artifact_fault(folder, p.relative_to(folder).as_posix(), name) for p in files)
        return next(filter(None, faults), None) if files else f"{relative_path} is empty: say in it what was not done."
    text = path.read_text(errors="replace") if path.is_file() else None
    if text is None or not text.strip():
        return f"{relative_path} is {'missing' if text is None else 'empty'}."
    if path.suffix == ".json":
        try:
            _schema_of(name).validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            return (
                f"{relative_path}: {'.'.join(map(str, first['loc'])) or 'the whole'} is not as its schema says "
                f"({first['msg']})."
            )
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    if any(line.removeprefix("N/A: ").rstrip(".") in get_args(AbsenceReason) for line in lines):
        return None
    starts, planned = ARTIFACTS[name], path.with_name("methods.json")
    # Only at the top: below it stands prose, a model's too.
    if not isinstance(starts, tuple) or any(line.startswith("N/A: ") for line in lines[:2]):
        return f"{relative_path} gives no known reason for what it lacks: {lines[:2][-1]!r}."
    if name == "hypothesis.md" and planned.is_file() and planned.read_text().strip() == "[]":
        starts = starts[:2]  # no method of the plan stands
    lacking = next((start for start in starts if not any(line.startswith(start) for line in lines)), None)
    return f"{relative_path} has no line that begins with {lacking!r}." if lacking else None


@cache
def _schema_of(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(ARTIFACTS[name])
