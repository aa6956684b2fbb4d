"""One verb for each deterministic tool: `python -m tools VERB --help`. No verb uses a language model or a workspace;
results go to stdout.

Exit codes: 0 done (also for a kernel that fails), 1 `screen` refuses the kernel, 2 the input cannot be used, 4 the
machine failed, 6 a bundle of jobs waits for its results, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.cli.signals import run_as_process
from tools.cli.suggestions import Parser, add_machine_options, run_command
from tools.errors import SettingsError

if TYPE_CHECKING:
    from tools.executors.base import Executor
    from tools.store.records import Records
    from tools.tasks.loader import LoadedTask
    from tools.tasks.task_handle import TaskHandle

Verb = Callable[[argparse.Namespace], int | None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run one verb, and return the exit code."""

    def run() -> int:
        options = _build_parser().parse_args(arguments)
        verb: Verb = options.run
        return verb(options) or 0

    return run_command(run, arguments)


def _build_parser() -> Parser:
    description, _, exit_codes = (__doc__ or "").strip().partition("\n\n")
    parser = Parser(prog="python -m tools", description=description, epilog=exit_codes)
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="store records and blobs here, and reuse stored records"
    )
    add_machine_options(parser)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    env = verbs.add_parser("env", help="print what this machine has, what it lacks, and how to fix that")
    env.add_argument("--json", action="store_true", help="print the environment as JSON instead of a table")
    env.set_defaults(run=_print_environment)

    ceilings = verbs.add_parser("ceilings", help="measure the roofs of this machine (about five seconds)")
    ceilings.add_argument("--language", default="cpp", help="language whose compiler builds the program (default: cpp)")
    ceilings.set_defaults(run=_print_ceilings)

    bandwidth = verbs.add_parser(
        "bandwidth", help="measure the memory bandwidth of each access pattern, with all tries"
    )
    bandwidth.add_argument(
        "--language", default="cpp", help="cpp: memory of the host; triton or cuda: memory of the GPU (default: cpp)"
    )
    bandwidth.set_defaults(run=_print_bandwidth)

    def add_task_verb(name: str, run: Verb, text: str, json_help: str = "") -> Parser:
        """Add a verb that takes a task; `json_help` is the help of its option --json, which it otherwise lacks."""
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(run=run)
        verb.add_argument(
            "folder", nargs="?", type=Path, metavar="TASK", help="task folder with reference.py and kernel.<ext>"
        )
        verb.add_argument("--task", type=Path, metavar="FOLDER", help="the same as TASK")
        verb.add_argument(
            "--kernel", type=Path, metavar="FILE", help="kernel file, with --ref, instead of a task folder"
        )
        verb.add_argument("--ref", type=Path, metavar="FILE", help="reference.py of the kernel file")
        verb.add_argument(
            "--dims", nargs="+", default=[], metavar="N=1024", help="sizes and scalars; ';' separates workloads"
        )
        verb.add_argument(
            "--ptr-size", type=int, default=0, metavar="ELEMENTS", help="elements of every pointer in the seed style"
        )
        if json_help:
            verb.add_argument("--json", action="store_true", help=json_help)
        return verb

    add_task_verb(
        "check",
        _check_task,
        "check that the kernel compiles, agrees with its reference and can be timed; prints the inferred contract",
    )
    profile = add_task_verb(
        "profile", _print_profile, "print compiler remarks, instruction mix and findings of the rules as JSON"
    )
    profile.add_argument("--profiler", help="name or package.module:Class (default: the first for the kernel's device)")
    roofline_help = "time the kernel and compare each workload with the measured roofs"
    add_task_verb("roofline", _print_roofline, roofline_help, "print one JSON object instead of a table")
    add_task_verb("time", _print_times, "print the seconds of one call of the kernel on each workload, and their noise")
    utilisation_help = (
        "print the share of the measured roofs that the kernel reaches; `python -m knowledge_base utilisation "
        "PRODUCT TASK` adds the cited roofs"
    )
    add_task_verb("utilisation", _print_utilisation, utilisation_help)
    diagnose_help = "explain why the kernel of a task, or of reports of Nsight Compute, is slow"
    diagnose = add_task_verb("diagnose", _print_diagnosis, diagnose_help, "print one JSON object instead of text")
    reports_help = (
        "reports instead of a task: .ncu-rep, the raw or details page as CSV, or the details page as text; --kernel "
        "NAME selects a kernel"
    )
    diagnose.add_argument("reports", nargs="*", type=Path, metavar="REPORT", help=reports_help)
    screen = add_task_verb(
        "screen", _screen_kernel, "print what the screen refuses in a kernel before anything is built (exit code 1)"
    )
    screen.add_argument("--candidate", type=Path, metavar="FILE", help="kernel file instead of the task's own")
    calibrate_help = "time the kernel against a copy of itself (A/A); prints its times and the noise floor of a gain"
    add_task_verb("calibrate", _print_calibration, calibrate_help)
    judge = add_task_verb(
        "judge", _judge_candidate, "judge a candidate file against the task's kernel; prints the trial as JSON"
    )
    judge.add_argument("--candidate", type=Path, required=True, metavar="FILE", help="file of the candidate kernel")
    bench = add_task_verb(
        "bench", _print_benchmark, "time the kernel against torch eager and torch.compile in separate processes"
    )
    bench.add_argument("--against", type=Path, metavar="FILE", help="file of another kernel to time")
    bench.add_argument("--rounds", type=int, help="rounds per workload (default: the judge's setting)")
    sass = add_task_verb(
        "sass",
        _print_assembly,
        "print the machine code of the kernel (SASS on an NVIDIA GPU), or whether it contains a pattern",
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
            option = "--dims" if options.dims else "--ptr-size"
            raise SettingsError(
                f"{option} needs --kernel and --ref; the sizes of a task folder are `workloads` in its reference.py"
            )
        return loader.load_task_folder(folder, executor, records.blobs)
    if options.kernel is None or options.ref is None:
        raise SettingsError("no task is given; name a task folder, or use --kernel FILE with --ref FILE and --dims")
    return loader.load_task_files(
        options.kernel, options.ref, " ".join(options.dims), executor, records.blobs, pointer_elements=options.ptr_size
    )


def _open_machine(options: argparse.Namespace) -> AbstractContextManager[tuple[Executor, Records]]:
    from tools.executors.choice import parse_choice
    from tools.tasks.task_handle import open_machine

    return open_machine(options.store, options.clocks, parse_choice(options.executor))


@contextmanager
def _open_task(options: argparse.Namespace) -> Iterator[TaskHandle]:
    from tools.tasks.task_handle import TaskHandle

    with _open_machine(options) as (executor, records):
        emit = lambda event, fields: print(f"{event}: {' '.join(fields.values())}", file=sys.stderr)  # noqa: E731
        yield TaskHandle(_load_task(options, executor, records), executor, records, emit)


# ---------------------------------------------------------------- verbs


def _print_environment(options: argparse.Namespace) -> None:
    from tools.environment import inspect_environment
    from tools.executors.preflight import check_host
    from tools.languages.base import LANGUAGES, open_language

    with _open_machine(options) as (executor, records):
        host = check_host(executor, records.blobs)
        environment = inspect_environment(executor, map(open_language, LANGUAGES), records.blobs, host)
    print(environment.model_dump_json(indent=1) if options.json else environment.to_markdown())


def _print_ceilings(options: argparse.Namespace) -> None:
    from tools.languages.base import open_language
    from tools.roofline.microbenchmarks import read_or_measure_roofs

    with _open_machine(options) as (executor, records):
        for roof in read_or_measure_roofs(open_language(options.language), executor, records):
            remark = roof.doubt or f"{roof.agreeing} of {roof.repeats} measurements agree"
            print(f"{roof.metric:<18} {roof.value:.4g} {roof.unit}  {roof.origin}, record {roof.source} ({remark})")


def _print_bandwidth(options: argparse.Namespace) -> None:
    from tools.languages.base import open_language
    from tools.roofline.microbenchmarks import read_or_measure_roofs

    with _open_machine(options) as (executor, records):
        roofs = read_or_measure_roofs(open_language(options.language), executor, records)
        for roof in (roof for roof in roofs if roof.metric == "memory_bandwidth"):
            for pattern, tries in records.get(roof.source).payload["bandwidth"].items():
                print(
                    f"{pattern:<12} {max(tries):.4g} B/s at best, {min(tries):.4g} at worst of {len(tries)} tries, "
                    f"record {roof.source}"
                )


def _print_times(options: argparse.Namespace) -> None:
    from tools.cli.formatting import format_percent, format_seconds
    from tools.judge import evidence

    with _open_task(options) as handle:
        record = handle.calibration
        for workload, duration in evidence.incumbent_seconds(record).items():
            print(f"{workload}: {format_seconds(duration)}")
        noise_floor = evidence.noise_floor(record, handle.judge.policy.objective)
        print(f"the kernel differs from a copy of itself by up to {format_percent(noise_floor)}")


def _print_utilisation(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import render_utilisation

    with _open_task(options) as handle:
        print(render_utilisation(handle.task, handle.compute_roofline(), ()))


def _check_task(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _open_task(options) as handle:
        kernel, task, language = handle.kernel, handle.task, handle.language
        version = language.compiler(handle.toolchain).version
        print(f"task {task.name} ({task.identity()[:12]}), language {language.name}, {version}")
        for argument in task.arguments:
            print(f"  {argument.role:<7}{argument.dtype:<9}{argument.name} {' x '.join(argument.shape)}")
        for sentence in task.inferred:
            print(f"  {sentence}")
        handle.build()
        failure = evidence.correctness_failure(handle.judge.read_or_check_correctness(kernel, None, "baseline"))
        if failure is not None:
            raise SettingsError(
                f"the kernel and the reference disagree: {failure.reason.rstrip('.')}; correct the one that is wrong"
            )
        times = evidence.incumbent_seconds(handle.calibration)
        for workload in handle.loaded.workloads:
            count = "not counted" if workload.flops is None else f"{workload.flops:.4g}"
            print(f"  {workload.name}: {times[workload.name]:.4g} s, operations {count}, {workload.unique_bytes} bytes")
        print("the kernel compiles, agrees with the reference and is timed")


def _print_profile(options: argparse.Namespace) -> None:
    from tools.analysis import rules
    from tools.artifacts import Quantity

    with _open_task(options) as handle:
        profiled = handle.profile(options.profiler or "", "--profiler")
        if isinstance(profiled, str):
            raise SettingsError(profiled)
        profile, _ = profiled
        device = next((device for device in handle.executor.devices() if device.kind == handle.language.device), None)
    units = {"device.units": Quantity(value=float(device.units), unit="units")} if device else {}
    findings = [finding.model_dump(mode="json") for finding in rules.evaluate_rules([(profile, "")], units)]
    print(json.dumps({"profile": profile.model_dump(mode="json"), "findings": findings}, indent=1))


def _print_roofline(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import render_roofline

    with _open_task(options) as handle:
        roofline = handle.compute_roofline()
    print(roofline.model_dump_json(indent=1) if options.json else render_roofline(roofline))


def _print_diagnosis(options: argparse.Namespace) -> None:
    from tools.analysis.diagnosis import render_diagnosis

    if options.reports or (options.folder is not None and options.folder.suffix and not options.folder.is_dir()):
        paths, kernel = [options.folder, *options.reports], str(options.kernel or "")
        _print_report_diagnosis(paths, kernel, options.store, as_json=options.json)
        return
    with _open_task(options) as handle:
        result = handle.diagnose()
    print(
        result.model_dump_json(indent=1)
        if options.json
        else render_diagnosis(result, handle.task.language, kept=options.store is not None)
    )


def _print_report_diagnosis(paths: Sequence[Path], kernel: str, store: Path | None, *, as_json: bool) -> None:
    from tools.profilers import ncu, ncu_diagnosis, ncu_reports
    from tools.tasks.task_handle import open_machine

    with open_machine(store) as (executor, records):
        export = partial(ncu.export_pages, executor=executor, blobs=records.blobs)
        launches = ncu_reports.merge_pages(launch for path in paths for launch in ncu_reports.read_report(path, export))
    report = ncu_diagnosis.ReportDiagnosis(
        kernels=tuple(ncu_diagnosis.diagnose_launch(launch) for launch in ncu_reports.select_kernels(launches, kernel))
    )
    print(report.model_dump_json(indent=1) if as_json else ncu_diagnosis.render_report(report))


def _screen_kernel(options: argparse.Namespace) -> int:
    from tools.screen.screen import screen

    with _open_task(options) as handle:
        kernel = handle.read_candidate(options.candidate) if options.candidate else handle.kernel
    refusals = screen(kernel.source, kernel.language, tensors=handle.task.tensors, library=handle.task.library or ())
    print("\n".join(refusals) or "nothing is refused")
    return 1 if refusals else 0


def _print_calibration(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _open_task(options) as handle:
        calibration = handle.calibration
    floor = evidence.noise_floor(calibration, handle.judge.policy.objective)
    print(
        json.dumps(
            {"record": calibration.id, "seconds": evidence.incumbent_seconds(calibration), "noise_floor": floor},
            indent=1,
        )
    )


def _judge_candidate(options: argparse.Namespace) -> None:
    with _open_task(options) as handle:
        handle.build()
        trial = handle.judge.judge(
            handle.read_candidate(options.candidate), handle.kernel, handle.kernel, siblings=1, iteration=0
        )
    print(trial.model_dump_json(indent=1))


def _print_benchmark(options: argparse.Namespace) -> None:
    from tools.gate import confirmation

    with _open_task(options) as handle:
        kernels = {"kernel": handle.kernel} | (
            {"against": handle.read_candidate(options.against)} if options.against else {}
        )
        for kernel in kernels.values():
            handle.build(kernel)
        record = handle.judge.read_or_measure_benchmark(kernels, rounds=options.rounds)
    problem = confirmation.contest_problem(record)
    if problem:
        raise SettingsError(f"{handle.task.name}: {problem}")
    for workload, seconds in confirmation.median_seconds(record).items():
        print(f"{workload}: " + ", ".join(f"{name} {time:.4g} s" for name, time in seconds.items()))
    for name, reason in record.payload["result"]["unavailable"].items():
        print(f"{name}: N/A, {reason}")


def _print_assembly(options: argparse.Namespace) -> None:
    from tools.analysis import signatures

    with _open_task(options) as handle:
        text, architecture = handle.disassemble()
    if options.pattern:
        print(signatures.check_signature(text, architecture, {architecture: options.pattern}).model_dump_json(indent=1))
    else:
        print(signatures.entry_assembly(text))


if __name__ == "__main__":
    run_as_process(main)
