"""The artifacts of a version: what must be there, in which order, and what is missing (C4)."""

from __future__ import annotations

from pathlib import Path

ARTIFACTS = (
    "hypothesis.md",
    "evidence.md",
    "roofline.json",
    "methods.json",
    "analysis.md",
    "profile_summary.md",
    "profile_details.md",
    "correctness.md",
    "bench.json",
    "diff.patch",
    "branches/",
    "ablations/",
    "attribution.json",
    "sass_check.json",
)
"""What versions/v<N>/ must hold, N >= 1, in the order in which it is made, before the gate closes it with verdict.json.

A folder (trailing slash) must hold at least one file: what was not done is said in it.
"""
BASELINE_ARTIFACTS = ("roofline.json", "analysis.md", "profile_summary.md", "profile_details.md", "correctness.md", "bench.json")
"""The same for v0, which nobody proposed."""
VERDICT = "verdict.json"
POINTER = "current_iteration.txt"


def audit(folder: Path, iteration: int, *, closed: bool = False) -> tuple[str, ...]:
    """What versions/v<iteration>/ of the workspace `folder` lacks, one sentence each; empty when it is complete and in order (C4).

    `closed`: the iteration's gate is done (final audit, `verify`), so that verdict.json and the pointer must be there as well.
    """
    version = folder / "versions" / f"v{iteration}"
    required = (ARTIFACTS if iteration else BASELINE_ARTIFACTS) + ((VERDICT,) if closed else ())
    found = [sentence for name in required if (sentence := _missing(version, name))]
    pointer = _pointer(folder)
    unjudged = [n for n in range(iteration) if not (folder / "versions" / f"v{n}" / VERDICT).is_file()]
    found += [f"versions/v{n}/{VERDICT} is missing: v{iteration} is out of order, v{n} never passed its gate." for n in unjudged]
    if pointer < (iteration if closed else iteration - 1):
        found.append(f"{POINTER} says {pointer if pointer >= 0 else 'nothing'}: v{iteration} is out of order.")
    present = [int(p.name[1:]) for p in (folder / "versions").glob("v*") if p.name[1:].isdigit()]
    later = sorted(n for n in present if n > max(iteration, pointer + 1))
    if later:
        found.append(f"versions/v{later[0]} is out of order: nothing of it may exist before v{later[0] - 1} passed its gate.")
    return tuple(found)


def _missing(version: Path, name: str) -> str | None:
    path = version / name
    where = f"versions/{version.name}/{name}"
    if not path.exists():
        return f"{where} is missing."
    if name.endswith("/"):
        return None if any(p.is_file() and p.stat().st_size for p in path.rglob("*")) else f"{where} is empty: say in it what was not done."
    if not path.is_file() or not path.read_text(errors="replace").strip():
        return f"{where} is empty."
    return None


def _pointer(folder: Path) -> int:
    """The last closed iteration; -1 before the first."""
    path = folder / POINTER
    text = path.read_text().strip() if path.is_file() else ""
    return int(text) if text.isdigit() else -1
