"""The artifacts of a version: what must be there, in which order, what each must hold, and what is missing of it
(C4)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from agents.artifacts import PlannedMethod
from graph.artifacts import (
    AbsenceReason,
    Attribution,
    InstructionsSeen,
    Judged,
    KernelRoofline,
    NotAvailable,
    VersionMemory,
)
from tools.artifacts import Measurement, Trial, Verdict

VERDICT = "verdict.json"
MEMORY = "memory/"
POINTER = "current_iteration.txt"
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
    "ablations/": Judged,
    "attribution.json": Attribution | NotAvailable,
    "sass_check.json": InstructionsSeen | NotAvailable,
    VERDICT: Verdict,
    MEMORY: VersionMemory,
}
"""What of versions/v<N>/ must be there, N >= 1, in the order in which it is made -> its schema, or how lines that it
must hold begin.

A folder (trailing slash) must hold at least one file, and each of its JSON files that. What was not done is said in its
place, by one of `AbsenceReason`. The last two come with the gate: they close the version.
"""
BASELINE_ARTIFACTS = (
    "roofline.json",
    "analysis.md",
    "profile_summary.md",
    "profile_details.md",
    "correctness.md",
    "bench.json",
    VERDICT,
)
"""Those of v0, which nobody proposed."""


def audit(folder: Path, iteration: int, *, closed: bool = False) -> tuple[str, ...]:
    """What versions/v<iteration>/ of the workspace `folder` lacks, one sentence each; empty when it is complete and in
    order (C4).

    `closed`: the iteration's gate is done (final audit, `verify`), so that verdict, memory and pointer must be there as
    well.
    """
    version = f"versions/v{iteration}"
    needed = [
        name
        for name in (ARTIFACTS if iteration else BASELINE_ARTIFACTS)
        if name != MEMORY and (closed or name != VERDICT)
    ]
    places = {f"{version}/{name}": name for name in needed} | ({f"{MEMORY}v{iteration}.json": MEMORY} if closed else {})
    found = [sentence for where, name in places.items() if (sentence := _fault(folder, where, name))]
    pointer = last_closed(folder)
    unjudged = [n for n in range(iteration) if not (folder / "versions" / f"v{n}" / VERDICT).is_file()]
    found += [
        f"versions/v{n}/{VERDICT} is missing: v{iteration} is out of order, v{n} never passed its gate."
        for n in unjudged
    ]
    if pointer < (iteration if closed else iteration - 1):
        found.append(f"{POINTER} says {pointer if pointer >= 0 else 'nothing'}: v{iteration} is out of order.")
    present = [int(p.name[1:]) for p in (folder / "versions").glob("v*") if p.name[1:].isdigit()]
    later = sorted(n for n in present if n > max(iteration, pointer + 1))
    if later:
        found.append(
            f"versions/v{later[0]} is out of order: nothing of it may exist before v{later[0] - 1} passed its gate."
        )
    return tuple(found)


def audit_closed(folder: Path) -> tuple[str, ...]:
    """The same for every closed version of a workspace; without any, that there is none."""
    return tuple(
        fault for iteration in range(max(last_closed(folder), 0) + 1) for fault in audit(folder, iteration, closed=True)
    )


def last_closed(folder: Path) -> int:
    """The last closed iteration by the pointer; -1 before the first."""
    path = folder / POINTER
    text = path.read_text().strip() if path.is_file() else ""
    return int(text) if text.isdigit() else -1


def _fault(folder: Path, where: str, name: str) -> str | None:
    """What is wrong with the artifact `name` at `where`."""
    path = folder / where
    if path.is_dir():
        held = sorted(p for p in path.rglob("*") if p.suffix in (".json", ".md"))
        faults = (_fault(folder, p.relative_to(folder).as_posix(), name) for p in held)
        return next(filter(None, faults), None) if held else f"{where} is empty: say in it what was not done."
    text = path.read_text(errors="replace") if path.is_file() else None
    if text is None or not text.strip():
        return f"{where} is {'missing' if text is None else 'empty'}."
    if path.suffix == ".json":
        try:
            _schema(name).validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            return (
                f"{where}: {'.'.join(map(str, first['loc'])) or 'the whole'} is not as its schema says "
                f"({first['msg']})."
            )
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    if any(line.removeprefix("N/A: ").rstrip(".") in get_args(AbsenceReason) for line in lines):
        return None
    starts, planned = ARTIFACTS[name], path.with_name("methods.json")
    # Only at the top: below it stands prose, a model's too.
    if not isinstance(starts, tuple) or any(line.startswith("N/A: ") for line in lines[:2]):
        return f"{where} gives no known reason for what it lacks: {lines[:2][-1]!r}."
    if name == "hypothesis.md" and planned.is_file() and planned.read_text().strip() == "[]":
        starts = starts[:2]  # no method of the plan stands
    lacking = next((start for start in starts if not any(line.startswith(start) for line in lines)), None)
    return f"{where} has no line that begins with {lacking!r}." if lacking else None


@cache
def _schema(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(ARTIFACTS[name])
