"""One verb for each deterministic tool: `python -m tools VERB --help`. No language model, no workspace; results go to
stdout.

Exit codes: 0 done (a kernel that fails is an answer), 1 `screen` refuses the kernel, 2 input that cannot be used, 4 the
machine failed, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.cli.signals import run_as_process
from tools.cli.suggestions import Parser, run_command
from tools.errors import SettingsError

if TYPE_CHECKING:
    from tools.executors.base import Executor
    from tools.store.records import Records
    from tools.tasks.loader import Loaded
    from tools.tasks.opened import Opened

Verb = Callable[[argparse.Namespace], int | None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run one verb, and return the exit code."""

    def run() -> int:
        options = _parser().parse_args(arguments)
        verb: Verb = options.run
        return verb(options) or 0

    return run_command(run, arguments)


def _parser() -> Parser:
    described, _, exits = (__doc__ or "").strip().partition("\n\n")
    parser = Parser(prog="python -m tools", description=described, epilog=exits)
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="keep records and blobs here, and reuse those that answer already"
    )
    held = "observe (default), or lock those of the GPU meanwhile, where this user may (root)"
    parser.add_argument("--clocks", choices=("observe", "lock"), default="observe", metavar="HOW", help=held)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    env = verbs.add_parser("env", help="what this machine has, what it lacks, and how to mend that")
    env.add_argument("--json", action="store_true", help="the whole environment as JSON instead of a table")
    env.set_defaults(run=_env)

    ceilings = verbs.add_parser("ceilings", help="measure the roofs of this machine (about five seconds)")
    ceilings.add_argument("--language", default="cpp", help="whose compiler builds the program (default: cpp)")
    ceilings.set_defaults(run=_ceilings)

    bandwidth = verbs.add_parser(
        "bandwidth", help="what each way to go through memory reaches here: every try of the ceiling's measurement"
    )
    bandwidth.add_argument(
        "--language", default="cpp", help="cpp: this machine's own memory; triton or cuda: the GPU's (default: cpp)"
    )
    bandwidth.set_defaults(run=_bandwidth)

    def verb(name: str, run: Verb, text: str, as_json: str = "") -> Parser:
        """A verb about a task; `as_json`: help of its option."""
        made = verbs.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        made.add_argument(
            "folder", nargs="?", type=Path, metavar="TASK", help="task folder with reference.py and kernel.<ext>"
        )
        made.add_argument("--task", type=Path, metavar="FOLDER", help="the same")
        made.add_argument("--kernel", type=Path, metavar="FILE", help="kernel file, with --ref, instead of --task")
        made.add_argument("--ref", type=Path, metavar="FILE", help="its reference.py")
        made.add_argument(
            "--dims", nargs="+", default=[], metavar="N=1024", help="sizes and scalars; several workloads apart by ';'"
        )
        made.add_argument(
            "--ptr-size", type=int, default=0, metavar="ELEMENTS", help="seed style: elements of every pointer"
        )
        if as_json:
            made.add_argument("--json", action="store_true", help=as_json)
        return made

    verb(
        "check",
        _check,
        "does the kernel compile, agree with its reference, and run? prints the contract that was inferred",
    )
    profile = verb("profile", _profile, "compiler remarks, instruction mix and the findings of the rules, as JSON")
    profile.add_argument(
        "--profiler", help="name or package.module:Class (default: the first that fits the kernel's device)"
    )
    under = "time the kernel and place each workload under the measured roofs"
    verb("roofline", _roofline, under, "one JSON object instead of a table")
    verb("time", _time, "seconds of one call of the kernel on each workload, and the noise that they were measured in")
    reached = (
        "what the kernel reaches of the measured roofs; `python -m knowledge_base utilisation PRODUCT TASK`: of "
        "the cited ones, too"
    )
    verb("utilisation", _utilisation, reached)
    slow = "why is the kernel slow? of a task, or of reports of Nsight Compute; changes nothing"
    diagnose = verb("diagnose", _diagnose, slow, "one JSON object instead of text")
    reports = (
        "instead of a task: .ncu-rep, the raw or details page as CSV, the details page as text; --kernel NAME chooses"
    )
    diagnose.add_argument("reports", nargs="*", type=Path, metavar="REPORT", help=reports)
    screen = verb("screen", _screen, "what the screen refuses in a kernel, before anything is built (exit code 1)")
    screen.add_argument("--candidate", type=Path, metavar="FILE", help="another kernel file than the task's own")
    noise = "time the kernel against a copy of itself (A/A): its times, and the noise floor under which no gain counts"
    verb("calibrate", _calibrate, noise)
    judge = verb("judge", _judge, "judge one candidate file against the task's kernel; prints the trial as JSON")
    judge.add_argument("--candidate", type=Path, required=True, metavar="FILE", help="the candidate kernel")
    bench = verb("bench", _bench, "time the kernel against torch eager and torch.compile in separate processes")
    bench.add_argument("--against", type=Path, metavar="FILE", help="another kernel file to race")
    bench.add_argument("--rounds", type=int, help="rounds a workload (default: the judge's)")
    sass = verb(
        "sass",
        _sass,
        "machine code of the kernel (SASS on an NVIDIA GPU, else the CPU's own), or whether a pattern is in it",
    )
    sass.add_argument(
        "--pattern", help="regular expression, or @name of tools/analysis/signatures.yaml; prints the check as JSON"
    )
    return parser


def _loaded(options: argparse.Namespace, executor: Executor, records: Records) -> Loaded:
    from tools.tasks import loader

    if options.task is not None and options.folder is not None:
        raise SettingsError(f"--task {options.task} and {options.folder} are two task folders; give one")
    folder = options.task or options.folder
    if folder is not None:
        if options.kernel or options.ref:
            raise SettingsError("--task and --kernel exclude each other; give a folder, or two files")
        if options.dims or options.ptr_size:
            given = "--dims" if options.dims else "--ptr-size"
            raise SettingsError(
                f"{given} goes with --kernel and --ref; the sizes of a task folder stand in its reference.py, as "
                f"`workloads`"
            )
        return loader.load_folder(folder, executor, records.blobs)
    if options.kernel is None or options.ref is None:
        raise SettingsError("no task is given; name its folder, or use --kernel FILE with --ref FILE and --dims")
    return loader.load_files(
        options.kernel, options.ref, " ".join(options.dims), executor, records.blobs, pointer_elements=options.ptr_size
    )


@contextmanager
def _task(options: argparse.Namespace) -> Iterator[Opened]:
    from tools.tasks.opened import Opened, machine

    with machine(options.store, options.clocks) as (executor, records):
        emit = lambda event, fields: print(f"{event}: {' '.join(fields.values())}", file=sys.stderr)  # noqa: E731
        yield Opened(_loaded(options, executor, records), executor, records, emit)


# ---------------------------------------------------------------- verbs


def _env(options: argparse.Namespace) -> None:
    from tools.environment import inspect
    from tools.languages.base import LANGUAGES, open_language
    from tools.tasks.opened import machine

    with machine(options.store, options.clocks) as (executor, records):
        found = inspect(executor, map(open_language, LANGUAGES), records.blobs)
    print(found.model_dump_json(indent=1) if options.json else found.to_markdown())


def _ceilings(options: argparse.Namespace) -> None:
    from tools.languages.base import open_language
    from tools.roofline.microbenchmarks import read_or_measure_roofs
    from tools.tasks.opened import machine

    with machine(options.store, options.clocks) as (executor, records):
        for roof in read_or_measure_roofs(open_language(options.language), executor, records):
            doubt = f" ({roof.doubt})" if roof.doubt else ""
            print(f"{roof.metric:<18} {roof.value:.4g} {roof.unit}  {roof.origin}, record {roof.source}{doubt}")


def _bandwidth(options: argparse.Namespace) -> None:
    from tools.languages.base import open_language
    from tools.roofline.microbenchmarks import read_or_measure_roofs
    from tools.tasks.opened import machine

    with machine(options.store, options.clocks) as (executor, records):
        roofs = read_or_measure_roofs(open_language(options.language), executor, records)
        for roof in (roof for roof in roofs if roof.metric == "memory_bandwidth"):
            for pattern, tries in records.get(roof.source).payload["bandwidth"].items():
                least, most = min(tries), max(tries)
                print(
                    f"{pattern:<12} {most:.4g} B/s at best, {least:.4g} at worst of {len(tries)} tries, record "
                    f"{roof.source}"
                )


def _time(options: argparse.Namespace) -> None:
    from tools.cli.formatting import format_percent, format_seconds
    from tools.judge import evidence

    with _task(options) as opened:
        record = opened.timed
        for workload, taken in evidence.incumbent_seconds(record).items():
            print(f"{workload}: {format_seconds(taken)}")
        print(
            f"against itself it differs by up to {format_percent(evidence.noise_floor(record, opened.judge.policy.objective))}"
        )


def _utilisation(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import render_utilisation

    with _task(options) as opened:
        print(render_utilisation(opened.task, opened.placed(), ()))


def _check(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _task(options) as opened:
        kernel, task, language = opened.kernel, opened.task, opened.language
        print(f"task {task.name} ({task.identity()[:12]}), language {language.name}, {language.toolchain().version}")
        for argument in task.arguments:
            print(f"  {argument.role:<7}{argument.dtype:<9}{argument.name} {' x '.join(argument.shape)}")
        for sentence in task.inferred:
            print(f"  {sentence}")
        opened.library()
        failed = evidence.correctness_failure(opened.judge.read_or_check_correctness(kernel, None, "baseline"))
        if failed is not None:
            raise SettingsError(
                f"the kernel and the reference disagree: {failed.reason.rstrip('.')}; mend the one that is wrong"
            )
        times = evidence.incumbent_seconds(opened.timed)
        for seen in opened.loaded.workloads:
            count = "not counted" if seen.flops is None else f"{seen.flops:.4g}"
            print(f"  {seen.name}: {times[seen.name]:.4g} s, operations {count}, {seen.unique_bytes} bytes")
        print("the kernel compiles, agrees with the reference and is timed")


def _profile(options: argparse.Namespace) -> None:
    from tools.analysis import rules
    from tools.artifacts import Quantity

    with _task(options) as opened:
        seen = opened.profile(options.profiler or "", "--profiler")
        if isinstance(seen, str):
            raise SettingsError(seen)
        device = next((device for device in opened.executor.devices() if device.kind == opened.language.device), None)
    units = {"device.units": Quantity(value=float(device.units), unit="units")} if device else {}
    findings = [finding.model_dump(mode="json") for finding in rules.evaluate_rules([(seen[0], "")], units)]
    print(json.dumps({"profile": seen[0].model_dump(mode="json"), "findings": findings}, indent=1))


def _roofline(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import render_roofline

    with _task(options) as opened:
        placed = opened.placed()
    print(placed.model_dump_json(indent=1) if options.json else render_roofline(placed))


def _diagnose(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import render_diagnosis

    if options.reports or (options.folder is not None and options.folder.suffix and not options.folder.is_dir()):
        _diagnose_reports([options.folder, *options.reports], str(options.kernel or ""), as_json=options.json)
        return
    with _task(options) as opened:
        found = opened.diagnosed()
    print(
        found.model_dump_json(indent=1)
        if options.json
        else render_diagnosis(found, opened.task.language, kept=options.store is not None)
    )


def _diagnose_reports(paths: Sequence[Path], kernel: str, *, as_json: bool) -> None:
    from tools.profilers import ncu, ncu_diagnosis, ncu_reports

    found = ncu_reports.merge_pages(
        launch for path in paths for launch in ncu_reports.read_report(path, ncu.find_ncu())
    )
    report = ncu_diagnosis.ReportDiagnosis(
        kernels=tuple(ncu_diagnosis.diagnose_launch(launch) for launch in ncu_reports.select_kernels(found, kernel))
    )
    print(report.model_dump_json(indent=1) if as_json else ncu_diagnosis.render_report(report))


def _screen(options: argparse.Namespace) -> int:
    from tools.screen.screen import screen

    with _task(options) as opened:
        kernel = opened.file(options.candidate) if options.candidate else opened.kernel
    refused = screen(kernel.source, kernel.language, tensors=opened.task.tensors, library=opened.task.library or ())
    print("\n".join(refused) or "nothing is refused")
    return 1 if refused else 0


def _calibrate(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _task(options) as opened:
        calibration = opened.timed
    floor = evidence.noise_floor(calibration, opened.judge.policy.objective)
    print(
        json.dumps(
            {"record": calibration.id, "seconds": evidence.incumbent_seconds(calibration), "noise_floor": floor},
            indent=1,
        )
    )


def _judge(options: argparse.Namespace) -> None:
    with _task(options) as opened:
        opened.library()
        trial = opened.judge.judge(
            opened.file(options.candidate), opened.kernel, opened.kernel, siblings=1, iteration=0
        )
    print(trial.model_dump_json(indent=1))


def _bench(options: argparse.Namespace) -> None:
    from tools.gate import confirmation

    with _task(options) as opened:
        racers = {"kernel": opened.kernel} | ({"against": opened.file(options.against)} if options.against else {})
        for kernel in racers.values():
            opened.library(kernel)
        record = opened.judge.read_or_measure_benchmark(racers, rounds=options.rounds)
    problem = confirmation.contest_problem(record)
    if problem:
        raise SettingsError(f"{opened.task.name}: {problem}")
    for workload, seconds in confirmation.median_seconds(record).items():
        print(f"{workload}: " + ", ".join(f"{name} {time:.4g} s" for name, time in seconds.items()))
    for name, reason in record.payload["result"]["unavailable"].items():
        print(f"{name}: N/A, {reason}")


def _sass(options: argparse.Namespace) -> None:
    from tools.analysis import signatures

    with _task(options) as opened:
        text, architecture = opened.listed()
    if options.pattern:
        print(signatures.check_signature(text, architecture, {architecture: options.pattern}).model_dump_json(indent=1))
    else:
        print(signatures.entry_assembly(text))


if __name__ == "__main__":
    run_as_process(main)
