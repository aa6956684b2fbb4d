"""KernelBench problems as tasks, at reduced sizes and without a GPU or a model: python -m benchmarks.kernelbench PATH.

PATH holds level1/, level2/ and so on, as that project publishes them. What is asked of each: is a contract inferred, is
v0 lifted from what torch.compile makes, and is it correct? One answer a problem is kept; the same command goes on where
it stopped. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from graph.lifecycle import initial_kernel
from tools.artifacts import Candidate
from tools.errors import InfrastructureError, SettingsError
from tools.executors.base import Executor
from tools.gate.judge_settings import JudgeSettings
from tools.judge import evidence
from tools.store.blobs import write_atomically
from tools.store.records import Records
from tools.tasks.kernelbench import problem_sizes
from tools.tasks.loader import load_task_folder
from tools.tasks.suites import write_task_folder
from tools.tasks.task_handle import TaskHandle, open_machine

RUNS = Path("workspaces/kernelbench")
TABLE = Path(__file__).parent / "results" / "kernelbench.md"
LIBRARY = "to a library"
LARGEST = 16
"""What numbers above it are reduced to, or nearly."""

PAGE = """\
# KernelBench, without a GPU and without a model

{date}, on a CPU. Command: `{command}`.

Each whole number above {largest} at a file's module level became its largest divisor of at most {largest}, or {largest} where that is
half of it or less. Where the problem refuses those sizes, all were divided by one number, or one of them kept its own value. All else is
the file's own.

"Contract": shapes, types and roles of all arguments are inferred. "Lifted": torch.compile leaves nothing to a library, so that v0 needs no
model. "Correct": the judge finds v0 right, as it does a first version of a run, on values drawn from a secret; nothing is timed.

| level | problems | contract | lifted | correct | left to a library |
|---|---|---|---|---|---|"""


def reduced_sizes(problem: Path) -> Iterator[dict[str, int]]:
    """Yield reduced sizes to try in order, until the problem accepts one."""
    large = {name: own for name, own in problem_sizes(problem).items() if own > LARGEST}
    least = {name: _least(own) for name, own in large.items()}
    yield least
    divisor = -(-max(large.values(), default=1) // LARGEST)
    yield {name: max(1, own // divisor) for name, own in large.items()}
    for kept in large:
        yield {name: value for name, value in least.items() if name != kept}


def _least(own: int) -> int:
    divisor = max(n for n in range(1, LARGEST + 1) if own % n == 0)
    return divisor if 2 * divisor > LARGEST else LARGEST


def try_problem(problem: Path, folder: Path, executor: Executor, records: Records) -> dict[str, str]:
    """Stage -> "" where it is passed, else the sentence why not: at the first sizes that have a contract, else at
    the first of all."""
    found: list[dict[str, str]] = []
    for dims in reduced_sizes(problem):
        found.append(_try_sizes(problem, folder, dims, executor, records))
        if found[-1].get("contract") == "" or "crashed" in found[-1]:
            return found[-1]
    return found[0]


def _try_sizes(
    problem: Path, folder: Path, dims: dict[str, int], executor: Executor, records: Records
) -> dict[str, str]:
    found = {"dims": " ".join(f"{name}={value}" for name, value in dims.items())}
    shutil.rmtree(folder, ignore_errors=True)
    try:
        loaded = load_task_folder(write_task_folder(problem, folder, found["dims"])[0], executor, records.blobs)
        found["contract"] = ""
        made = initial_kernel.lift_initial_kernel(loaded.task, executor, records.blobs, JudgeSettings().job_limit_s)
        (folder / "v0.cpp").write_text(made.source)
        found["lifted"] = ""
        found["correct"] = reason_wrong(TaskHandle(loaded, executor, records, lambda kind, details: None), made)
    except SettingsError as error:
        found["lifted" if "contract" in found else "contract"] = str(error)
    except InfrastructureError as error:
        found["crashed"] = str(error)
    return found


def reason_wrong(opened: TaskHandle, made: Candidate) -> str:
    """Why v0 is refused before it would be timed; empty: it is not."""
    judge = opened.judge
    fault = judge.screen_failure(made) or evidence.build_failure(judge.builder.read_or_build(made))
    fault = fault or evidence.correctness_failure(judge.read_or_check_correctness(made, None, "baseline"))
    return fault.reason if fault else ""


# ---------------------------------------------------------------- the table


def table(answers: dict[str, dict[str, str]], command: str) -> str:
    """The whole page."""
    lines = [PAGE.format(date=f"{datetime.now(UTC):%Y-%m-%d}", command=command, largest=LARGEST)]
    for level in sorted({name.partition("/")[0] for name in answers}):
        of = [one for name, one in answers.items() if name.startswith(f"{level}/")]
        passed = {stage: sum(one.get(stage) == "" for one in of) for stage in ("contract", "lifted", "correct")}
        library = sum(LIBRARY in one.get("lifted", "") for one in of)
        lines.append(f"| {level} | {len(of)} | {' | '.join(str(n) for n in passed.values())} | {library} |")
    for stage, title in (
        ("contract", "No contract"),
        ("lifted", "Not lifted"),
        ("correct", "Not correct"),
        ("crashed", "Crashed"),
    ):
        why = {name.partition("_")[0]: reason_kind(one[stage]) for name, one in answers.items() if one.get(stage)}
        lines += ["", f"## {title}: {len(why)}", ""] if why else []
        for said, count in Counter(why.values()).most_common():
            lines.append(f"- {count}: {said} ({', '.join(name for name, one in why.items() if one == said)})")
    return "\n".join([*lines, ""])


def reason_kind(reason: str) -> str:
    """A refusal without the name of the problem and the remedy, so that refusals of one kind are counted together."""
    said = (
        reason.partition("none could be written: ")[2]
        or reason.partition("reference.py: ")[2]
        or reason.splitlines()[0]
    )
    return said.partition("; give a kernel")[0]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernelbench", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="the folder that holds level1/, level2/ and so on")
    parser.add_argument("--every", type=int, default=1, help="only every so many files of each level, by name")
    parser.add_argument("--runs", type=Path, default=RUNS, help=f"where answers are kept (default: {RUNS})")
    parser.add_argument(
        "--table", type=Path, default=TABLE, help="the page to write (default: benchmarks/results/kernelbench.md)"
    )
    options = parser.parse_args(argv)
    files = [
        file for level in sorted(options.path.glob("level*")) for file in sorted(level.glob("*.py"))[:: options.every]
    ]
    if not files:
        parser.error(f"{options.path} holds no level1/*.py; name the folder KernelBench/ of that project's repository")
    answers: dict[str, dict[str, str]] = {}
    with open_machine(options.runs / "records") as (executor, records):
        for number, file in enumerate(files, start=1):
            folder = options.runs / file.parent.name / file.stem[:64]
            kept, begun = folder.with_name(f"{folder.name}.json"), time.monotonic()
            if not kept.is_file():
                found = try_problem(file, folder, executor, records)
                write_atomically(kept, json.dumps(found, indent=1).encode())
                print(f"{number}/{len(files)} {file.stem} {time.monotonic() - begun:.0f} s {found}", flush=True)
            answers[f"{file.parent.name}/{file.stem}"] = json.loads(kept.read_text())
    command = "python -m benchmarks.kernelbench PATH" + (f" --every {options.every}" if options.every > 1 else "")
    options.table.write_text(table(answers, command))


if __name__ == "__main__":
    main()
