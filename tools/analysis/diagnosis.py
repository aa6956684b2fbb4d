"""Why is a kernel slow: times, roofline, findings and the compiler's remarks put together for a reader. Nothing is
changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.analysis import rules
from tools.artifacts import Artifact, Bound, Finding, Profile, Quantity, Remark, Task
from tools.cli.formatting import limiter, percent, seconds, si, table
from tools.executors.base import Device
from tools.executors.protocol import ProbedWorkload
from tools.roofline import roofline
from tools.roofline.hardware import Headroom, Roof
from tools.roofline.roofline import Precision

SHOWN = 12
"""Remarks in the text; `--json` has them all."""


class Placed(Artifact):
    """One workload under the roofs."""

    workload: str
    weight: float
    seconds: float | None
    """Of one call; None: there is no kernel to time."""
    flops: float | None
    unique_bytes: int
    roof_s: float | None
    """Seconds in which the roofs would do it."""
    bound: Bound
    headroom: Headroom | None
    """None: it was not timed."""


class Roofline(Artifact):
    """A task under the roofs of a device."""

    task: str
    device: str
    roofs: tuple[Roof, ...]
    precision: Precision = "float32"
    """In which the task lets its arithmetic be done."""
    workloads: tuple[Placed, ...]
    remark: str = ""
    """What could not be said, and why."""


class Diagnosis(Artifact):
    """What is known of a kernel's slowness."""

    headline: str
    """One sentence: what binds, how far the roof is, the largest lack."""
    roofline: Roofline
    bottleneck: Bound
    headroom: Headroom
    """Of the whole objective."""
    findings: tuple[Finding, ...]
    """Most important first; `evidence` names records, kept with --store."""
    profiles: tuple[Profile, ...]
    missing: dict[str, str]
    """Profiler -> why it saw nothing."""


def place(
    task: Task, seen: Sequence[ProbedWorkload], times: Mapping[str, float], roofs: tuple[Roof, ...], device: Device
) -> Roofline:
    """Each workload under the roofs. `times`: workload -> seconds; empty where there is no kernel."""
    kind = roofline.precision(task)
    rows = []
    for w in seen:
        roof_s, bound = roofline.roof_time(w.flops, w.unique_bytes, roofs, kind)
        taken = times.get(w.name)
        gap = None if taken is None else roofline.headroom(w.flops, w.unique_bytes, taken, roofs, kind)
        rows.append(
            Placed(
                workload=w.name,
                weight=w.weight,
                seconds=taken,
                flops=w.flops,
                unique_bytes=w.unique_bytes,
                roof_s=roof_s,
                bound=bound,
                headroom=gap,
            )
        )
    remark = (
        ""
        if times
        else "There is no kernel, so nothing was timed: the roof's time is what the reference's operations and "
        "bytes allow."
    )
    if any(w.flops is None for w in seen):
        remark += " The reference's operations could not be counted, so that only its bytes are held against a roof."
    return Roofline(
        task=task.name, device=device.name, roofs=roofs, precision=kind, workloads=tuple(rows), remark=remark.strip()
    )


def diagnose(
    placed: Roofline, profiles: Sequence[tuple[Profile, str]], missing: Mapping[str, str], device: Device
) -> Diagnosis:
    """What times and profiles (each with its record's id, or none) say together."""
    timed = [(w, w.headroom, w.seconds) for w in placed.workloads if w.headroom is not None and w.seconds is not None]
    largest, gap, taken = max(timed, key=lambda row: row[0].weight * row[2])
    facts: dict[str, Quantity] = dict(
        roofline.facts(gap, device, largest.unique_bytes, taken, placed.roofs, placed.precision)
    )
    findings = rules.evaluate(profiles, facts)
    whole = roofline.whole([(w.weight, s, h) for w, h, s in timed])
    bottleneck = rules.bottleneck(findings, whole)
    return Diagnosis(
        headline=_headline(placed, bottleneck, whole, findings),
        roofline=placed,
        bottleneck=bottleneck,
        headroom=whole,
        findings=findings,
        profiles=tuple(profile for profile, _ in profiles),
        missing=dict(missing),
    )


def _headline(placed: Roofline, bottleneck: Bound, whole: Headroom, findings: Sequence[Finding]) -> str:
    if whole.total is None:
        reached = "how far the roof is cannot be said, for none is known here"
    else:
        origin = "measured" if any(roof.origin == "measured" for roof in placed.roofs) else "cited"
        reached = f"{percent(1 - whole.total)} of the {origin} roof"
    lack = (
        f"the largest lack is {findings[0].rule}: {findings[0].text.rstrip('.')}"
        if findings
        else "no rule names a lack"
    )
    return f"{placed.task}: {limiter(bottleneck)}, {reached}; {lack}."


def roofline_text(placed: Roofline) -> str:
    """A table of the workloads, and the roofs with where they come from."""
    head = ("workload", "time", "operations", "bytes", "op/byte", "roof's time", "of the roof", "roof's bound")
    rows = [head]
    for w in placed.workloads:
        intensity = f"{w.flops / w.unique_bytes:.3g}" if w.flops is not None and w.unique_bytes else "N/A"
        total = w.headroom.total if w.headroom else None
        share = percent(None if total is None else 1 - total)
        rows.append(
            (
                w.workload,
                seconds(w.seconds),
                si(w.flops),
                si(w.unique_bytes, "B"),
                intensity,
                seconds(w.roof_s),
                share,
                w.bound,
            )
        )
    roofs = [
        f"  {roof.metric:<18} {si(roof.value, roof.unit) if roof.unit != 's' else seconds(roof.value)}, {_origin(roof)}"
        for roof in placed.roofs
    ]
    lines = [table(rows), "", f"roofs of {placed.device}:", *(roofs or ["  none is known here"])]
    return "\n".join([*lines, *(["", placed.remark] if placed.remark else [])])


def utilisation_text(task: Task, placed: Roofline, cited: Sequence[Roof]) -> str:
    """What each workload reaches of memory's and arithmetic's roofs, the measured and the cited ones: a table, and
    whence the cited are."""
    kind, measured = roofline.precision(task), [roof for roof in placed.roofs if roof.origin == "measured"]
    rows: list[tuple[str, ...]] = [
        ("workload", "time", "bytes", "of measured", "of cited", "operations", "of measured", "of cited")
    ]
    for w in placed.workloads:
        cells = [w.workload, seconds(w.seconds)]
        for count, unit in ((w.unique_bytes, "B/s"), (w.flops, "op/s")):
            rate = count / w.seconds if count is not None and w.seconds else None
            cells.append(si(rate, unit))
            for roofs in (measured, cited):
                roof = roofline.best(roofs, "memory_bandwidth") if unit == "B/s" else roofline.peak(roofs, kind)
                cells.append(percent(rate / roof.value if rate is not None and roof else None))
        rows.append(tuple(cells))
    return "\n".join([table(rows), *(f"{roof.metric}: {si(roof.value, roof.unit)}, {_origin(roof)}" for roof in cited)])


def _origin(roof: Roof) -> str:
    doubt = f" ({roof.doubt})" if roof.doubt else ""
    return f"measured here, record {roof.source}{doubt}" if roof.origin == "measured" else f"cited: {roof.source}"


def text(found: Diagnosis, language: str, *, kept: bool) -> str:
    """For people: the headline, the roofline, each finding with what it rests on, what the compiler says, and where to
    go on.

    `kept`: the records that are named outlive this.
    """
    lines = [found.headline, "", roofline_text(found.roofline), ""]
    for number, finding in enumerate(found.findings, 1):
        where = f", line {finding.line}" if finding.line else ""
        lines += [f"{number}. {finding.rule} ({finding.severity}, {finding.axis}{where})", f"   {finding.text}"]
        lines += [f"   {remark.tool}, line {remark.line}: {remark.text}" for remark in _of(finding, found)]
        lines += [f"   evidence: {', '.join(f'record {r}' for r in finding.evidence) or 'the roofline above'}"]
    remarks = [r for profile in found.profiles for r in profile.remarks if r.kind != "applied"]
    if remarks:
        more = f" (the first {SHOWN} of {len(remarks)})" if len(remarks) > SHOWN else ""
        lines += ["", f"the compiler and the machine code{more}:"]
        lines += [f"  {r.tool}{f', line {r.line}' if r.line else ''}: {r.text}" for r in remarks[:SHOWN]]
    lines += ["", *(f"{name}: N/A, {why}" for name, why in found.missing.items())] if found.missing else []
    named = " ".join(dict.fromkeys(finding.rule for finding in found.findings))
    if named:
        lines += ["", f"pages about these: python -m knowledge_base pages --language {language} {named}"]
    return "\n".join(
        [*lines, *([] if kept else ["the records named here are kept with --store DIR in front of the verb"])]
    )


def _of(finding: Finding, found: Diagnosis) -> tuple[Remark, ...]:
    """The remark at the finding's line that speaks of something missed."""
    if not finding.line:
        return ()
    at = (r for profile in found.profiles for r in profile.remarks if r.line == finding.line and r.kind == "missed")
    return tuple(at)[:1]
