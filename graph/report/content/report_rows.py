"""The rows of a report: workloads, versions on their way, points below the roofs, what was spent. Each names its
record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.artifacts import Dossier, Plan, Prediction
from agents.models.ledger import Spending
from graph.artifacts import FinalBenchmark, Inspection, JudgedTrial, SpecSheet, VersionMemory, is_borne_out
from graph.settings import Settings
from graph.state import State
from graph.workspace.versions import closing_of
from tools.artifacts import Dims, Interval, Measurement, Outcome, Passed, Quantity, Task, Verdict
from tools.gate.judge_settings import MIN_EFFECT
from tools.gate.ranking import order_frameworks
from tools.roofline import roofline
from tools.roofline.hardware import Roof
from tools.store.records import Records, record_key


@dataclass(frozen=True)
class WorkloadRow:
    """A visible workload with its weight and its times before and after the run."""

    name: str
    dims: Dims
    weight: float
    share: float | None
    """The share of the objective at the baseline's times; None: not timed at the end."""
    margin: float
    """The largest relative slow-down that the gate accepts."""
    own_margin: bool
    """The margin is the task's own and not the judge's default."""
    baseline_s: float | None
    best_s: float | None
    speedup: Interval | None
    """baseline / best by paired rounds; None: no version was accepted, or there is no final benchmark."""
    of_roof: float | None
    """Roof time / the best kernel's time; None: no roof is known."""
    inspection: str | None
    """Record that `of_roof` comes from."""
    against: Mapping[str, Interval | None]
    """Framework -> its time / the best kernel's; None: it could not be measured."""


@dataclass(frozen=True)
class VersionStep:
    """A closed version with its verdict."""

    iteration: int
    outcome: Outcome
    masked: bool
    methods: tuple[str, ...]
    speedup: Interval | None
    """The speed-up over its parent; None: it was not timed."""
    so_far: float
    """The product of the accepted estimates that led to the kernel at HEAD after this version."""
    record: str
    """The id of the record of its verdict."""


@dataclass(frozen=True)
class Point:
    """A version on one workload, as a point of the roofline chart."""

    iteration: int
    outcome: Outcome
    workload: str
    intensity: float
    """Operations per unique byte."""
    rate: float
    """Operations a second."""
    record: str


@dataclass(frozen=True)
class Expense:
    """The time and money that a run had spent when a version, or the run, was closed."""

    label: str
    """v<N>, or "end"."""
    wall_s: float
    device_s: float | None
    spent: Spending
    record: str
    """The id of the record that closed it."""


@dataclass(frozen=True)
class Proposal:
    """The evidence of a version's plan (C5), and its timings with a warm cache."""

    iteration: int
    dossier: Dossier
    plan: Plan
    warmed: tuple[Measurement, ...]
    """The measurements of workloads that were also timed with a warm cache."""
    records: Mapping[str, str]
    """Kind -> id of the record."""


@dataclass(frozen=True)
class CounterRow:
    """A hypothesis about a counter, compared with the profiles of the version and of its parent."""

    iteration: int
    method: str
    expected: Prediction
    before: Quantity | None
    """The value in the parent's profile; None: not collected."""
    after: Quantity | None
    """The value in the version's profile; None: not collected."""
    kernels: tuple[str, str]
    """The candidate ids of the parent and of the version."""
    hit: bool | None
    """The change lies in the band of the prediction; None: a value is missing, or noise leaves it open."""


def counter_rows(memories: Iterable[VersionMemory], inspections: Mapping[str, Inspection]) -> Iterator[CounterRow]:
    """The predictions of applied methods on anything but time (B3); `inspections` by candidate."""
    for memory in memories:
        kernels = (memory.parent, memory.candidate or "")
        before, after = (inspections[kernel].metrics if kernel in inspections else {} for kernel in kernels)
        for method in (p.planned for p in memory.predictions if p.planned.method in memory.methods):
            for movement in method.hypothesis.expected:
                if movement.metric != "time":
                    old, new = before.get(movement.metric), after.get(movement.metric)
                    yield CounterRow(
                        memory.iteration, method.method, movement, old, new, kernels, _is_borne_out(movement, old, new)
                    )


def _is_borne_out(movement: Prediction, before: Quantity | None, after: Quantity | None) -> bool | None:
    if before is None or after is None:
        return None
    if not before.value or after.value / before.value <= 0:
        return after.value > before.value if movement.direction == "up" else after.value < before.value
    factor, noise = after.value / before.value, 1 + MIN_EFFECT
    return is_borne_out(movement, Interval(estimate=factor, low=factor / noise, high=factor * noise))


def workload_rows(
    task: Task, settings: Settings, final: FinalBenchmark | None, last: Inspection | None, inspection: str | None
) -> tuple[WorkloadRow, ...]:
    """The visible workloads in the task's order; `last` is of the best kernel, and `inspection` its record."""
    placed = {(s.workload, s.contestant): s for s in final.standings} if final else {}
    times = {w.name: p.seconds if (p := placed.get((w.name, "baseline"))) else None for w in task.workloads}
    shares: dict[str, float | None] = {w.name: w.weight for w in task.workloads}
    if settings.judge.objective == "total_time":
        shares = {
            w.name: w.weight * seconds if (seconds := times[w.name]) is not None else None for w in task.workloads
        }
    whole = sum(share or 0.0 for share in shares.values())
    heads = {row.workload: row.headroom.total for row in last.rooflines} if last else {}
    profiled = {row.workload: row.seconds for row in last.rooflines} if last else {}
    task_margins = task.margins

    def row(name: str, dims: Dims, weight: float) -> WorkloadRow:
        best = placed.get((name, final.best)) if final else None
        baseline, share, gap = placed.get((name, "baseline")), shares[name], heads.get(name)
        others = {f: p.against_best if (p := placed.get((name, f))) else None for f in compared_frameworks(final)}
        return WorkloadRow(
            name=name,
            dims=dims,
            weight=weight,
            share=share / whole if share is not None and whole else None,
            margin=task_margins.get(name, settings.judge.workload_margin),
            own_margin=name in task_margins,
            baseline_s=times[name],
            best_s=best.seconds if best else None,
            speedup=baseline.against_best if baseline else None,
            of_roof=None if gap is None else _share_of_roof(gap, profiled[name], best.seconds if best else None),
            inspection=inspection if gap is not None else None,
            against=others,
        )

    return tuple(row(w.name, w.dims, w.weight) for w in task.workloads)


def compared_frameworks(final: FinalBenchmark | None) -> tuple[str, ...]:
    """Return the contestants of the final benchmark that are not kernels of the run, timed or not."""
    ours = ("baseline", "best", "original")
    return order_frameworks(name for name in (*final.overall, *final.unavailable) if name not in ours) if final else ()


def _share_of_roof(gap: float, profiled_s: float, best_s: float | None) -> float:
    """Return roof time / the best kernel's time, from the headroom `gap` at the profile's time."""
    return 1 - gap if best_s is None or gap <= 0 else min((1 - gap) * profiled_s / best_s, 1.0)


def steps_of(memories: Iterable[VersionMemory], verdicts: Mapping[int, tuple[str, Verdict]]) -> Iterable[VersionStep]:
    """The closed versions in order, v0 left out."""
    so_far = 1.0
    reached: dict[str | None, float] = {}
    for memory in memories:
        if memory.iteration not in verdicts or not memory.iteration:
            continue
        record, verdict = verdicts[memory.iteration]
        if verdict.outcome == "accept" and verdict.reported_speedup is not None and not memory.masked:
            # A version that was shown again need not be among those that a later one came of.
            so_far = reached[memory.candidate] = reached.get(memory.parent, 1.0) * verdict.reported_speedup.estimate
        yield VersionStep(
            memory.iteration, verdict.outcome, memory.masked, memory.methods, verdict.reported_speedup, so_far, record
        )


def points_of(
    steps: Sequence[VersionStep],
    verdicts: Mapping[int, tuple[str, Verdict]],
    inspections: Mapping[str, Inspection],
    inspection_records: Mapping[str, str],
    state: State,
    records: Records,
) -> Iterable[Point]:
    """v0 and what was accepted by their own A/A blocks, what was timed and refused by its trial."""
    baseline = inspections.get(state["baseline"])
    counted = {row.workload: row for row in baseline.rooflines if row.flops and row.unique_bytes} if baseline else {}

    def point(iteration: int, outcome: Outcome, workload: str, seconds: float, record: str) -> Point:
        flops = counted[workload].flops or 0.0
        return Point(iteration, outcome, workload, flops / counted[workload].unique_bytes, flops / seconds, record)

    for iteration, outcome in ((0, "accept"), *((s.iteration, s.outcome) for s in steps)):
        candidate = state["baseline"] if iteration == 0 else verdicts[iteration][1].candidate or ""
        inspected = inspections.get(candidate) if outcome == "accept" else None
        if inspected is not None:
            rows = [(row.workload, row.seconds) for row in inspected.rooflines]
            record = inspection_records[candidate]
        else:
            judged = records.find(record_key("trial", iteration=iteration, candidate=candidate))
            trial = JudgedTrial.model_validate(judged.payload).trial if judged else None
            rows = [(m.workload, m.candidate_s) for m in trial.measurements] if isinstance(trial, Passed) else []
            record = judged.id if judged else ""
        yield from (
            point(iteration, outcome, workload, seconds, record) for workload, seconds in rows if workload in counted
        )


def proposal_records(memories: Iterable[VersionMemory], records: Records) -> dict[int, tuple[str, ...]]:
    """Iteration -> ids of the records that say what its plan was made from, and how what was put to the gate was
    timed."""
    trials = {
        m.iteration: records.find(record_key("trial", iteration=m.iteration, candidate=m.candidate))
        for m in memories
        if m.iteration
    }
    kept = {
        m.iteration: [r for r in map(records.get, m.records) if r.kind in ("dossier", "plan")]
        for m in memories
        if m.iteration
    }
    return {n: tuple(record.id for record in (*kept[n], trial) if record) for n, trial in trials.items()}


def proposals_of(ids: Mapping[int, tuple[str, ...]], records: Records) -> Iterable[Proposal]:
    """Yield the proposals in the records of `proposal_records`."""
    for iteration, cited in ids.items():
        kept = {record.kind: record for record in map(records.get, cited)}
        trial = JudgedTrial.model_validate(kept["trial"].payload).trial if "trial" in kept else None
        yield Proposal(
            iteration=iteration,
            dossier=Dossier.model_validate(kept["dossier"].payload),
            plan=Plan.model_validate(kept["plan"].payload),
            warmed=tuple(m for m in trial.measurements if m.warm_candidate_s) if isinstance(trial, Passed) else (),
            records={kind: record.id for kind, record in kept.items()},
        )


def roofs_of(sheet: SpecSheet, task: Task) -> tuple[Roof, ...]:
    """Bandwidth and peak of the task's precision: what was measured, and what is published of the device that
    measures."""
    precision = roofline.roof_precision(task)
    found = []
    for roofs in (sheet.roofs, roofline.roofs_from_specs(sheet.target_specs)):
        found += [
            roof
            for roof in (roofline.best_roof(roofs, "memory_bandwidth"), roofline.compute_roof(roofs, precision))
            if roof is not None
        ]
    return tuple(found)


def expenses_of(verdicts: Mapping[str, str], records: Records) -> Iterable[Expense]:
    """What was spent when each version was closed (label -> record of its verdict)."""
    for label, record in verdicts.items():
        closing = closing_of(records.get(record), records)
        yield Expense(label, closing.wall_s, closing.device_s, closing.spent, record)
