"""Reads compute-sanitizer's output for one call of a kernel (pure): findings of memcheck reject the kernel, those of
the other tools are remarks."""

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
    """Seconds of all tools together, which run at the same time."""
    missing: str = ""
    """Why no tool ran; empty if one did."""
    found: dict[str, tuple[str, ...]] = {}
    """Tool -> its findings, for the tools that finished."""
    failed: dict[str, str] = {}
    """Tool -> why it did not finish."""

    def sentence(self) -> str:
        """Return the findings as a sentence, for a kernel that memcheck does not reject."""
        if self.missing:
            return f"Memory errors on the device were not checked: {self.missing.rstrip('.')}."
        clauses = [
            f"{tool} found {_quote_findings(found) if found else 'nothing'}" for tool, found in self.found.items()
        ]
        clauses += [f"{tool} could not run ({why})" for tool, why in self.failed.items()]
        return f"compute-sanitizer {self.version} on {self.workload}: {'; '.join(clauses)}."

    def refusal(self) -> str | None:
        """Return memcheck's findings as a sentence; None if there are none."""
        found = self.found.get("memcheck", ())
        return f"compute-sanitizer's memcheck on {self.workload} found {_quote_findings(found)}." if found else None


def parse_answer(answer: Mapping[str, Any], candidate: str, workload: str) -> SanitizerReport:
    """Return the payload of the record from the harness's answer."""
    found, failed = {}, {}
    for tool, result in answer.get("tools", {}).items():
        lines = [
            line.removeprefix(TOOL_LINE_PREFIX).rstrip()
            for line in result["text"].splitlines()
            if line.startswith(TOOL_LINE_PREFIX)
        ]
        failures = [line.strip() for line in lines if _TOOL_FAILURE.match(line.strip())]
        findings = collect_findings(lines)
        # A faulty kernel also crashes its process, which the tool reports as a failure; its findings still count.
        if not any(_SUMMARY_LINE.match(line.strip()) for line in lines) or (failures and not findings):
            output = [line for line in str(result["said"]).splitlines() if line.strip()]
            failed[tool] = " ".join((failures or output or ["it gave no reason"])[-1].split())[:200]
        else:
            found[tool] = findings
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
    """Return each finding once: its headline and location (kernel and source line), with the number of threads that
    reported it."""
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
    return tuple(f"{text} ({count} times)" if count > 1 else text for text, count in count_by_finding.items())


def _quote_findings(found: tuple[str, ...]) -> str:
    more = f", and {len(found) - MAX_QUOTED_FINDINGS} more" if len(found) > MAX_QUOTED_FINDINGS else ""
    return ", ".join(f'"{text}"' for text in found[:MAX_QUOTED_FINDINGS]) + more
