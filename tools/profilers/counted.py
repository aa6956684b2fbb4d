"""Why is a kernel slow, from a report of Nsight Compute alone: no task, no GPU, no times of ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from tools.analysis import rules
from tools.artifacts import Artifact, Bound, Profile, Quantity, Remark
from tools.cli.formatting import format_seconds
from tools.profilers import ncu
from tools.profilers.reports import Advice, Launch

FULL = 60.0
"""Per cent of a peak below which neither memory nor computing binds, but latency: the threshold of NVIDIA's own rule
SOLBottleneck."""
NEARLY_ALL, BALANCED = 80.0, 10.0
"""Per cent from which that rule calls a unit full, and points within which it calls two balanced."""
IDLE = 0.2
"""Share of the time that multiprocessors stand idle from which it is looked at; the rule partial_wave has the same."""
WORTH = 20.0
"""Per cent of speed-up from which NVIDIA's estimate alone makes a finding of a rule that the counters leave open."""
_SHORT = f": the busiest unit is {{:.0f}} points short of {FULL:.0f} %"
MARGINS = {"latency": _SHORT, "occupancy": _SHORT, "mixed": ": memory and computing are {:.0f} points apart"}
PAGE = "knowledge_base/wiki/skills/{}.md"


class Found(Artifact):
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


class Said(Artifact):
    """One piece of NVIDIA's own advice."""

    kind: str
    rule: str
    text: str
    estimated_speedup: float | None
    """Percent, of the kernel (`global`) or of the unit spoken of (`local`)."""
    scope: str
    findings: tuple[str, ...]
    """Ours that say the same."""


class Kernel(Artifact):
    """One kernel of a report."""

    name: str
    seconds: float
    """By ncu's clock, under the profiler; 0: not told."""
    bound: Bound
    margin: float | None
    """Points of per cent by which the bound stands before the next (mixed: between the two); for latency and
    occupancy: by which the busiest unit falls short of being full."""
    findings: tuple[Found, ...]
    """Most important first."""
    advice: tuple[Said, ...]
    """The largest estimate first."""
    undecided: dict[str, tuple[str, ...]]
    """Section of ncu -> rules that need it to be decided."""


class Report(Artifact):
    """All kernels that were asked for, the longest first."""

    kernels: tuple[Kernel, ...]


def diagnose(launch: Launch) -> Kernel:
    """What the counters of one launch and NVIDIA's advice say together."""
    metrics = ncu.kept(launch.metrics)
    remarks = tuple(Remark(tool="ncu", line=0, kind="note", text=str(said)) for said in launch.advice)
    findings = rules.evaluate_rules(
        [(Profile(tool="ncu", launch=launch.kernel, source="", metrics=metrics, remarks=remarks), "")], {}
    )
    holding = rules.firing_rules(metrics)
    found = [_found(f.text, [rule for rule in holding if rule.id == f.rule], metrics, launch.advice) for f in findings]
    undecided = rules.missing_counters_by_rule(metrics)
    found += _by_advice(undecided, metrics, launch.advice)
    found.sort(key=lambda one: (rules.SEVERITIES.index(one.severity), not one.agrees))
    named = {one.rule for one in found}
    sections: dict[str, set[str]] = {}
    for rule, lacking in undecided.items():
        for metric in lacking if rule not in named else ():
            sections.setdefault(ncu.section(metric), set()).add(rule)
    bound, margin = bound_of(metrics)
    return Kernel(
        name=launch.kernel,
        seconds=launch.seconds,
        bound=bound,
        margin=margin,
        findings=tuple(found),
        advice=tuple(_said(said, found) for said in _ranked(launch.advice)),
        undecided={name: tuple(sorted(ids)) for name, ids in sorted(sections.items())},
    )


def bound_of(metrics: Mapping[str, Quantity]) -> tuple[Bound, float | None]:
    """What binds, and by how much.

    `memory` or `compute`, whichever has the busier unit over the time of the kernel; `mixed` where both are as full as
    NVIDIA's rule tells apart. Where nothing is full, `occupancy` if there are blocks for all multiprocessors and more
    is lost by those that stand idle than by how little the others do; else `latency`.
    """

    def most(names: Sequence[str]) -> float | None:
        return max((metrics[name].value for name in names if name in metrics), default=None)

    active, elapsed, blocks = (
        most([name]) for name in ("sm__cycles_active.avg", "gpc__cycles_elapsed.max", "ncu.blocks_per_multiprocessor")
    )
    share = min(active / elapsed, 1.0) if active and elapsed else 1.0
    """Of the time, in which a multiprocessor has work; what is counted while it has some does not bind in the rest."""
    memory = most(ncu.BUSY_MEMORY)
    # The multiprocessor's own figure counts the units that load and store among those that compute.
    arithmetic = [ncu.PIPE.format(pipe) for pipe in ncu.ARITHMETIC]
    known = any(name in metrics for name in arithmetic)
    computing = most([ncu.BUSY_COMPUTING]) if not known else (most([*arithmetic, ncu.TENSOR]) or 0.0) * share
    if memory is None or computing is None:
        return "unknown", None
    issued = (most([ncu.ISSUED]) or 0.0) * share
    busiest = max(memory, computing)
    if busiest < FULL <= NEARLY_ALL <= issued:
        return "compute", issued - memory
    if busiest < FULL:
        idle = blocks is not None and blocks >= 1 and share <= 1 - IDLE and busiest > FULL * share**2
        return ("occupancy" if idle else "latency"), FULL - busiest
    gap = abs(memory - computing)
    alike = all(min(memory, computing) >= limit for limit in (FULL, NEARLY_ALL) if busiest >= limit)
    if known and alike and gap < BALANCED:
        return "mixed", gap
    return ("memory" if memory >= computing else "compute"), gap


def text(report: Report) -> str:
    """For people."""
    blocks = [_kernel(kernel) for kernel in report.kernels]
    lacking = {name: ids for kernel in report.kernels for name, ids in kernel.undecided.items()}
    if lacking:
        sections = " ".join(f"--section {name}" for name in sorted(lacking))
        blocks.append(f"some rules could not be decided for lack of counters; to collect them: ncu {sections}")
    return "\n\n".join(blocks)


def verdict(kernel: Kernel) -> str:
    """Name, time and bound in a line."""
    told = "" if kernel.margin is None else MARGINS.get(kernel.bound, " by {:.0f} points").format(kernel.margin)
    took = f" ({format_seconds(kernel.seconds)} under the profiler)" if kernel.seconds else ""
    return f"{kernel.name}{took}: bound by {kernel.bound}{told}"


def others(kernel: Kernel) -> list[str]:
    """What NVIDIA advises beside the findings, and what could not be decided, a line each."""
    lines = []
    for said in kernel.advice:
        if said.kind != "INF" and not said.findings:
            gain = "" if said.estimated_speedup is None else f", estimates {said.estimated_speedup:g} % {said.scope}"
            lines.append(f"NVIDIA alone ({said.rule}{gain}): {said.text}")
    return lines + [f"undecided without --section {name}: {', '.join(ids)}" for name, ids in kernel.undecided.items()]


def _kernel(kernel: Kernel) -> str:
    lines = [verdict(kernel)]
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
    return "\n".join([*lines, *(f"   {line}" for line in others(kernel))])


def _found(why: str, entries: Sequence[rules.Rule], metrics: Mapping[str, Quantity], advice: Sequence[Advice]) -> Found:
    said = next((said for said in _ranked(advice) if any(_speaks(said, rule) for rule in entries)), None)
    return Found(
        rule=entries[0].id,
        severity=entries[0].severity,
        metrics={c.metric: metrics[c.metric].value for rule in entries for c in rule.when if c.metric in metrics},
        why=why,
        action=entries[0].action,
        page=PAGE.format(entries[0].page),
        agrees=f"{said.rule}{'' if said.gain is None else f', estimates {said.gain:g} % {said.scope}'}" if said else "",
    )


def _by_advice(
    undecided: Mapping[str, tuple[str, ...]], metrics: Mapping[str, Quantity], advice: Sequence[Advice]
) -> list[Found]:
    """Rules that the counters leave open and NVIDIA's rules, which saw more of them, decide."""
    found = {}
    for rule in rules.load_rules():
        said = next((said for said in _ranked(advice) if (said.gain or 0.0) >= WORTH and _speaks(said, rule)), None)
        if rule.id in undecided and rule.id not in found and said is not None:
            found[rule.id] = _found(f"by NVIDIA's own rule: {said.text}", [rule], metrics, advice)
    return list(found.values())


def _speaks(said: Advice, rule: rules.Rule) -> bool:
    return rule.remark is not None and re.search(rule.remark, str(said)) is not None


def _said(said: Advice, found: Sequence[Found]) -> Said:
    named = {rule.id for rule in rules.load_rules() if _speaks(said, rule)}
    same = tuple(one.rule for one in found if one.rule in named)
    return Said(
        kind=said.kind, rule=said.rule, text=said.text, estimated_speedup=said.gain, scope=said.scope, findings=same
    )


def _ranked(advice: Sequence[Advice]) -> list[Advice]:
    return sorted(advice, key=lambda said: (said.gain is None, -(said.gain or 0.0)))
