"""Kernels that were not written for Kernelwright, each made faster by the playbook: python -m benchmarks.foreign
[KERNEL...].

One run after another, each a process of its own; results/foreign.md is written anew after each. A run that has finished
is not repeated and one that was stopped is resumed, unless kernel, reference or settings have changed since. Every
figure is read from the workspaces' records. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from graph.artifacts import FinalBenchmark, Inspection
from graph.report.content.phrases import comparison_words
from graph.report.content.summary import Summary, summarise
from graph.settings import load
from graph.workspace.folder import open_read_only
from graph.workspace.versions import read_state
from tools.artifacts import Candidate, Interval
from tools.cli.formatting import format_percent, format_seconds, format_speedup
from tools.environment import Environment
from tools.executors.base import pick_device
from tools.executors.choice import ExecutorChoice, open_executor
from tools.gate.judge_settings import JudgeSettings
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.languages.base import open_language
from tools.store.records import Records, record_key
from tools.tasks.loader import LoadedTask

ROOT = Path(__file__).parent.parent
KERNELS = Path(__file__).parent / "foreign"
RUNS = Path("workspaces/foreign")
TABLE = Path(__file__).parent / "results" / "foreign.md"
RUN_TIMEOUT_S = 1200.0
"""A run that takes longer is stopped and counted as lost: its own budget ends it long before."""
OUTPUT_TIMEOUT_S = 120.0
"""For a stopped run to end the job that is under way."""
SETTINGS = {
    "search": {"iterations": 6, "candidates": 2, "patience": 2},
    "judge": {"calibration_pairs": 16, "confirm_rounds": 8, "benchmark_rounds": 12},
    "budget": {"wall_s": 150},
}
RIVALS = ("eager", "compile")


PAGE = """\
# Kernels nobody here wrote, the playbook in every role

{date}; {machine}; Kernelwright at {commits}.

Command: `{command}`; kernels and references lie in `benchmarks/foreign/`.
Each run may take {iterations} iterations of {candidates} candidates and {wall_s} s before its final benchmark, stops after {patience}
iterations without a gain, and learns from no other run.

Brackets are 95 % intervals of paired ratios, over all workloads of a kernel; below 1 is a loss. Baseline and candidates are built with the
same flags. "Of roof" is how near the best kernel comes to the roofs that its run measured; a workload that fits into the last-level
cache can exceed the memory roof and then counts as 100 %. † others kept the machine busy during the final benchmark.

| kernel | baseline | accepted | speed-up | of roof | over torch eager | over torch.compile | stopped | run, s |
|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Row:
    """What one finished run achieved."""

    summary: Summary
    final: FinalBenchmark
    roof: float | None
    """Share of the best kernel's own roof, over the objective; None: no roof is known."""
    wrong: str | None
    """Why the best kernel is wrong on cases that its run never saw; None: it is right, or the user's own."""

    @property
    def speedup(self) -> float:
        return self.summary.speedup or 1.0

    def against(self, name: str) -> Interval | None:
        return self.final.overall.get(name)


Result = Row | str | None
"""A finished run, why there is none, or None: it was not finished yet."""


def kernel_names() -> list[str]:
    """All kernels, in the table's order."""
    return sorted(path.parent.name for path in KERNELS.glob("*/kernel.cpp"))


# ---------------------------------------------------------------- runs


def config(name: str, runs: Path) -> Path:
    """Write the run's config file."""
    path = runs / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        yaml.safe_dump(
            {"name": name, "task": str(KERNELS / name), "workspaces": str(runs), **SETTINGS}, sort_keys=False
        )
    )
    return path


def workspace_of(name: str, runs: Path) -> Path | None:
    """The kernel's newest workspace, when it was made from the same kernel, reference and settings."""
    made = sorted(
        path for path in runs.glob(f"{name}-*") if re.fullmatch(r"\d{8}T\d{6}Z(-\d+)?", path.name[len(name) + 1 :])
    )
    if not made or not (runs / f"{name}.yaml").is_file():
        return None
    workspace = open_read_only(made[-1])
    record = workspace.records.find(record_key("task"))
    if record is None:
        return None
    task = LoadedTask.model_validate(record.payload).task
    same = (task.baseline, task.reference) == tuple(
        (KERNELS / name / file).read_text() for file in ("kernel.cpp", "reference.py")
    )
    return workspace.root if same and workspace.settings() == load(runs / f"{name}.yaml") else None


def is_finished(workspace: Path | None) -> bool:
    return workspace is not None and bool(read_state(open_read_only(workspace)).get("report"))


def run_or_resume(name: str, runs: Path, *, again: bool) -> None:
    """Run the kernel or resume its run; the last message of the command is stored beside the workspace."""
    settings, ended = config(name, runs), runs / f"{name}.json"
    workspace = None if again else workspace_of(name, runs)
    if is_finished(workspace):
        return
    ended.unlink(missing_ok=True)
    work = ["resume", str(workspace)] if workspace else ["run", str(settings)]
    # A home of its own: no run learns from another, so that the order does not matter.
    home = {"KERNELWRIGHT_HOME": str((runs / "homes" / name).resolve())}
    command = [sys.executable, "-m", "graph", *work, "--quiet", "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            said, complaint = child.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            said, complaint = _stop_run(child)
        except KeyboardInterrupt:
            # The terminal has told the child as well; it says when it is done.
            child.wait(OUTPUT_TIMEOUT_S)
            raise
    last = (said.splitlines() or [""])[-1]
    ended.write_text(
        json.dumps({"exit": child.returncode, "last": last, "stderr": complaint[-2000:], "commit": commit()})
    )


def commit() -> str:
    """What is checked out, with `-dirty` where that is not all."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "no commit"


def commits(runs: Path, results: dict[str, Result]) -> str:
    """At which commits the rows were measured."""
    ended = [runs / f"{name}.json" for name, one in results.items() if one is not None]
    return (
        ", ".join(sorted({json.loads(path.read_text()).get("commit", "no commit") for path in ended if path.is_file()}))
        or "no commit"
    )


def _stop_run(child: subprocess.Popen[str]) -> tuple[str, str]:
    child.send_signal(signal.SIGINT)
    try:
        return child.communicate(timeout=OUTPUT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()


def result(name: str, runs: Path) -> Result:
    workspace = workspace_of(name, runs)
    if workspace is None or not is_finished(workspace):
        return _failure_message(runs / f"{name}.json")
    opened = open_read_only(workspace)
    state = read_state(opened)
    inspection = Inspection.model_validate(opened.records.get(state["profile"]).payload)
    headroom = inspection.headroom.total
    return Row(
        summary=summarise(workspace, state),
        final=FinalBenchmark.model_validate(opened.records.get(state["report"]).payload),
        roof=None if headroom is None else 1 - headroom,
        wrong=audit(workspace, runs / "audits" / workspace.name) if state["incumbent"] != state["baseline"] else None,
    )


def _failure_message(path: Path) -> str | None:
    """The last message of a run that ended without a result; None: the run is not recorded."""
    if not path.is_file():
        return None
    ended = json.loads(path.read_text())
    try:
        reason = str(json.loads(ended["last"])["reason"])
    except (ValueError, KeyError, TypeError):
        reason = (ended["stderr"].strip().splitlines() or ["it said nothing"])[-1]
    return f"exit {ended['exit']}: {reason}"


def audit(workspace: Path, store: Path) -> str | None:
    """Check the kernel at HEAD once more, on hidden sizes and values from a secret that its run did not know; the
    answer is kept."""
    opened = open_read_only(workspace)
    record = opened.records.find(record_key("task"))
    assert record is not None
    task = LoadedTask.model_validate(record.payload).task
    language = open_language(task.language)
    file = f"kernel{language.suffix}"
    best = Candidate(language=task.language, files={file: (workspace / file).read_text()})
    records = Records(store)
    kept = next((r for r in records if r.kind == "correctness" and r.payload["candidate"] == best.id), None)
    if kept is None:
        with open_executor(ExecutorChoice(), records.blobs, store / "scratch") as executor:
            device = pick_device(executor.devices(), language.device)
            judge = Judge(
                task,
                language,
                executor,
                records,
                environment="",
                device=f"{device.kind}:{device.index} {device.name}",
                secret=secrets.token_bytes(32),
                policy=JudgeSettings(),
                emit=lambda kind, details: None,
            )
            kept = judge.read_or_check_correctness(
                best, Candidate(language=task.language, files={file: task.baseline or ""}), "audit"
            )
    failed = evidence.correctness_failure(kept)
    return failed.reason if failed else None


# ---------------------------------------------------------------- the table


def table_row(name: str, row: Row) -> str:
    verdicts = list(row.summary.verdicts.values())
    cells = [
        name,
        format_seconds(row.summary.baseline_s),
        f"{verdicts.count('accept')} of {len(verdicts)}",
        format_speedup(row.against("baseline")) if row.final.best == "best" else "1× (none accepted)",
        format_percent(row.roof),
        *(comparison_words(row.against(other)) for other in RIVALS),
        f"{row.summary.stop_reason}{' †' if row.final.disturbed else ''}",
        f"{row.summary.wall_s:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def counts(results: dict[str, Result]) -> Iterator[str]:
    """What the rows come to; a lost run counts among those tried and under no goal."""
    rows = {name: one for name, one in results.items() if isinstance(one, Row)}
    lost = {name: one for name, one in results.items() if isinstance(one, str)}
    tried = len(rows) + len(lost)
    at_least = {
        other: {n for n, r in rows.items() if (found := r.against(other)) and found.estimate >= 1} for other in RIVALS
    }
    wrong = {name: row.wrong for name, row in rows.items() if row.wrong is not None}
    yield f"- by the estimate, ≥ 2× over the baseline: {sum(row.speedup >= 2 for row in rows.values())} of {tried}"
    met = {**at_least, "both": at_least["eager"] & at_least["compile"]}
    yield "- by the estimate, ≥ 1.0× torch: " + ", ".join(
        f"{other} {len(found)} of {tried}" for other, found in met.items()
    )
    yield f"- wrong: {len(wrong)}{_list_reasons(wrong)}"
    yield f"- lost or crashed: {len(lost)}{_list_reasons(lost)}"
    absent = {
        (name, other): row.final.unavailable[other]
        for name, row in rows.items()
        for other in RIVALS
        if other in row.final.unavailable
    }
    for (name, other), why in absent.items():
        yield f"- {name}, torch {other}: N/A, {why}"
    waiting = [name for name, one in results.items() if one is None]
    if waiting:
        yield f"- not finished yet: {', '.join(waiting)}"


def _list_reasons(reasons: dict[str, str]) -> str:
    return "".join(f"; {name}: {why}" for name, why in reasons.items())


def machine(runs: Path, results: dict[str, Result]) -> str:
    """What the newest run's environment record says of the machine."""
    found = [Path(one.summary.workspace) for one in results.values() if isinstance(one, Row)]
    if not found:
        return "no run has finished"
    record = Records(max(found, key=lambda path: path.name[-16:])).find(record_key("environment"))
    assert record is not None
    environment = Environment.model_validate(record.payload)
    wanted = ("device cpu:0", "operating system", "cpp compiler", "python", "torch")
    said = {item.name: item.value for item in environment.items if item.name in wanted}
    return "; ".join(f"{name.removeprefix('device ')}: {said[name]}" for name in wanted if name in said)


def table(results: dict[str, Result], runs: Path, command: str) -> str:
    """The whole page."""
    rows = [table_row(name, one) for name, one in results.items() if isinstance(one, Row)]
    first = PAGE.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=machine(runs, results),
        commits=commits(runs, results),
        command=command,
        **SETTINGS["search"],
        **SETTINGS["budget"],
    )
    return "\n".join([first, *rows, "", *counts(results), ""])


def main(argv: Sequence[str] | None = None) -> None:
    known = kernel_names()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.foreign", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"default: all; {', '.join(known)}")
    parser.add_argument("--runs", type=Path, default=RUNS, help=f"where workspaces are kept (default: {RUNS})")
    parser.add_argument(
        "--table", type=Path, default=TABLE, help="the page to write (default: benchmarks/results/foreign.md)"
    )
    parser.add_argument("--again", action="store_true", help="new runs of the kernels named, also where they finished")
    parser.add_argument(
        "--render", action="store_true", help="write the page from the runs that are there, run nothing"
    )
    options = parser.parse_args(argv)
    unknown = [name for name in options.kernels if name not in known]
    if unknown:
        parser.error(f"there is no kernel {unknown[0]!r}; choose from {', '.join(known)}")
    runs = options.runs.resolve()
    command = " ".join(["python -m benchmarks.foreign", *options.kernels])
    results = {name: result(name, runs) for name in known}
    for name in () if options.render else options.kernels or known:
        print(f"{name} …", end=" ", flush=True)
        run_or_resume(name, runs, again=options.again)
        results[name] = result(name, runs)
        options.table.write_text(table(results, runs, command))
        one = results[name]
        print(one if isinstance(one, str) else one.summary.sentence() if one else "no result", flush=True)
    options.table.write_text(table(results, runs, command))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)
