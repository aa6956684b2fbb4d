"""Why is a kernel slow, from a report of Nsight Compute alone: no task, no GPU, no times of ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from tools.analysis import rules
from tools.artifacts import Artifact, Bound, Profile, Quantity, Remark
from tools.cli.formatting import format_seconds
from tools.profilers import ncu
from tools.profilers.ncu_reports import Advice, ProfiledLaunch

FULL_PERCENT = 60.0
"""Per cent of a peak below which neither memory nor computing binds, but latency: the threshold of NVIDIA's own rule
SOLBottleneck."""
NEARLY_FULL_PERCENT, BALANCED_POINTS = 80.0, 10.0
"""Per cent from which that rule calls a unit full, and points within which it calls two balanced."""
IDLE_SHARE = 0.2
"""Share of the time that multiprocessors stand idle from which it is looked at; the rule partial_wave has the same."""
MIN_ESTIMATED_SPEEDUP_PERCENT = 20.0
"""Per cent of speed-up from which NVIDIA's estimate alone makes a finding of a rule that the counters leave open."""
_SHORT_OF_FULL = f": the busiest unit is {{:.0f}} points short of {FULL_PERCENT:.0f} %"
MARGIN_PHRASES = {
    "latency": _SHORT_OF_FULL,
    "occupancy": _SHORT_OF_FULL,
    "mixed": ": memory and computing are {:.0f} points apart",
}
PAGE_PATH = "knowledge_base/wiki/skills/{}.md"


class ReportFinding(Artifact):
    """One finding."""

    rule: str
    severity: Literal["high", "medium", "low"]
    metrics: dict[str, float]
    """What the rule read."""
    why: str
    action: str
    page: str
    agrees: str = ""
    """NVIDIA's own advice on the same, with the speed-up that it estimates."""


class MatchedAdvice(Artifact):
    """One piece of NVIDIA's own advice."""

    kind: str
    rule: str
    text: str
    estimated_speedup: float | None
    """Percent, of the kernel (`global`) or of the unit spoken of (`local`)."""
    scope: str
    findings: tuple[str, ...]
    """Ours that say the same."""


class KernelDiagnosis(Artifact):
    """One kernel of a report."""

    name: str
    seconds: float
    """By ncu's clock, under the profiler; 0: not told."""
    bound: Bound
    margin: float | None
    """Points of per cent by which the bound stands before the next (mixed: between the two); for latency and
    occupancy: by which the busiest unit falls short of being full."""
    findings: tuple[ReportFinding, ...]
    """Most important first."""
    advice: tuple[MatchedAdvice, ...]
    """The largest estimate first."""
    undecided: dict[str, tuple[str, ...]]
    """Section of ncu -> rules that need it to be decided."""


class ReportDiagnosis(Artifact):
    """All kernels that were asked for, the longest first."""

    kernels: tuple[KernelDiagnosis, ...]


def diagnose_launch(launch: ProfiledLaunch) -> KernelDiagnosis:
    """What the counters of one launch and NVIDIA's advice say together."""
    metrics = ncu.profile_metrics(launch.metrics)
    remarks = tuple(Remark(tool="ncu", line=0, kind="note", text=str(said)) for said in launch.advice)
    findings = rules.evaluate_rules(
        [(Profile(tool="ncu", launch=launch.kernel, source="", metrics=metrics, remarks=remarks), "")], {}
    )
    holding = rules.firing_rules(metrics)
    found = [
        _make_finding(f.text, [rule for rule in holding if rule.id == f.rule], metrics, launch.advice) for f in findings
    ]
    undecided = rules.missing_counters_by_rule(metrics)
    found += _findings_from_advice(undecided, metrics, launch.advice)
    found.sort(key=lambda one: (rules.SEVERITIES.index(one.severity), not one.agrees))
    named = {one.rule for one in found}
    sections: dict[str, set[str]] = {}
    for rule, lacking in undecided.items():
        for metric in lacking if rule not in named else ():
            sections.setdefault(ncu.section_of_metric(metric), set()).add(rule)
    bound, margin = find_bound(metrics)
    return KernelDiagnosis(
        name=launch.kernel,
        seconds=launch.seconds,
        bound=bound,
        margin=margin,
        findings=tuple(found),
        advice=tuple(_match_advice(said, found) for said in _sort_by_estimate(launch.advice)),
        undecided={name: tuple(sorted(ids)) for name, ids in sorted(sections.items())},
    )


def find_bound(metrics: Mapping[str, Quantity]) -> tuple[Bound, float | None]:
    """What binds, and by how much.

    `memory` or `compute`, whichever has the busier unit over the time of the kernel; `mixed` where both are as full as
    NVIDIA's rule tells apart. Where nothing is full, `occupancy` if there are blocks for all multiprocessors and more
    is lost by those that stand idle than by how little the others do; else `latency`.
    """

    def largest(names: Sequence[str]) -> float | None:
        return max((metrics[name].value for name in names if name in metrics), default=None)

    active, elapsed, blocks = (
        largest([name])
        for name in ("sm__cycles_active.avg", "gpc__cycles_elapsed.max", "ncu.blocks_per_multiprocessor")
    )
    share = min(active / elapsed, 1.0) if active and elapsed else 1.0
    """Of the time, in which a multiprocessor has work; what is counted while it has some does not bind in the rest."""
    memory = largest(ncu.MEMORY_BUSY_METRICS)
    # The multiprocessor's own figure counts the units that load and store among those that compute.
    arithmetic = [ncu.PIPE_METRIC.format(pipe) for pipe in ncu.ARITHMETIC_PIPES]
    counts_pipes = any(name in metrics for name in arithmetic)
    computing = (
        largest([ncu.COMPUTE_BUSY_METRIC])
        if not counts_pipes
        else (largest([*arithmetic, ncu.TENSOR_PIPE_METRIC]) or 0.0) * share
    )
    if memory is None or computing is None:
        return "unknown", None
    issued = (largest([ncu.ISSUE_METRIC]) or 0.0) * share
    busiest = max(memory, computing)
    if busiest < FULL_PERCENT <= NEARLY_FULL_PERCENT <= issued:
        return "compute", issued - memory
    if busiest < FULL_PERCENT:
        idle = blocks is not None and blocks >= 1 and share <= 1 - IDLE_SHARE and busiest > FULL_PERCENT * share**2
        return ("occupancy" if idle else "latency"), FULL_PERCENT - busiest
    gap = abs(memory - computing)
    both_full = all(
        min(memory, computing) >= limit for limit in (FULL_PERCENT, NEARLY_FULL_PERCENT) if busiest >= limit
    )
    if counts_pipes and both_full and gap < BALANCED_POINTS:
        return "mixed", gap
    return ("memory" if memory >= computing else "compute"), gap


def render_report(report: ReportDiagnosis) -> str:
    """For people."""
    blocks = [_render_kernel(kernel) for kernel in report.kernels]
    lacking = {name: ids for kernel in report.kernels for name, ids in kernel.undecided.items()}
    if lacking:
        sections = " ".join(f"--section {name}" for name in sorted(lacking))
        blocks.append(f"some rules could not be decided for lack of counters; to collect them: ncu {sections}")
    return "\n\n".join(blocks)


def bound_sentence(kernel: KernelDiagnosis) -> str:
    """Name, time and bound in a line."""
    told = "" if kernel.margin is None else MARGIN_PHRASES.get(kernel.bound, " by {:.0f} points").format(kernel.margin)
    took = f" ({format_seconds(kernel.seconds)} under the profiler)" if kernel.seconds else ""
    return f"{kernel.name}{took}: bound by {kernel.bound}{told}"


def unmatched_lines(kernel: KernelDiagnosis) -> list[str]:
    """What NVIDIA advises beside the findings, and what could not be decided, a line each."""
    lines = []
    for said in kernel.advice:
        if said.kind != "INF" and not said.findings:
            gain = "" if said.estimated_speedup is None else f", estimates {said.estimated_speedup:g} % {said.scope}"
            lines.append(f"NVIDIA alone ({said.rule}{gain}): {said.text}")
    return lines + [f"undecided without --section {name}: {', '.join(ids)}" for name, ids in kernel.undecided.items()]


def _render_kernel(kernel: KernelDiagnosis) -> str:
    lines = [bound_sentence(kernel)]
    for number, one in enumerate(kernel.findings, 1):
        lines += [f"{number}. {one.rule} ({one.severity}): {one.why}"]
        lines += [f"   do: {one.action}"] if one.action else []
        lines += [f"   NVIDIA agrees: {one.agrees}"] if one.agrees else []
        lines += (
            ["   figures: " + ", ".join(f"{name} {value:.4g}" for name, value in one.metrics.items())]
            if one.metrics
            else []
        )
        lines += [f"   page: {one.page}"]
    if not kernel.findings:
        lines.append("no rule names a lack")
    return "\n".join([*lines, *(f"   {line}" for line in unmatched_lines(kernel))])


def _make_finding(
    why: str, entries: Sequence[rules.Rule], metrics: Mapping[str, Quantity], advice: Sequence[Advice]
) -> ReportFinding:
    said = next(
        (said for said in _sort_by_estimate(advice) if any(_concerns_rule(said, rule) for rule in entries)), None
    )
    return ReportFinding(
        rule=entries[0].id,
        severity=entries[0].severity,
        metrics={c.metric: metrics[c.metric].value for rule in entries for c in rule.when if c.metric in metrics},
        why=why,
        action=entries[0].action,
        page=PAGE_PATH.format(entries[0].page),
        agrees=f"{said.rule}{'' if said.gain is None else f', estimates {said.gain:g} % {said.scope}'}" if said else "",
    )


def _findings_from_advice(
    undecided: Mapping[str, tuple[str, ...]], metrics: Mapping[str, Quantity], advice: Sequence[Advice]
) -> list[ReportFinding]:
    """Rules that the counters leave open and NVIDIA's rules, which saw more of them, decide."""
    found = {}
    for rule in rules.load_rules():
        said = next(
            (
                said
                for said in _sort_by_estimate(advice)
                if (said.gain or 0.0) >= MIN_ESTIMATED_SPEEDUP_PERCENT and _concerns_rule(said, rule)
            ),
            None,
        )
        if rule.id in undecided and rule.id not in found and said is not None:
            found[rule.id] = _make_finding(f"by NVIDIA's own rule: {said.text}", [rule], metrics, advice)
    return list(found.values())


def _concerns_rule(said: Advice, rule: rules.Rule) -> bool:
    return rule.remark is not None and re.search(rule.remark, str(said)) is not None


def _match_advice(said: Advice, found: Sequence[ReportFinding]) -> MatchedAdvice:
    named = {rule.id for rule in rules.load_rules() if _concerns_rule(said, rule)}
    same = tuple(one.rule for one in found if one.rule in named)
    return MatchedAdvice(
        kind=said.kind, rule=said.rule, text=said.text, estimated_speedup=said.gain, scope=said.scope, findings=same
    )


def _sort_by_estimate(advice: Sequence[Advice]) -> list[Advice]:
    return sorted(advice, key=lambda said: (said.gain is None, -(said.gain or 0.0)))
