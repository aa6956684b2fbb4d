"""Contracts of all problems of public suites at their own sizes: python -m benchmarks.contracts SUITE=PATH …

A PATH is a folder that holds the suite's problems. The question for each is whether `check --problem` prints a contract,
and after how long; nothing is lifted or timed. One answer a problem is kept, and the same command goes on where it
stopped. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import torch

from tools.errors import KernelwrightError, UnusableTaskError
from tools.executors.base import Executor
from tools.store.blobs import write_atomically
from tools.store.records import Records
from tools.tasks.loader import load_task_folder
from tools.tasks.suites import recognise_suite, write_task_folder
from tools.tasks.task_handle import open_machine

RUNS = Path("workspaces/contracts")
TABLE = Path(__file__).parent / "results" / "contracts.md"
PROBLEMS = ("*.py", "definition.json", "definitions/**/*.json", "task.yml")
"""Files that may be a problem: of KernelBench, of SOL-ExecBench, of FlashInfer-Bench, of GPU MODE."""
ELSEWHERE = r"^(?:reference\.py|/\S+): | \(/\S+\)"
"""Pattern of the names of files, and of the Python that runs jobs, in a reason."""
PAGE = """\
# Contracts of public problems

{date}, torch {torch}, two virtual cores that others kept busy, 10 GB of memory, no GPU, no model. Command: `python -m benchmarks.contracts {command}`.

Every problem of each folder, at its own sizes. "Contract": `check --problem` prints the arguments with their types and
shapes, the workloads and the ranges. "Values not checked": the contract is of shapes alone, since a call takes this
machine too long. "Refused after it": the contract is printed, and a sentence says why no run begins.

| suite | problems | contract | values not checked | refused after it | no contract | seconds, median | slowest |
|---|---|---|---|---|---|---|---|
"""


def find_problems(root: Path) -> Iterator[Path]:
    """Yield the problems below a folder, in the order of their paths."""
    files = {path for pattern in PROBLEMS for path in root.rglob(pattern)}
    tasks = {path.parent for path in files if path.name == "task.yml"}
    for path in sorted(files):
        is_module = path.suffix == ".py"
        if not is_module or (not tasks & {*path.parents} and "class Model(" in path.read_text(encoding="utf-8")):
            yield path


def try_problem(problem: Path, folder: Path, executor: Executor, records: Records) -> dict[str, str | float]:
    """Return what was found: `reason` (empty: there is a contract), `refused`, `unchecked` and `seconds`."""
    begun, found = time.monotonic(), {"reason": "", "refused": "", "unchecked": ""}
    shutil.rmtree(folder, ignore_errors=True)
    try:
        loaded = load_task_folder(write_task_folder(problem, folder, "")[0], executor, records.blobs)
        found["unchecked"] = next((note for note in loaded.task.inferred if "are not checked" in note), "")
    except UnusableTaskError as error:
        found["refused"] = str(error)
    except KernelwrightError as error:
        found["reason"] = str(error)
    return found | {"seconds": round(time.monotonic() - begun, 1)}


def write_page(answers: dict[str, dict[str, dict[str, str | float]]]) -> str:
    """Return the page: suite -> problem -> what was found."""
    command = " ".join(f"{suite}=PATH" for suite in answers)
    page = PAGE.format(date=f"{datetime.now(UTC):%Y-%m-%d}", torch=torch.__version__, command=command)
    for suite, found in answers.items():
        count = {key: sum(bool(one[key]) for one in found.values()) for key in ("unchecked", "refused", "reason")}
        seconds = [float(one["seconds"]) for one in found.values()]
        page += (
            f"| {suite} | {len(found)} | {len(found) - count['reason']} | {count['unchecked']} | {count['refused']} | "
            f"{count['reason']} | {median(seconds):.0f} | {max(seconds):.0f} |\n"
        )
    for key, title in (("reason", "No contract"), ("refused", "Refused after the contract")):
        lines = [
            f"| {suite}: {name} | {re.sub(ELSEWHERE, '', str(one[key]).splitlines()[0])} |"
            for suite, found in answers.items()
            for name, one in found.items()
            if one[key]
        ]
        page += "\n".join(["", f"## {title}", "", "| problem | reason |", "|---|---|", *lines, ""]) if lines else ""
    return page


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.contracts", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "suites", nargs="+", metavar="SUITE=PATH", help="a name, and the folder that holds its problems"
    )
    parser.add_argument("--runs", type=Path, default=RUNS, help=f"where answers are kept (default: {RUNS})")
    options = parser.parse_args(argv)
    answers: dict[str, dict[str, dict[str, str | float]]] = {}
    with open_machine(options.runs / "records") as (executor, records):
        for suite, _, root in (text.partition("=") for text in options.suites):
            for problem in (path for path in find_problems(Path(root)) if recognise_suite(path)):
                shown = problem.relative_to(root)
                name = str(shown.parent if problem.stem in ("definition", "task") else shown.with_suffix(""))
                folder = options.runs / suite.replace(" ", "_") / name.replace("/", "__")[:64]
                kept = folder.with_name(f"{folder.name}.json")
                if not kept.is_file():
                    found = try_problem(problem, folder, executor, records)
                    write_atomically(kept, json.dumps(found, indent=1).encode())
                    print(f"{suite}: {name} {found}", flush=True)
                answers.setdefault(suite, {})[name] = json.loads(kept.read_text())
    TABLE.write_text(write_page(answers))


if __name__ == "__main__":
    main()
