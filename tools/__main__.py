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

from tools.cli.signals import process
from tools.cli.suggestions import Parser, answered
from tools.errors import SettingsError

if TYPE_CHECKING:
    from tools.executors.base import Executor
    from tools.store.records import Records
    from tools.tasks.loader import LoadedTask
    from tools.tasks.task_handle import TaskHandle

Verb = Callable[[argparse.Namespace], int | None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run one verb, and return the exit code."""

    def run() -> int:
        options = _build_parser().parse_args(arguments)
        verb: Verb = options.run
        return verb(options) or 0

    return answered(run, arguments)


def _build_parser() -> Parser:
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
    env.set_defaults(run=_print_environment)

    ceilings = verbs.add_parser("ceilings", help="measure the roofs of this machine (about five seconds)")
    ceilings.add_argument("--language", default="cpp", help="whose compiler builds the program (default: cpp)")
    ceilings.set_defaults(run=_print_ceilings)

    bandwidth = verbs.add_parser(
        "bandwidth", help="what each way to go through memory reaches here: every try of the ceiling's measurement"
    )
    bandwidth.add_argument(
        "--language", default="cpp", help="cpp: this machine's own memory; triton or cuda: the GPU's (default: cpp)"
    )
    bandwidth.set_defaults(run=_print_bandwidth)

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
        _check_task,
        "does the kernel compile, agree with its reference, and run? prints the contract that was inferred",
    )
    profile = verb(
        "profile", _print_profile, "compiler remarks, instruction mix and the findings of the rules, as JSON"
    )
    profile.add_argument(
        "--profiler", help="name or package.module:Class (default: the first that fits the kernel's device)"
    )
    under = "time the kernel and place each workload under the measured roofs"
    verb("roofline", _print_roofline, under, "one JSON object instead of a table")
    verb(
        "time",
        _print_times,
        "seconds of one call of the kernel on each workload, and the noise that they were measured in",
    )
    reached = (
        "what the kernel reaches of the measured roofs; `python -m knowledge_base utilisation PRODUCT TASK`: of "
        "the cited ones, too"
    )
    verb("utilisation", _print_utilisation, reached)
    slow = "why is the kernel slow? of a task, or of reports of Nsight Compute; changes nothing"
    diagnose = verb("diagnose", _print_diagnosis, slow, "one JSON object instead of text")
    reports = (
        "instead of a task: .ncu-rep, the raw or details page as CSV, the details page as text; --kernel NAME chooses"
    )
    diagnose.add_argument("reports", nargs="*", type=Path, metavar="REPORT", help=reports)
    drawn = "of reports: also write charts and findings, each linked to its metrics, to one file"
    diagnose.add_argument("--html", type=Path, metavar="FILE", help=drawn)
    screen = verb(
        "screen", _screen_kernel, "what the screen refuses in a kernel, before anything is built (exit code 1)"
    )
    screen.add_argument("--candidate", type=Path, metavar="FILE", help="another kernel file than the task's own")
    noise = "time the kernel against a copy of itself (A/A): its times, and the noise floor under which no gain counts"
    verb("calibrate", _print_calibration, noise)
    judge = verb(
        "judge", _judge_candidate, "judge one candidate file against the task's kernel; prints the trial as JSON"
    )
    judge.add_argument("--candidate", type=Path, required=True, metavar="FILE", help="the candidate kernel")
    bench = verb(
        "bench", _print_benchmark, "time the kernel against torch eager and torch.compile in separate processes"
    )
    bench.add_argument("--against", type=Path, metavar="FILE", help="another kernel file to race")
    bench.add_argument("--rounds", type=int, help="rounds a workload (default: the judge's)")
    sass = verb(
        "sass",
        _print_assembly,
        "machine code of the kernel (SASS on an NVIDIA GPU, else the CPU's own), or whether a pattern is in it",
    )
    sass.add_argument(
        "--pattern", help="regular expression, or @name of tools/analysis/signatures.yaml; prints the check as JSON"
    )
    return parser


def _load_task(options: argparse.Namespace, executor: Executor, records: Records) -> LoadedTask:
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
        return loader.load_task_folder(folder, executor, records.blobs)
    if options.kernel is None or options.ref is None:
        raise SettingsError("no task is given; name its folder, or use --kernel FILE with --ref FILE and --dims")
    return loader.load_task_files(
        options.kernel, options.ref, " ".join(options.dims), executor, records.blobs, pointer_elements=options.ptr_size
    )


@contextmanager
def _open_task(options: argparse.Namespace) -> Iterator[TaskHandle]:
    from tools.tasks.task_handle import TaskHandle, open_local_machine

    with open_local_machine(options.store, options.clocks) as (executor, records):
        emit = lambda event, fields: print(f"{event}: {' '.join(fields.values())}", file=sys.stderr)  # noqa: E731
        yield TaskHandle(_load_task(options, executor, records), executor, records, emit)


# ---------------------------------------------------------------- verbs


def _print_environment(options: argparse.Namespace) -> None:
    from tools.environment import inspect_environment
    from tools.languages.base import LANGUAGES, open_language
    from tools.tasks.task_handle import open_local_machine

    with open_local_machine(options.store, options.clocks) as (executor, records):
        found = inspect_environment(executor, map(open_language, LANGUAGES), records.blobs)
    print(found.model_dump_json(indent=1) if options.json else found.to_markdown())


def _print_ceilings(options: argparse.Namespace) -> None:
    from tools.languages.base import open_language
    from tools.roofline.microbenchmarks import measure
    from tools.tasks.task_handle import open_local_machine

    with open_local_machine(options.store, options.clocks) as (executor, records):
        for roof in measure(open_language(options.language), executor, records):
            doubt = f" ({roof.doubt})" if roof.doubt else ""
            print(f"{roof.metric:<18} {roof.value:.4g} {roof.unit}  {roof.origin}, record {roof.source}{doubt}")


def _print_bandwidth(options: argparse.Namespace) -> None:
    from tools.languages.base import open_language
    from tools.roofline.microbenchmarks import measure
    from tools.tasks.task_handle import open_local_machine

    with open_local_machine(options.store, options.clocks) as (executor, records):
        roofs = measure(open_language(options.language), executor, records)
        for roof in (roof for roof in roofs if roof.metric == "memory_bandwidth"):
            for pattern, tries in records.get(roof.source).payload["bandwidth"].items():
                least, most = min(tries), max(tries)
                print(
                    f"{pattern:<12} {most:.4g} B/s at best, {least:.4g} at worst of {len(tries)} tries, record "
                    f"{roof.source}"
                )


def _print_times(options: argparse.Namespace) -> None:
    from tools.cli.formatting import percent, seconds
    from tools.judge import evidence

    with _open_task(options) as opened:
        record = opened.timed
        for workload, taken in evidence.seconds(record).items():
            print(f"{workload}: {seconds(taken)}")
        print(
            f"against itself it differs by up to {percent(evidence.noise_floor(record, opened.judge.policy.objective))}"
        )


def _print_utilisation(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import utilisation_text

    with _open_task(options) as opened:
        print(utilisation_text(opened.task, opened.placed(), ()))


def _check_task(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _open_task(options) as opened:
        kernel, task, language = opened.kernel, opened.task, opened.language
        print(f"task {task.name} ({task.identity()[:12]}), language {language.name}, {language.toolchain().version}")
        for argument in task.arguments:
            print(f"  {argument.role:<7}{argument.dtype:<9}{argument.name} {' x '.join(argument.shape)}")
        for sentence in task.inferred:
            print(f"  {sentence}")
        opened.library()
        failed = evidence.correctness_failure(opened.judge.correctness(kernel, None, "baseline"))
        if failed is not None:
            raise SettingsError(
                f"the kernel and the reference disagree: {failed.reason.rstrip('.')}; mend the one that is wrong"
            )
        times = evidence.seconds(opened.timed)
        for seen in opened.loaded.workloads:
            count = "not counted" if seen.flops is None else f"{seen.flops:.4g}"
            print(f"  {seen.name}: {times[seen.name]:.4g} s, operations {count}, {seen.unique_bytes} bytes")
        print("the kernel compiles, agrees with the reference and is timed")


def _print_profile(options: argparse.Namespace) -> None:
    from tools.analysis import rules
    from tools.artifacts import Quantity

    with _open_task(options) as opened:
        seen = opened.profile(options.profiler or "", "--profiler")
        if isinstance(seen, str):
            raise SettingsError(seen)
        device = next((device for device in opened.executor.devices() if device.kind == opened.language.device), None)
    units = {"device.units": Quantity(value=float(device.units), unit="units")} if device else {}
    findings = [finding.model_dump(mode="json") for finding in rules.evaluate([(seen[0], "")], units)]
    print(json.dumps({"profile": seen[0].model_dump(mode="json"), "findings": findings}, indent=1))


def _print_roofline(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import roofline_text

    with _open_task(options) as opened:
        placed = opened.placed()
    print(placed.model_dump_json(indent=1) if options.json else roofline_text(placed))


def _print_diagnosis(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import text

    if options.reports or (options.folder is not None and options.folder.suffix and not options.folder.is_dir()):
        _print_report_diagnosis(
            [options.folder, *options.reports], str(options.kernel or ""), options.html, as_json=options.json
        )
        return
    if options.html is not None:
        raise SettingsError(
            "--html goes with reports of Nsight Compute; of a task give --json, or name a report: diagnose "
            "report.ncu-rep --html FILE"
        )
    with _open_task(options) as opened:
        found = opened.diagnosed()
    print(
        found.model_dump_json(indent=1)
        if options.json
        else text(found, opened.task.language, kept=options.store is not None)
    )


def _print_report_diagnosis(paths: Sequence[Path], kernel: str, html: Path | None, *, as_json: bool) -> None:
    from tools.profilers import counted, ncu, page, reports

    found = reports.merged(launch for path in paths for launch in reports.read(path, ncu.program()))
    chosen = reports.choose(found, kernel)
    report = counted.Report(kernels=tuple(counted.diagnose(launch) for launch in chosen))
    if html is not None:
        try:
            html.write_text(page.html(tuple(zip(report.kernels, chosen, strict=True))), encoding="utf-8")
        except OSError as error:
            raise SettingsError(
                f"--html {html}: cannot be written ({error.strerror}); name a file in a folder that is there"
            ) from error
    print(report.model_dump_json(indent=1) if as_json else counted.text(report))


def _screen_kernel(options: argparse.Namespace) -> int:
    from tools.screen.screen import screen

    with _open_task(options) as opened:
        kernel = opened.file(options.candidate) if options.candidate else opened.kernel
    refused = screen(kernel.source, kernel.language, tensors=opened.task.tensors, library=opened.task.library or ())
    print("\n".join(refused) or "nothing is refused")
    return 1 if refused else 0


def _print_calibration(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _open_task(options) as opened:
        calibration = opened.timed
    floor = evidence.noise_floor(calibration, opened.judge.policy.objective)
    print(
        json.dumps({"record": calibration.id, "seconds": evidence.seconds(calibration), "noise_floor": floor}, indent=1)
    )


def _judge_candidate(options: argparse.Namespace) -> None:
    with _open_task(options) as opened:
        opened.library()
        trial = opened.judge.judge(
            opened.file(options.candidate), opened.kernel, opened.kernel, siblings=1, iteration=0
        )
    print(trial.model_dump_json(indent=1))


def _print_benchmark(options: argparse.Namespace) -> None:
    from tools.gate import confirmation

    with _open_task(options) as opened:
        racers = {"kernel": opened.kernel} | ({"against": opened.file(options.against)} if options.against else {})
        for kernel in racers.values():
            opened.library(kernel)
        record = opened.judge.benchmark(racers, rounds=options.rounds)
    problem = confirmation.problem(record)
    if problem:
        raise SettingsError(f"{opened.task.name}: {problem}")
    for workload, seconds in confirmation.seconds(record).items():
        print(f"{workload}: " + ", ".join(f"{name} {time:.4g} s" for name, time in seconds.items()))
    for name, reason in record.payload["result"]["unavailable"].items():
        print(f"{name}: N/A, {reason}")


def _print_assembly(options: argparse.Namespace) -> None:
    from tools.analysis import signatures

    with _open_task(options) as opened:
        text, architecture = opened.listed()
    if options.pattern:
        print(signatures.check(text, architecture, {architecture: options.pattern}).model_dump_json(indent=1))
    else:
        print(signatures.entry(text))


if __name__ == "__main__":
    process(main)
