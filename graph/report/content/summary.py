"""The summary of a run, as sentences and as JSON, and the output of `show`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from agents.models.ledger import Spending, exchange_records, sum_exchanges
from graph.artifacts import FinalBenchmark, ReachedCap, VersionMemory
from graph.report.content.phrases import (
    comparison_words,
    contestant_words,
    gain_words,
    over_function_words,
    stop_reason_words,
)
from graph.state import State
from graph.workspace import drift
from graph.workspace import events as event_log
from graph.workspace.folder import Workspace
from graph.workspace.versions import read_state, read_versions, recorded_versions
from tools.artifacts import UNBOUNDED_RATIO, Artifact, Clock, Interval, Verdict
from tools.cli.formatting import format_speedup
from tools.gate import confirmation
from tools.gate.ranking import USER_FUNCTION
from tools.languages.base import open_language
from tools.store.records import Records, record_key
from tools.tasks.loader import LoadedTask


class Summary(Artifact):
    """The object that `--json` prints last."""

    status: Literal["finished", "unfinished", "waiting"]
    stop_reason: str | None
    stopped_because: str = Field(default="", exclude=True)
    """The reason in words, with the contestants that are still faster; empty: not stopped."""
    workspace: str
    baseline_s: float | None
    """Objective time of v0 in the final benchmark (Σ weight × median)."""
    best_s: float | None
    """baseline_s / speedup."""
    speedup: float | None
    """baseline / best by paired rounds, each in a process of its own; 1 where no version was accepted."""
    ci: tuple[float, float] | None
    """Of `speedup`; None: no version was accepted, or too few rounds."""
    against: dict[str, tuple[float, float, float]] = {}
    """Framework, or `original` in a linked run -> its time / the best kernel's by paired rounds: estimate and
    interval; below 1 it is faster."""
    over_function: dict[Clock, tuple[float, float, float]] = {}
    """Clock -> time of the user's own function / the best kernel's: estimate and interval; by a clock that includes the
    call the function pays for Python and its allocations."""
    doubts: tuple[str, ...] = ()
    """Sentences about the user's own function: why it was not timed, or why the factors over it may say little."""
    own_function: str = Field(default="", exclude=True)
    """Both in words."""
    verdicts: dict[str, str]
    """v<N> -> outcome; masked versions are left out."""
    commits: tuple[str, ...]
    awaited: str | None = None
    """The answer that the run waits for, in one sentence."""
    objective_of: str = Field(default="", exclude=True)
    """What the times are of where that is not one call of one workload."""
    objective: str = ""
    """total_time or geomean: what `speedup` and the times are of."""
    disturbed: bool = False
    """Other processes kept the machine busy during the final benchmark."""
    disturbed_verdicts: tuple[str, ...] = ()
    """v<N> of the versions whose candidate was confirmed while other processes kept the machine busy."""
    budget_reached: str | None = None
    """The cap that ended the run, in one sentence."""
    usd: float | None = None
    """The cost of models in dollars; None: not known, and `cost_unknown` gives the reasons."""
    cost_unknown: tuple[str, ...] = ()
    tokens: int | None = 0
    """The tokens of models, including cached ones; None: not known, and `cost_unknown` gives the reasons."""
    models: str = Field(default="", exclude=True)
    """Tokens and dollars in words, what is unknown too; empty: no language model was paid."""
    device_s: float | None = None
    """Seconds of jobs on the device (on a CPU: all jobs); None: not known."""
    wall_s: float = 0.0
    """The wall seconds of all processes of the run."""

    @property
    def _contestants(self) -> dict[str, str]:
        """Contestant in words -> its time / the best kernel's time in words."""
        return {contestant_words(name): comparison_words(_interval(*factor)) for name, factor in self.against.items()}

    def spent(self) -> str:
        """Return tokens, dollars and times of the run in one line."""
        device = "" if self.device_s is None else f", {self.device_s:.0f} s of it on the device"
        return f"{self.models or 'no language model was paid'}; wall time {self.wall_s:.0f} s{device}"

    def closing_lines(self) -> str:
        """The lines under the sentence of a finished run: the factors one by one, and where to look; empty before
        its report."""
        page = Path(self.workspace) / "report.html"
        if self.status != "finished" or not page.exists():
            return ""
        rows = {"your function": self.own_function} if self.own_function else {}
        given = "over v0" if rows else "over the kernel given"
        rows |= {given: comparison_words(_interval(self.speedup, *self.ci))} if self.speedup and self.ci else {}
        rows |= {f"over {name}": factor for name, factor in self._contestants.items()}
        rows |= {"report": str(page), "workspace": self.workspace, "it stopped because": self.stopped_because}
        return "\n".join(f"  {name:<24} {text}" for name, text in rows.items())

    def sentence(self) -> str:
        """Return the result of the run in one line."""
        accepted = sum(outcome == "accept" for outcome in self.verdicts.values())
        report = Path(self.workspace) / "report.md"
        if self.awaited is not None:
            return f"waiting: {self.awaited}; then `python -m graph resume {self.workspace}`"
        if self.status == "unfinished":
            done = f"{accepted} of {len(self.verdicts)} iterations accepted so far"
            return (
                f"unfinished: {done}; if no process works on it, `python -m graph resume {self.workspace}` continues it"
            )
        seen = f"; see {report}" if report.exists() else ""
        why = f"it stopped because {self.stopped_because}" if self.stopped_because else "it has not stopped yet"
        if self.budget_reached:
            last = max((int(v[1:]) for v, outcome in self.verdicts.items() if outcome == "accept"), default=0)
            why += f"; `python -m graph restart {self.workspace} v{last} --budget KEY=VALUE` continues in a new run"
        raced = [f"against {name} {factor}" for name, factor in self._contestants.items()]
        ended = [f"{accepted} of {len(self.verdicts)} iterations accepted", *raced, f"{why}{seen}"]
        tail = "; ".join(filter(None, [self.own_function.rstrip("."), *ended]))
        if self.speedup is None or self.baseline_s is None or self.best_s is None:
            return f"{self.status}: {tail}"
        speedup = _interval(self.speedup, *(self.ci or (1 / UNBOUNDED_RATIO, UNBOUNDED_RATIO))) if accepted else None
        shown = gain_words(self.baseline_s, self.best_s, speedup, self.objective_of, disturbed=self.disturbed)
        return f"{self.status}: {shown}; {tail}"


def _interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high)


def summarise(root: Path, state: State) -> Summary:
    """Return the summary of a workspace from its state and records."""
    from tools.store.repository import Repository

    workspace = Workspace(root, None)
    awaited = workspace.awaited
    benchmark = None
    records = workspace.records
    closed = tuple(memory for memory, _ in recorded_versions(workspace).values())
    if state.get("report"):
        benchmark = FinalBenchmark.model_validate(records.get(state["report"]).payload)
    reached = records.find(record_key("budget"))
    models = sum_exchanges(exchange_records(records))
    log = event_log.read_events(root / ".kernelwright" / "events.jsonl")
    overall_by_name = benchmark.overall if benchmark else {}
    overall, over_function = overall_by_name.get("baseline"), benchmark.over_function if benchmark else {}
    settings, cap = workspace.settings(), ReachedCap.model_validate(reached.payload).reason if reached else None
    return Summary(
        status="finished" if state.get("report") else "waiting" if awaited else "unfinished",
        awaited=awaited,
        stop_reason=state.get("stop"),
        stopped_because=stop_reason_words(state.get("stop"), settings, cap, overall_by_name),
        workspace=str(root),
        baseline_s=benchmark.objective_s.get("baseline") if benchmark else None,
        best_s=benchmark.objective_s.get(benchmark.best) if benchmark else None,
        speedup=overall.estimate if overall else 1.0 if benchmark else None,
        ci=(overall.low, overall.high) if overall and overall.is_bounded else None,
        over_function={clock: (i.estimate, i.low, i.high) for clock, i in over_function.items()},
        doubts=benchmark.doubts if benchmark else (),
        own_function=over_function_words(benchmark) if benchmark else "",
        against={
            name: (i.estimate, i.low, i.high)
            for name, i in overall_by_name.items()
            if name != "baseline" and not (over_function and name == USER_FUNCTION)
        },
        verdicts={f"v{m.iteration}": m.verdict for m in closed if m.iteration > 0 and not m.masked},
        objective_of=benchmark.objective_of if benchmark else "",
        objective=settings.judge.objective,
        disturbed=benchmark.disturbed if benchmark else False,
        disturbed_verdicts=tuple(f"v{m.iteration}" for m in closed if _is_disturbed(m, records)),
        budget_reached=cap,
        usd=None if models.unknown else round(models.usd, 6),
        cost_unknown=models.unknown,
        tokens=None if models.unseen else models.tokens,
        models=str(models) if models.is_paid else "",
        device_s=benchmark.spent_device_s if benchmark else _device_s(records, log, workspace.wall_s()),
        wall_s=benchmark.wall_s if benchmark else workspace.wall_s(),
        commits=tuple(commit.id for commit in reversed(Repository(root).log())),
    )


def _is_disturbed(memory: VersionMemory, records: Records) -> bool:
    """Whether others kept the machine busy in the confirmations that a version's verdict rests on."""
    kept = [records.get(identity) for identity in memory.records]
    cited = [
        identity
        for record in kept
        if record.kind == "verdict"
        for identity in Verdict.model_validate(record.payload).records
    ]
    confirmed = [record for identity in cited if (record := records.get(identity)).kind == "confirmation"]
    return bool(confirmed) and confirmation.any_disturbed(confirmed)


def spent_by_role(records: Records) -> dict[str, Spending]:
    """Return role -> what its language model cost, for each paid role."""
    found = exchange_records(records)
    spent = {
        role: sum_exchanges(r for r in found if r.payload["role"] == role)
        for role in sorted({r.payload["role"] for r in found})
    }
    return {role: sum_ for role, sum_ in spent.items() if sum_.is_paid}


def _device_s(records: Records, log: Sequence[event_log.Event], wall_s: float) -> float | None:
    """Seconds of jobs on the device of the task's language."""
    task = records.find(record_key("task")) or records.find(record_key("loaded"))
    if task is None:
        return None
    language = open_language(LoadedTask.model_validate(task.payload).task.language)
    return event_log.device_seconds(log, wall_s).get(language.device, 0.0)


def show(path: Path, *, as_json: bool) -> str:
    """Return the state of a run as text or JSON: summary, foreign changes, and a line for each version."""
    from graph.workspace import folder as workspaces

    workspace = workspaces.open_read_only(path)
    summary = summarise(workspace.root, read_state(workspace))
    found = drift.drifted_paths(workspace.repository)
    if as_json:
        return json.dumps({**summary.model_dump(mode="json"), "drift": found}) if found else summary.model_dump_json()
    lines = [summary.sentence(), *([drift.drift_sentence(workspace.repository, found)] if found else [])]
    said = drift.foreign_commit_sentence(workspace.repository, workspace.repository.log(), workspace.records)
    lines += filter(None, [said])
    recorded = {n: memory for n, (memory, _) in recorded_versions(workspace).items()}
    for iteration in (memory.iteration for memory in read_versions(workspace.root)):
        memory = recorded.get(iteration)
        if memory is None:
            lines.append(f"v{iteration:<3} not a version of the run: no record closes it")
            continue
        what = "+".join(memory.methods) or "baseline"
        masked = "  (masked)" if memory.masked else ""
        parent = max(
            (n for n, m in recorded.items() if m.verdict == "accept" and m.candidate == memory.parent), default=0
        )
        gained = f"{format_speedup(memory.speedup)} over v{parent}" if memory.speedup else format_speedup(None)
        lines.append(f"v{memory.iteration:<3} {memory.verdict:<18} {gained:<34} {what}{masked}")
    caps = ", ".join(f"{name} {cap}" for name, cap in workspace.settings().budget.caps_by_key().items())
    lines.append(f"spent: {summary.spent()}; caps: {caps}")
    lines += [f"       {role}: {spent.known_text or 'N/A'}" for role, spent in spent_by_role(workspace.records).items()]
    return "\n".join(lines)
