"""The result of one problem of a suite, read from the records of its workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from graph.artifacts import FinalBenchmark, Inspection, JudgedTrial
from graph.report.content.summary import Summary, summarise
from graph.workspace.folder import Workspace, open_read_only
from graph.workspace.versions import accepted_version_of, read_state
from tools.artifacts import Artifact, Failed, Interval, Task, Verdict
from tools.cli.formatting import format_speedup
from tools.gate import confirmation, ranking
from tools.gate.ranking import FRAMEWORKS
from tools.store.records import Records, record_key
from tools.tasks.loader import read_frozen_task

SHORT_CALL_S = 50e-6
"""Below this duration a call is mostly launch and clock; such problems are listed separately."""
DEGENERATE = "Degenerate: "
"""Begins the probe's sentence about a task that says little about a kernel."""
MOSTLY_LIBRARY_SHARE = 0.9
"""From this share of the device time on, a result is the library's and is listed separately."""
BEST_OF_TORCH = "best of torch"
"""The fastest of the frameworks that were timed."""
CONTESTANTS = ("baseline", *FRAMEWORKS, BEST_OF_TORCH)


class Ending(Artifact):
    """How the last process of a run ended. The file is beside the workspace, because a refused run has no workspace."""

    settings_digest: str
    """Digest of what the run measures (`settings_digest` of graph.score.suite)."""
    code: int | None = None
    """The exit code; None: the process has not ended, or was killed together with its parent."""
    reason: str = ""
    """Why the process produced no final benchmark; one sentence."""
    final: bool = False
    """Another process would end the same way: the input was refused, or nothing can be measured here; and there is no
    workspace."""


class Result(Artifact):
    """One line of a score, computed from records alone. Times are those of the final benchmark."""

    problem: str
    status: Literal["finished", "failed", "unfinished"]
    """failed: there is no time and will be none, because of `reason`."""
    reason: str = ""
    """Why there is no final benchmark; one sentence."""
    code: int | None = None
    """Exit code of the last process of an unfinished problem; None: the process has not ended, or was killed together
    with its parent."""
    workspace: str | None = None
    """Name of the workspace's folder."""
    record: str | None = None
    """Record of the final benchmark."""
    version: str | None = None
    """Version of the best kernel; v0: no version was accepted."""
    clock: Literal["launch-included", "wall"] = "wall"
    speedups: dict[str, Interval] = {}
    """Rival -> its time / the best kernel's by `clock`; `baseline` is v0, and is left out where no version was
    accepted."""
    device_only: dict[str, Interval] = {}
    """The same by device time alone; empty where calls do more than launch, or device time was not seen."""
    unavailable: dict[str, str] = {}
    """Framework -> the reason why it was not timed."""
    of_roof: dict[Literal["cited", "measured"], float] = {}
    """Origin of the roof -> its time / the best kernel's, as profiled."""
    library_share: float | None = None
    """Share of the best kernel's device time in operators of torch; None: the task allows none, or device time was not
    seen."""
    sol_score: float | None = None
    """SOL-ExecBench's: 1 at the roof (cited, else measured), a half at the fastest of torch, by the device where
    that was timed."""
    libraries: tuple[str, ...] = ()
    """The rivals that the run names."""
    refused: dict[str, int] = {}
    """Stage or verdict -> the number of candidates that ended there."""
    shortest_s: float | None = None
    """Seconds of the shortest call of the best kernel, over workloads."""
    doubts: tuple[str, ...] = ()
    """Reasons to trust the figures less, a sentence each."""
    device_s: float | None = None
    """Seconds of jobs on the device (on a CPU: all jobs); None: not known."""
    tokens: int | None = None
    usd: float | None = None
    """None: not known."""

    @property
    def short(self) -> bool:
        """The figures are mostly launch and clock."""
        return self.shortest_s is not None and self.shortest_s < SHORT_CALL_S

    @property
    def mostly_library(self) -> bool:
        """Most of the device time is a library's."""
        return self.library_share is not None and self.library_share >= MOSTLY_LIBRARY_SHARE

    def sentence(self) -> str:
        """The result in one line."""
        if self.status != "finished":
            return f"{self.status}: {self.reason}" if self.reason else self.status
        factors = [
            f"{format_speedup(self.speedups[name])} over {name}"
            for name in ("baseline", BEST_OF_TORCH)
            if name in self.speedups
        ]
        return ", ".join([self.version or "", *factors])

    def by(self, clock: Literal["device-only", "launch-included", "wall"]) -> Mapping[str, Interval]:
        """Rival -> speed-up by a clock; on a CPU every clock is the wall clock."""
        return self.device_only if clock == "device-only" and self.clock == "launch-included" else self.speedups


def read_result(problem: str, root: Path | None, ending: Ending | None) -> Result:
    """The result of a problem; `root`: its workspace, if there is one."""
    code, reason = (ending.code, ending.reason) if ending else (None, "")
    unfinished = Result(
        problem=problem, status="failed" if ending and ending.final else "unfinished", reason=reason, code=code
    )
    if root is None:
        return unfinished
    workspace = open_read_only(root)
    state, records = read_state(workspace), workspace.records
    summary, refused = summarise(root, state), Counter(_refusals(records))
    spent = {"device_s": summary.device_s, "tokens": summary.tokens, "usd": summary.usd}
    unfinished = unfinished.model_copy(
        update={"workspace": root.name, "refused": dict(sorted(refused.items())), **spent}
    )
    unfinished = unfinished.model_copy(update={"libraries": _rival_libraries(records)})
    if not state.get("report"):
        return unfinished
    final_record = records.get(state["report"])
    final, contest = FinalBenchmark.model_validate(final_record.payload), records.get(final_record.parents[0])
    task = read_frozen_task(workspace.task_folder)
    judge_settings = workspace.settings().judge
    device_contest = confirmation.with_device_times(contest) if final.device_s else None
    placed = (
        ranking.rank_contestants(device_contest, judge_settings.objective, anchor="baseline", best=final.best).overall
        if device_contest
        else {}
    )
    known = unfinished.model_dump(include={"problem", "workspace", "libraries", "refused", *spent})
    share = confirmation.library_share((contest,), final.best)
    speedups, of_roof = _with_best(final.overall), _roof_ratios(records, workspace, state["incumbent"], task)
    device_only = _with_best({name: one.against_best for name, one in placed.items() if one.against_best is not None})
    return Result(
        **known,
        status="finished",
        record=final_record.id,
        version=accepted_version_of(root, state["incumbent"]),
        clock="launch-included" if final.device_s else "wall",
        speedups=speedups,
        device_only=device_only,
        unavailable=final.unavailable,
        of_roof=of_roof,
        library_share=share,
        sol_score=sol_score(
            of_roof.get("cited", of_roof.get("measured")), (device_only or speedups).get(BEST_OF_TORCH)
        ),
        shortest_s=min((s.seconds for s in final.standings if s.contestant == final.best and s.seconds), default=None),
        doubts=tuple(_doubts(final, summary, task, share, judge_settings.inputs == "as_published")),
    )


def _rival_libraries(records: Records) -> tuple[str, ...]:
    loaded = records.find(record_key("task")) or records.find(record_key("loaded"))
    rivals = loaded.payload["task"].get("rivals") if loaded else None
    return tuple(rivals["names"]) if rivals else ()


def sol_score(roof: float | None, fastest_torch: Interval | None) -> float | None:
    """SOL-ExecBench's score from the times of the roof and of the fastest torch mode over the kernel's, limited to
    0 … 1, which the suite's own formula is not."""
    if roof is None or fastest_torch is None:
        return None
    if roof >= 1 or fastest_torch.estimate <= roof:
        return float(roof >= 1)
    return 1 / (1 + (1 - roof) / (fastest_torch.estimate - roof))


def _with_best(against: Mapping[str, Interval]) -> dict[str, Interval]:
    """The speed-ups with that over the fastest framework under `BEST_OF_TORCH`."""
    timed = [against[name] for name in FRAMEWORKS if name in against]
    return {**against, **({BEST_OF_TORCH: min(timed, key=lambda found: found.estimate)} if timed else {})}


def _roof_ratios(
    records: Records, workspace: Workspace, kernel: str, task: Task
) -> dict[Literal["cited", "measured"], float]:
    inspected = records.find(record_key("inspection", candidate=kernel))
    if inspected is None:
        return {}
    seen = Inspection.model_validate(inspected.payload)
    weights = {w.name: w.weight for w in task.workloads}
    took = sum(weights[row.workload] * row.seconds for row in seen.rooflines)
    fraction = workspace.settings().stop.target_fraction
    return {
        t.roof.origin: t.seconds * fraction / took for t in (seen.published, seen.target) if t and t.roof and t.seconds
    }


def _refusals(records: Records) -> Iterator[str]:
    """The stage or verdict of each candidate that was refused; a candidate that was merely not the fastest
    of its batch is not among them."""
    for record in records:
        if record.kind == "trial":
            judged = JudgedTrial.model_validate(record.payload)
            if judged.purpose == "search" and isinstance(judged.trial, Failed):
                yield judged.trial.stage
        elif record.kind == "verdict":
            verdict = Verdict.model_validate(record.payload)
            if verdict.candidate and verdict.outcome != "accept":
                yield verdict.outcome


def _doubts(final: FinalBenchmark, summary: Summary, task: Task, share: float | None, published: bool) -> Iterator[str]:
    yield from (said.removeprefix(DEGENERATE) for said in task.inferred if said.startswith(DEGENERATE))
    if published:
        yield "checked on its suite's own inputs alone (judge.inputs: as_published)"
    if final.disturbed:
        yield "others kept the machine busy during the final benchmark"
    if summary.budget_reached:
        yield f"a cap ended the run ({summary.budget_reached.rstrip('.')})"
    if share is not None:
        yield f"{share:.0%} of its device time passed in the task's library, outside of its own kernels"
    yield from (f"{name} was host-bound in {rounds} of its rounds" for name, rounds in final.host_bound.items())
