"""The code of torch.compile for references alone, lifted, judged and timed beside torch: python -m benchmarks.lifted
[TASK...].

`--language cpp` on this CPU (the default), `--language triton` on a GPU, where three tasks more are measured and the
time of the device alone stands below that with launches. results/lifted.md is written anew after each task. No run and
no model take part: this is v0.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from agents.lift.from_reference import lift_reference
from benchmarks.foreign import commit
from benchmarks.results import copy_bandwidth
from tools.artifacts import Candidate, Record
from tools.cli.formatting import format_percent, format_seconds, format_speedup
from tools.errors import SettingsError
from tools.executors.base import Executor, pick_device
from tools.executors.local import LocalExecutor
from tools.gate import confirmation
from tools.gate.judge_settings import JudgeSettings
from tools.gate.ranking import rank_contestants
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.languages.base import open_language
from tools.roofline import microbenchmarks
from tools.store.records import Records
from tools.tasks import loader
from tools.tasks.inductor_code import generate_inductor_code

TASKS = Path(__file__).parent / "lifted"
TABLE = Path(__file__).parent / "results" / "lifted.md"
ON_GPU = ("attention", "gemm_gelu", "rms_norm")
"""On a CPU the first two are a library's."""
MEASUREMENT_TIMEOUT_S = 1800.0
"""For others to leave the device."""
RIVALS = ("eager", "compile", "max_autotune")
PAGE = """\
# The code of torch.compile for references, lifted

{date}; {device}, {units} units; torch {torch}; Kernelwright at {commit}. Command: `{command}`.

Each reference of `benchmarks/lifted/` becomes one source without a model. It is checked on the visible sizes, on ragged hidden ones and on
other distributions, and timed beside torch, each contestant in a process of its own. Brackets are 95 % intervals of paired ratios over all
workloads; below 1 is a loss; † other load disturbed the final benchmark. The share of the copy bandwidth counts the bytes of each argument once.

| task | lifted in | built in | source | checked | clock | lifted | over eager | over compile | over max-autotune | of copy |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def folder(name: str, language: str, root: Path) -> Path:
    """The task as a user would have it."""
    made = root / name
    made.mkdir()
    (made / "task.yaml").write_text(f"language: {language}\n")
    larger = "\nworkloads = gpu_workloads\n" if language != "cpp" and name not in ON_GPU else ""
    (made / "reference.py").write_text((TASKS / name / "reference.py").read_text() + larger)
    return made


def measure_task(task: Path, executor: Executor, records: Records) -> Iterator[str]:
    """The lines of one task."""
    loaded = loader.load_task_folder(task, executor, records.blobs)
    begun = time.monotonic()
    language, found = (
        open_language(loaded.task.language),
        generate_inductor_code(loaded.task, executor, records.blobs, JudgeSettings().job_limit_s),
    )
    kernel = Candidate(language=language.name, files={f"kernel{language.suffix}": lift_reference(loaded.task, found)})
    done = time.monotonic()
    device = pick_device(executor.devices(), language.device)
    parts = (loaded.task, language, executor, records)
    judge = Judge(
        *parts,
        environment="",
        device=device.name,
        secret=secrets.token_bytes(32),
        policy=JudgeSettings(),
        emit=lambda kind, more: None,
    )
    failed = judge.screen_failure(kernel) or evidence.build_failure(judge.builder.read_or_build(kernel))
    built = time.monotonic()
    failed = failed or evidence.correctness_failure(judge.read_or_check_correctness(kernel, None, "baseline"))
    head = [
        task.name,
        f"{done - begun:.1f} s",
        f"{built - done:.1f} s",
        f"{len(kernel.source) / 1000:.0f} kB",
        failed.reason if failed else "right",
    ]
    if failed:
        yield f"| {' | '.join(head)} |{' |' * 6}"
        return
    contest = judge.read_or_measure_benchmark({"lifted": kernel})
    moved = sum(
        w.weight * next(s.unique_bytes for s in loaded.workloads if s.name == w.name) for w in loaded.task.workloads
    )
    microbenchmarks.read_or_measure_roofs(language, executor, records)
    busy = " †" if confirmation.any_disturbed([contest]) else ""
    clocks: dict[str, Record | None] = {
        "with launches" if language.device != "cpu" else "wall": contest,
        "device": confirmation.with_device_times(contest),
    }
    for clock, record in clocks.items():
        if record is not None:
            placed = rank_contestants(record, "total_time", anchor="lifted", best="lifted").overall
            against = [
                format_speedup(one) if (one := placed[n].against_best if n in placed else None) else "N/A"
                for n in RIVALS
            ]
            own = placed["lifted"].seconds
            share = format_percent(moved / own / rate) if (rate := copy_bandwidth(records)) else "N/A"
            yield f"| {' | '.join([*head, clock, f'{format_seconds(own)}{busy}', *against, share])} |"


def main(argv: Sequence[str] | None = None) -> None:
    known = sorted(path.parent.name for path in TASKS.glob("*/reference.py"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lifted", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"default: all; {', '.join(known)}")
    parser.add_argument(
        "--language", choices=("cpp", "triton"), default="cpp", help="cpp: on this CPU; triton: on a GPU (default: cpp)"
    )
    parser.add_argument(
        "--table", type=Path, default=TABLE, help="the page to write (default: benchmarks/results/lifted.md)"
    )
    options = parser.parse_args(argv)
    if unknown := [name for name in options.tasks if name not in known]:
        parser.error(f"there is no task {unknown[0]!r}; choose from {', '.join(known)}")
    names = options.tasks or [name for name in known if options.language != "cpp" or name not in ON_GPU]
    command = " ".join(
        [
            "python -m benchmarks.lifted",
            *options.tasks,
            *(["--language triton"] if options.language == "triton" else []),
        ]
    )
    page = ""
    for name in names:
        # An executor each: torch.compile remembers the first reference's module by its name.
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary)
            (root / "scratch").mkdir()
            records = Records(root / "records")
            with LocalExecutor(records.blobs, root / "scratch", lock_wait_s=MEASUREMENT_TIMEOUT_S) as executor:
                device = pick_device(executor.devices(), open_language(options.language).device)
                said = {
                    "date": f"{datetime.now(UTC):%Y-%m-%d}",
                    "torch": version("torch"),
                    "commit": commit(),
                    "command": command,
                }
                page = page or PAGE.format(device=device.name, units=device.units, **said)
                try:
                    lines = list(measure_task(folder(name, options.language, root), executor, records))
                except SettingsError as error:
                    lines = [f"| {name} | not lifted: {error} |{' |' * 9}"]
        page += "".join(f"{line}\n" for line in lines)
        options.table.write_text(page)
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
