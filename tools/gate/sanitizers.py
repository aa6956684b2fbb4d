"""What compute-sanitizer says of one call of a kernel, read from its own lines (pure): memcheck refuses, the others
remark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tools.artifacts import Artifact

TOOL_LINE_PREFIX = "========="
MAX_QUOTED_FINDINGS = 3
"""Findings of one tool that a verdict quotes."""
_SUMMARY_LINE = re.compile(r"^(ERROR|RACECHECK|SYNCCHECK|INITCHECK) SUMMARY: ")
_NOT_A_FINDING = re.compile(
    r"^(COMPUTE-SANITIZER|Target application|No attachable|.*SUMMARY: |Error: (No attachable|Target|process))"
)
_TOOL_FAILURE = re.compile(r"^(Internal Sanitizer Error|Error: (?!.*Race reported)|Device not supported|Unable to )")
_LOCATION_LINE = re.compile(r"^(at|and (?:Read|Write) access at) ")


class SanitizerReport(Artifact):
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
        clauses = [
            f"{tool} found {_quote_findings(found) if found else 'nothing'}" for tool, found in self.found.items()
        ]
        clauses += [f"{tool} could not look ({why})" for tool, why in self.failed.items()]
        return f"compute-sanitizer {self.version} on {self.workload}: {'; '.join(clauses)}."

    def refusal(self) -> str | None:
        """What memcheck found, in its own words; None: nothing."""
        found = self.found.get("memcheck", ())
        return f"compute-sanitizer's memcheck on {self.workload} found {_quote_findings(found)}." if found else None


def parse_answer(answer: Mapping[str, Any], candidate: str, workload: str) -> SanitizerReport:
    """The payload from what the program beside the device left."""
    found, failed = {}, {}
    for tool, seen in answer.get("tools", {}).items():
        lines = [
            line.removeprefix(TOOL_LINE_PREFIX).rstrip()
            for line in seen["text"].splitlines()
            if line.startswith(TOOL_LINE_PREFIX)
        ]
        complaints = [line.strip() for line in lines if _TOOL_FAILURE.match(line.strip())]
        seen_faults = collect_findings(lines)
        # A faulty kernel also ends its process badly, of which the tool complains: what it found counts all the same.
        if not any(_SUMMARY_LINE.match(line.strip()) for line in lines) or (complaints and not seen_faults):
            said = [line for line in str(seen["said"]).splitlines() if line.strip()]
            failed[tool] = " ".join((complaints or said or ["it gave no reason"])[-1].split())[:200]
        else:
            found[tool] = seen_faults
    return SanitizerReport(
        candidate=candidate,
        workload=workload,
        version=answer.get("version", ""),
        seconds=answer["seconds"],
        missing=answer.get("missing", ""),
        found=found,
        failed=failed,
    )


def collect_findings(lines: list[str]) -> tuple[str, ...]:
    """Each finding once: its headline and where it was, kernel and source line, with how many threads told of it."""
    count_by_finding: Counter[str] = Counter()
    finding = ""
    for line in [*lines, ""]:
        text = line.strip()
        if not text or (not line.startswith("  ") and finding):
            count_by_finding.update([finding] if finding else [])
            finding = ""
        if text and not line.startswith("  "):
            finding = "" if _NOT_A_FINDING.match(text) or _TOOL_FAILURE.match(text) else text
        elif finding and _LOCATION_LINE.match(text):
            finding = f"{finding} {text}"
    return tuple(f"{text} ({times} times)" if times > 1 else text for text, times in count_by_finding.items())


def _quote_findings(found: tuple[str, ...]) -> str:
    more = f", and {len(found) - MAX_QUOTED_FINDINGS} more" if len(found) > MAX_QUOTED_FINDINGS else ""
    return ", ".join(f'"{text}"' for text in found[:MAX_QUOTED_FINDINGS]) + more
