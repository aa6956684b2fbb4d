"""Explains why a kernel is slow: times, roofline, findings and the compiler's remarks for a reader. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.analysis import bottleneck, rules
from tools.artifacts import Artifact, Bound, Finding, Profile, Remark, Task
from tools.cli.formatting import describe_bottleneck, format_percent, format_seconds, format_si, format_table
from tools.executors.base import Device
from tools.executors.protocol import ProbedWorkload
from tools.roofline import roofline
from tools.roofline.hardware import Headroom, Roof
from tools.roofline.roofline import Precision

MAX_SHOWN_REMARKS = 12
"""Remarks that the text shows; `--json` has all of them."""


class WorkloadRoofline(Artifact):
    """One workload under the roofs."""

    workload: str
    weight: float
    seconds: float | None
    """Seconds of one call; None if there is no kernel to time."""
    flops: float | None
    unique_bytes: int
    roof_s: float | None
    """Seconds of one call at the roofs."""
    bound: Bound
    headroom: Headroom | None
    """None if the workload was not timed."""


class TaskRoofline(Artifact):
    """A task under the roofs of a device."""

    task: str
    device: str
    roofs: tuple[Roof, ...]
    precision: Precision = "float32"
    """The type of the compute roof, which follows from the task's precision."""
    workloads: tuple[WorkloadRoofline, ...]
    remark: str = ""
    """What is missing, with the reason; empty if nothing is missing."""


def profiled_workloads(
    workloads: Sequence[ProbedWorkload], headrooms: Mapping[str, Headroom | None]
) -> tuple[str, ...]:
    """Return the names of the workloads to profile: the one with most weight (of equals, with most bytes), then, if it
    is another, the one farthest from its roof."""
    heaviest = max(workloads, key=lambda one: (one.weight, one.unique_bytes)).name
    gaps = {name: room.total for name, room in headrooms.items() if room and room.total is not None}
    return tuple(dict.fromkeys((heaviest, max(gaps, key=gaps.__getitem__, default=heaviest))))


def figured_workloads(heaviest: str, profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Return the workloads whose facts rules read: `heaviest` and the others with a profile of their own."""
    return tuple(dict.fromkeys((heaviest, *(profile.workload for profile in profiles if profile.workload))))


class Diagnosis(Artifact):
    """The reasons why a kernel is slow, with their evidence."""

    headline: str
    """One sentence: the bottleneck, the share of the roof, the most important finding."""
    roofline: TaskRoofline
    bottleneck: Bound
    headroom: Headroom
    """Headroom of the whole objective."""
    findings: tuple[Finding, ...]
    """Findings, most important first; `evidence` names records, which `--store` keeps."""
    profiles: tuple[Profile, ...]
    missing: dict[str, str]
    """Profiler -> the reason why it collected nothing."""


def compute_task_roofline(
    task: Task, seen: Sequence[ProbedWorkload], times: Mapping[str, float], roofs: tuple[Roof, ...], device: Device
) -> TaskRoofline:
    """Return each workload with its time at the roofs. `times` maps a workload to seconds; it is empty without a
    kernel."""
    kind = roofline.roof_precision(task)
    rows = []
    for w in seen:
        roof_s, bound = roofline.roof_time(w.flops, w.unique_bytes, roofs, kind)
        taken = times.get(w.name)
        gap = None if taken is None else roofline.compute_headroom(w.flops, w.unique_bytes, taken, roofs, kind)
        rows.append(
            WorkloadRoofline(
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
        else "There is no kernel, so nothing was timed: the roof's time follows from the reference's operations and "
        "bytes."
    )
    if any(w.flops is None for w in seen):
        remark += " The reference's operations could not be counted, so only its bytes are compared with a roof."
    for row in rows:
        if why := roofline.reason_faster_than_roof(row.seconds, row.roof_s, row.bound):
            remark += f" {row.workload}: {why}"
    return TaskRoofline(
        task=task.name, device=device.name, roofs=roofs, precision=kind, workloads=tuple(rows), remark=remark.strip()
    )


def diagnose(
    placed: TaskRoofline,
    profiles: Sequence[tuple[Profile, str]],
    missing: Mapping[str, str],
    device: Device,
    heaviest: str,
) -> Diagnosis:
    """Combine times and profiles (each with its record's id, or an empty one) into a diagnosis. `heaviest`: the
    workload with most weight."""
    timed = {w.workload: (w, w.headroom, w.seconds) for w in placed.workloads if w.headroom and w.seconds}
    seen = [profile for profile, _ in profiles]
    facts = {
        name: roofline.roofline_facts(gap, device, row.unique_bytes, taken, placed.roofs, placed.precision)
        for name in figured_workloads(heaviest, seen)
        for row, gap, taken in [timed[name]]
    }
    findings = rules.evaluate_workloads(profiles, facts)
    whole = roofline.combine_headrooms([(w.weight, s, h) for w, h, s in timed.values()])
    limit = bottleneck.find_bottleneck(findings, whole, seen)
    return Diagnosis(
        headline=_headline(placed, limit, whole, findings),
        roofline=placed,
        bottleneck=limit,
        headroom=whole,
        findings=findings,
        profiles=tuple(seen),
        missing=dict(missing),
    )


def _headline(placed: TaskRoofline, limit: Bound, whole: Headroom, findings: Sequence[Finding]) -> str:
    if whole.total is None:
        reached = f"the distance to the roof is unknown, because none is known here for {placed.precision}"
    else:
        origin = "measured" if any(roof.origin == "measured" for roof in placed.roofs) else "cited"
        reached = f"{format_percent(1 - whole.total)} of the {origin} roof"
    lack = f"the main finding is {findings[0].rule}: {findings[0].text.rstrip('.')}" if findings else "no rule fired"
    return f"{placed.task}: {describe_bottleneck(limit)}, {reached}; {lack}."


def describe_call(profile: Profile) -> str:
    """Return the workload of a profiled call and its launches in order, each with its share of the time and its seconds
    under the profiler."""
    rows = [
        f"{at}. {one.name}{'' if one.own else ' (a library)'} {one.share:.0%}, {format_seconds(one.seconds)}"
        for at, one in enumerate(profile.launches, 1)
    ]
    return f"one call at {profile.workload}, its launches under the profiler: {'; '.join(rows)}"


def render_roofline(placed: TaskRoofline) -> str:
    """Return a table of the workloads, and the roofs with their origin."""
    head = ("workload", "time", "operations", "bytes", "op/byte", "roof's time", "of the roof", "roof's bound")
    rows = [head]
    for w in placed.workloads:
        intensity = f"{w.flops / w.unique_bytes:.3g}" if w.flops is not None and w.unique_bytes else "N/A"
        total = w.headroom.total if w.headroom else None
        share = format_percent(None if total is None else 1 - total)
        rows.append(
            (
                w.workload,
                format_seconds(w.seconds),
                format_si(w.flops),
                format_si(w.unique_bytes, "B"),
                intensity,
                format_seconds(w.roof_s),
                share,
                w.bound,
            )
        )
    roofs = [
        f"  {roof.metric:<18} "
        f"{format_si(roof.value, roof.unit) if roof.unit != 's' else format_seconds(roof.value)}, {_origin(roof)}"
        for roof in placed.roofs
    ]
    lines = [format_table(rows), "", f"roofs of {placed.device}:", *(roofs or ["  no roof is known here"])]
    return "\n".join([*lines, *(["", placed.remark] if placed.remark else [])])


def render_utilisation(task: Task, placed: TaskRoofline, cited: Sequence[Roof]) -> str:
    """Return a table of the share of the measured and the cited memory and compute roofs that each workload reaches,
    with the citations."""
    kind, measured = roofline.roof_precision(task), [roof for roof in placed.roofs if roof.origin == "measured"]
    rows: list[tuple[str, ...]] = [
        ("workload", "time", "bytes", "of measured", "of cited", "operations", "of measured", "of cited")
    ]
    for w in placed.workloads:
        cells = [w.workload, format_seconds(w.seconds)]
        for count, unit in ((w.unique_bytes, "B/s"), (w.flops, "op/s")):
            rate = count / w.seconds if count is not None and w.seconds else None
            cells.append(format_si(rate, unit))
            for roofs in (measured, cited):
                roof = (
                    roofline.best_roof(roofs, "memory_bandwidth")
                    if unit == "B/s"
                    else roofline.compute_roof(roofs, kind)
                )
                cells.append(format_percent(rate / roof.value if rate is not None and roof else None))
        rows.append(tuple(cells))
    return "\n".join(
        [format_table(rows), *(f"{roof.metric}: {format_si(roof.value, roof.unit)}, {_origin(roof)}" for roof in cited)]
    )


def _origin(roof: Roof) -> str:
    doubt = f" ({roof.doubt})" if roof.doubt else ""
    return f"measured here, record {roof.source}{doubt}" if roof.origin == "measured" else f"cited: {roof.source}"


def render_diagnosis(found: Diagnosis, language: str, *, kept: bool) -> str:
    """Return the diagnosis as text: headline, roofline, findings with their evidence, remarks, and the next command.

    `kept` says whether the named records stay available afterwards.
    """
    lines = [found.headline, "", render_roofline(found.roofline), ""]
    lines += [line for profile in found.profiles if profile.launches for line in (describe_call(profile), "")]
    for number, finding in enumerate(found.findings, 1):
        where = f", line {finding.line}" if finding.line else ""
        lines += [f"{number}. {finding.rule} ({finding.severity}, {finding.axis}{where})", f"   {finding.text}"]
        lines += [
            f"   {remark.tool}, line {remark.line}: {remark.text}"
            for remark in missed_optimisation_remarks(finding, found)
        ]
        lines += [f"   evidence: {', '.join(f'record {r}' for r in finding.evidence) or 'the roofline above'}"]
    remarks = [r for profile in found.profiles for r in profile.remarks if r.kind != "applied"]
    if remarks:
        more = f" (the first {MAX_SHOWN_REMARKS} of {len(remarks)})" if len(remarks) > MAX_SHOWN_REMARKS else ""
        lines += ["", f"the compiler and the machine code{more}:"]
        lines += [f"  {r.tool}{f', line {r.line}' if r.line else ''}: {r.text}" for r in remarks[:MAX_SHOWN_REMARKS]]
    lines += ["", *(f"{name}: N/A, {why}" for name, why in found.missing.items())] if found.missing else []
    named = " ".join(dict.fromkeys(finding.rule for finding in found.findings))
    if named:
        lines += ["", f"pages about these: python -m knowledge_base pages --language {language} {named}"]
    return "\n".join(
        [*lines, *([] if kept else ["to keep the records named here, put --store DIR in front of the verb"])]
    )


def missed_optimisation_remarks(finding: Finding, found: Diagnosis) -> tuple[Remark, ...]:
    """Return the first remark on a missed optimisation at the finding's line, or nothing."""
    if not finding.line:
        return ()
    at = (r for profile in found.profiles for r in profile.remarks if r.line == finding.line and r.kind == "missed")
    return tuple(at)[:1]
