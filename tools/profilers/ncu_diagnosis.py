"""Diagnose why kernels are slow from a report of Nsight Compute alone, without a task, a GPU or timing. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from tools.analysis import bottleneck, rules
from tools.artifacts import Artifact, Bound, Profile, Quantity, Remark
from tools.cli.formatting import format_seconds
from tools.profilers import ncu
from tools.profilers.ncu_reports import Advice, ProfiledLaunch

MIN_ESTIMATED_SPEEDUP_PERCENT = 20.0
"""Least speed-up, in percent, that NVIDIA must estimate to make a finding of a rule that the counters do not decide."""
_SHORT_OF_FULL = f": the busiest unit is {{:.0f}} points short of {bottleneck.FULL_PERCENT:.0f} %"
MARGIN_PHRASES = {
    "latency": _SHORT_OF_FULL,
    "occupancy": _SHORT_OF_FULL,
    "mixed": ": memory and computing are {:.0f} points apart",
}
PAGE_PATH = "knowledge_base/wiki/skills/{}.md"


class ReportFinding(Artifact):
    """A finding: one rule that fires on a kernel."""

    rule: str
    severity: Literal["high", "medium", "low"]
    metrics: dict[str, float]
    """The values that the rule compares."""
    why: str
    action: str
    page: str
    nvidia_advice: str = ""
    """NVIDIA's advice on the same cause, with its estimated speed-up; empty: none."""


class MatchedAdvice(Artifact):
    """One piece of NVIDIA's advice, with the findings that it confirms."""

    kind: str
    rule: str
    text: str
    estimated_speedup: float | None
    """Percent, for the kernel (`global`) or for one unit of the device (`local`)."""
    scope: str
    findings: tuple[str, ...]
    """Rules of our findings on the same cause."""


class KernelDiagnosis(Artifact):
    """The diagnosis of one kernel of a report."""

    name: str
    seconds: float
    """Seconds by the clock of ncu, under the profiler; 0: unknown."""
    bound: Bound
    margin: float | None
    """Percentage points between the bound and the next (mixed: between the two); for latency and occupancy: what the
    busiest unit lacks to be full."""
    findings: tuple[ReportFinding, ...]
    """The most severe first."""
    advice: tuple[MatchedAdvice, ...]
    """The largest estimate first."""
    undecided: dict[str, tuple[str, ...]]
    """Rules that lack counters, by the section of ncu that collects them."""


class ReportDiagnosis(Artifact):
    """The selected kernels of a report, the longest first."""

    kernels: tuple[KernelDiagnosis, ...]


def diagnose_launch(launch: ProfiledLaunch) -> KernelDiagnosis:
    """The diagnosis of one launch from its counters and NVIDIA's advice."""
    metrics = ncu.profile_metrics(launch.metrics)
    remarks = tuple(Remark(tool="ncu", line=0, kind="note", text=str(advice)) for advice in launch.advice)
    findings = rules.evaluate_rules(
        [(Profile(tool="ncu", launch=launch.kernel, source="", metrics=metrics, remarks=remarks), "")], {}
    )
    firing = rules.firing_rules(metrics)
    report_findings = [
        _make_finding(f.text, [rule for rule in firing if rule.id == f.rule], metrics, launch.advice) for f in findings
    ]
    undecided = rules.missing_counters_by_rule(metrics)
    report_findings += _findings_from_advice(undecided, metrics, launch.advice)
    report_findings.sort(key=lambda one: (rules.SEVERITIES.index(one.severity), not one.nvidia_advice))
    found_rules = {one.rule for one in report_findings}
    sections: dict[str, set[str]] = {}
    for rule, missing in undecided.items():
        for metric in missing if rule not in found_rules else ():
            sections.setdefault(ncu.section_of_metric(metric), set()).add(rule)
    bound, margin = bottleneck.find_bound(metrics)
    return KernelDiagnosis(
        name=launch.kernel,
        seconds=launch.seconds,
        bound=bound,
        margin=margin,
        findings=tuple(report_findings),
        advice=tuple(_match_advice(advice, report_findings) for advice in _sort_by_estimate(launch.advice)),
        undecided={name: tuple(sorted(ids)) for name, ids in sorted(sections.items())},
    )


def render_report(report: ReportDiagnosis) -> str:
    """The diagnosis as text for a terminal."""
    paragraphs = [_render_kernel(kernel) for kernel in report.kernels]
    missing_sections = {name: ids for kernel in report.kernels for name, ids in kernel.undecided.items()}
    if missing_sections:
        sections = " ".join(f"--section {name}" for name in sorted(missing_sections))
        paragraphs.append(f"some rules lack counters; to collect them, run ncu with: {sections}")
    return "\n\n".join(paragraphs)


def bound_sentence(kernel: KernelDiagnosis) -> str:
    """One line with the kernel's name, time and bound."""
    margin = (
        "" if kernel.margin is None else MARGIN_PHRASES.get(kernel.bound, " by {:.0f} points").format(kernel.margin)
    )
    time = f" ({format_seconds(kernel.seconds)} under the profiler)" if kernel.seconds else ""
    return f"{kernel.name}{time}: bound by {kernel.bound}{margin}"


def unmatched_lines(kernel: KernelDiagnosis) -> list[str]:
    """One line for each piece of NVIDIA's advice that no finding matches and each section that rules lack."""
    lines = [
        f"NVIDIA only ({advice.rule}{_estimate(advice)}): {advice.text}"
        for advice in kernel.advice
        if advice.kind != "INF" and not advice.findings
    ]
    return lines + [f"undecided without --section {name}: {', '.join(ids)}" for name, ids in kernel.undecided.items()]


def _render_kernel(kernel: KernelDiagnosis) -> str:
    lines = [bound_sentence(kernel)]
    for number, one in enumerate(kernel.findings, 1):
        lines += [f"{number}. {one.rule} ({one.severity}): {one.why}"]
        lines += [f"   do: {one.action}"] if one.action else []
        lines += [f"   NVIDIA agrees: {one.nvidia_advice}"] if one.nvidia_advice else []
        lines += (
            ["   figures: " + ", ".join(f"{name} {value:.4g}" for name, value in one.metrics.items())]
            if one.metrics
            else []
        )
        lines += [f"   page: {one.page}"]
    if not kernel.findings:
        lines.append("no rule fires")
    return "\n".join([*lines, *(f"   {line}" for line in unmatched_lines(kernel))])


def _make_finding(
    why: str, entries: Sequence[rules.Rule], metrics: Mapping[str, Quantity], advice: Sequence[Advice]
) -> ReportFinding:
    matching = next(
        (one for one in _sort_by_estimate(advice) if any(_concerns_rule(one, rule) for rule in entries)), None
    )
    return ReportFinding(
        rule=entries[0].id,
        severity=entries[0].severity,
        metrics={c.metric: metrics[c.metric].value for rule in entries for c in rule.when if c.metric in metrics},
        why=why,
        action=entries[0].action,
        page=PAGE_PATH.format(entries[0].page),
        nvidia_advice=f"{matching.rule}{_estimate(matching)}" if matching else "",
    )


def _findings_from_advice(
    undecided: Mapping[str, tuple[str, ...]], metrics: Mapping[str, Quantity], advice: Sequence[Advice]
) -> list[ReportFinding]:
    """Findings of rules that lack counters, where NVIDIA's rules, which read more counters, report the cause."""
    findings = {}
    for rule in rules.load_rules():
        matching = next(
            (
                one
                for one in _sort_by_estimate(advice)
                if (one.estimated_speedup or 0.0) >= MIN_ESTIMATED_SPEEDUP_PERCENT and _concerns_rule(one, rule)
            ),
            None,
        )
        if rule.id in undecided and rule.id not in findings and matching is not None:
            findings[rule.id] = _make_finding(f"by NVIDIA's rule: {matching.text}", [rule], metrics, advice)
    return list(findings.values())


def _concerns_rule(advice: Advice, rule: rules.Rule) -> bool:
    """Whether the advice matches the pattern of remarks that the rule lists."""
    return rule.remark is not None and re.search(rule.remark, str(advice)) is not None


def _estimate(advice: Advice | MatchedAdvice) -> str:
    """The estimated speed-up as the end of a phrase; empty: NVIDIA estimates none."""
    return "" if advice.estimated_speedup is None else f", estimates {advice.estimated_speedup:g} % {advice.scope}"


def _match_advice(advice: Advice, findings: Sequence[ReportFinding]) -> MatchedAdvice:
    """The advice with the rules of the findings on the same cause."""
    concerned = {rule.id for rule in rules.load_rules() if _concerns_rule(advice, rule)}
    return MatchedAdvice(
        kind=advice.kind,
        rule=advice.rule,
        text=advice.text,
        estimated_speedup=advice.estimated_speedup,
        scope=advice.scope,
        findings=tuple(one.rule for one in findings if one.rule in concerned),
    )


def _sort_by_estimate(advice: Sequence[Advice]) -> list[Advice]:
    """The advice, the largest estimated speed-up first, advice without an estimate last."""
    return sorted(advice, key=lambda one: (one.estimated_speedup is None, -(one.estimated_speedup or 0.0)))
