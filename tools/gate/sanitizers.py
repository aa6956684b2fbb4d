"""What compute-sanitizer says of one call of a kernel, read from its own lines (pure): memcheck refuses, the others
remark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tools.artifacts import Artifact

MARK = "========="
SHOWN = 3
"""Findings of one tool that a verdict quotes."""
_ENDED = re.compile(r"^(ERROR|RACECHECK|SYNCCHECK|INITCHECK) SUMMARY: ")
_NO_FINDING = re.compile(
    r"^(COMPUTE-SANITIZER|Target application|No attachable|.*SUMMARY: |Error: (No attachable|Target|process))"
)
_FAILED = re.compile(r"^(Internal Sanitizer Error|Error: (?!.*Race reported)|Device not supported|Unable to )")
_PLACE = re.compile(r"^(at|and (?:Read|Write) access at) ")


class Sanitized(Artifact):
    """Payload of a `sanitizers` record."""

    candidate: str
    workload: str
    version: str = ""
    seconds: float = 0.0
    """All tools, side by side."""
    missing: str = ""
    """Why nothing was looked at; empty: something was."""
    found: dict[str, tuple[str, ...]] = {}
    """Tool -> its findings, for those that came to their end."""
    failed: dict[str, str] = {}
    """Tool -> why it did not."""

    def sentence(self) -> str:
        """What is to be known of a kernel that memcheck does not refuse."""
        if self.missing:
            return f"Faults of memory on the device were not looked for: {self.missing.rstrip('.')}."
        said = [f"{tool} found {_several(found) if found else 'nothing'}" for tool, found in self.found.items()]
        said += [f"{tool} could not look ({why})" for tool, why in self.failed.items()]
        return f"compute-sanitizer {self.version} on {self.workload}: {'; '.join(said)}."

    def refusal(self) -> str | None:
        """What memcheck found, in its own words; None: nothing."""
        found = self.found.get("memcheck", ())
        return f"compute-sanitizer's memcheck on {self.workload} found {_several(found)}." if found else None


def read(answer: Mapping[str, Any], candidate: str, workload: str) -> Sanitized:
    """The payload from what the program beside the device left."""
    found, failed = {}, {}
    for tool, seen in answer.get("tools", {}).items():
        lines = [line.removeprefix(MARK).rstrip() for line in seen["text"].splitlines() if line.startswith(MARK)]
        complaints = [line.strip() for line in lines if _FAILED.match(line.strip())]
        seen_faults = findings(lines)
        # A faulty kernel also ends its process badly, of which the tool complains: what it found counts all the same.
        if not any(_ENDED.match(line.strip()) for line in lines) or (complaints and not seen_faults):
            said = [line for line in str(seen["said"]).splitlines() if line.strip()]
            failed[tool] = " ".join((complaints or said or ["it gave no reason"])[-1].split())[:200]
        else:
            found[tool] = seen_faults
    return Sanitized(
        candidate=candidate,
        workload=workload,
        version=answer.get("version", ""),
        seconds=answer["seconds"],
        missing=answer.get("missing", ""),
        found=found,
        failed=failed,
    )


def findings(lines: list[str]) -> tuple[str, ...]:
    """Each finding once: its headline and where it was, kernel and source line, with how many threads told of it."""
    counted: Counter[str] = Counter()
    said = ""
    for line in [*lines, ""]:
        text = line.strip()
        if not text or (not line.startswith("  ") and said):
            counted.update([said] if said else [])
            said = ""
        if text and not line.startswith("  "):
            said = "" if _NO_FINDING.match(text) or _FAILED.match(text) else text
        elif said and _PLACE.match(text):
            said = f"{said} {text}"
    return tuple(f"{text} ({times} times)" if times > 1 else text for text, times in counted.items())


def _several(found: tuple[str, ...]) -> str:
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(f'"{text}"' for text in found[:SHOWN]) + more
