"""`python -m graph`: init, capture, run, bench, resume, check, score, show, report, audit, verify, export, mask,
unmask, restart.

In this layer it alone prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from graph.artifacts import NotMeasured
    from graph.lifecycle.verify import Verification
    from graph.settings import Settings
    from tools.capture.task_folder import CapturedTask
    from tools.tasks.scaffold import Scaffold

OPTIMISING_VERBS = ("run", "bench", "resume", "restart")
EXIT_CODES = {
    0: "done",
    1: "verify disagrees, or audit finds a fault",
    2: "bad input",
    3: "budget reached: the run is finished and has its report; `restart WORKSPACE VERSION --budget usd=5` continues "
    "in a new run",
    4: "the machine failed",
    5: "verify is inconclusive",
    6: "an answer or a device is awaited: the message names the file or the device, and `resume` continues with it",
    130: "interrupted",
}
"""Exit code -> its meaning."""
EXIT_CODE_HELP = "exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
PROBLEM_HELP = (
    "a problem: a KernelBench file, a definition of SOL-ExecBench or FlashInfer-Bench, or a GPU MODE folder; "
    "--dims changes its sizes, e.g. batch_size=4"
)
EXPORT_FORMATS = ("python", "patch", "op", "torch-ext", "kernelbench", "gpumode", "flashinfer", "sol", "hf")
"""The formats of `export`; `FORMATS` in graph/export/formats.py has their functions."""
OWN_PACKAGES = ("agents", "graph", "knowledge_base", "tools")
RESUME_COMMAND = "`python -m graph resume {workspace}`"
RUN_AGAIN = "run the command again"
FAILURES = {
    "refused": ("error:", 2, "", ""),
    "disk_full": ("error:", 2, f", then {RESUME_COMMAND}", f", then {RUN_AGAIN}"),
    "machine": (
        "machine:",
        4,
        f"; after a repair, {RESUME_COMMAND} continues with the settings of the run",
        "",
    ),
    "waiting": ("waiting:", 6, f"; then {RESUME_COMMAND}", f"; then {RUN_AGAIN}"),
    "interrupted": ("interrupted;", 130, f"{RESUME_COMMAND} continues the run where it stopped", RUN_AGAIN),
}
"""Status of a failure in the object of `--json` -> the first word of its sentence, the exit code, and the end of the
sentence for a run that can be resumed and for all others."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line with all its verbs."""
    from tools.cli.suggestions import EXECUTOR_HELP, Parser, add_machine_options

    top = Parser(
        prog="python -m graph",
        description="Make a slow kernel fast, correct and provably faster.",
        epilog=EXIT_CODE_HELP,
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    init = verbs.add_parser(
        "init",
        help="make a task folder from a kernel file: entry, reference and config, with blanks to fill in",
    )
    init.add_argument("file", type=Path, help="a .cu, C++ or Python file")
    init.add_argument("--out", type=Path, help="the task folder; default: the file's name without its suffix")
    init.add_argument("--entry", help="the function to make faster; default: the first that launches a kernel")
    capture = verbs.add_parser(
        "capture",
        help="run your program once, record the calls of one function, and make a task folder from them",
    )
    capture.add_argument("program", nargs="*", help="after `--`: a Python script or `-m module`, with its arguments")
    capture.add_argument(
        "--target",
        required=True,
        help="pkg.mod:function, __main__:function, a class or a Triton kernel there, or an operator such as aten.mm",
    )
    capture.add_argument("--out", type=Path, help="the task folder; default: the target's name")
    capture.add_argument("--python", default="", help="the Python that runs the program; default: the one that runs")
    run = verbs.add_parser(
        "run",
        help="optimise a kernel, given by a config or task folder, by --kernel, --ref and --dims, or by --problem",
    )
    check = verbs.add_parser(
        "check",
        help="read the input, print the inferred contract and the estimated cost of models, and measure nothing",
    )
    for verb in (run, check):
        verb.add_argument(
            "config", nargs="?", type=Path, help="a YAML config, e.g. configs/quickstart.yaml, or a task folder"
        )
        verb.add_argument("--kernel", help="the kernel file, e.g. K.cpp")
        verb.add_argument("--ref", help="the reference.py of the kernel")
        verb.add_argument("--dims", nargs="+", help="sizes and scalars, e.g. M=512 N=1000 eps=1e-5")
        verb.add_argument("--executor", help=f"{EXECUTOR_HELP} (default: the config's, or local)")
        verb.add_argument("--problem", type=Path, metavar="PATH", help=PROBLEM_HELP)
        verb.add_argument("--out", type=Path, help="with --problem: the task folder to write; default: the file's name")
        verb.add_argument(
            "--ptr-size",
            type=int,
            default=0,
            help="elements of each pointer buffer, for a kernel whose shapes are not declared",
        )
        verb.add_argument(
            "--trace",
            type=Path,
            metavar="FILE",
            help="a trace of launches in JSON lines or CSV: time their sizes, weighted by the number of launches",
        )
        verb.add_argument(
            "--rivals",
            type=Path,
            metavar="FILE",
            help="a Python file with functions of other libraries, which are timed beside torch",
        )
    run.add_argument("--name", help="the name of the workspace")
    bench = verbs.add_parser(
        "bench",
        help="let your own coding agent optimise a kernel: an MCP server over stdio",
        description="An MCP server over stdio for a coding agent. It joins the bench of a run, or starts a process "
        "that owns the run. The agent reads, compiles, checks, times and submits; the judge measures and the gate "
        "decides.",
    )
    bench.add_argument("target", type=_workspace_path, help="a YAML config or a task folder, or the workspace of a run")
    bench.add_argument(
        "--parent", action="store_true", help="own the run and its bench here, and print what happens in the run"
    )
    resume = verbs.add_parser("resume", help="continue a run that was stopped or killed; a finished run stays as it is")
    score = verbs.add_parser(
        "score",
        help="run many problems and write one table of their results; a second call continues",
    )
    score.add_argument(
        "suite",
        type=Path,
        help="a YAML file that lists problems: task folders, configs, KernelBench files, or patterns of these",
    )
    score.add_argument(
        "--out",
        type=Path,
        help="the folder of the workspaces and of score.md; default: workspaces/ and the suite's name",
    )
    score.add_argument(
        "--as-published", action="store_true", help="check only the suite's own sizes and inputs, as its authors do"
    )
    show = verbs.add_parser("show", help="print the state of a run; needs its folder .kernelwright/")
    report = verbs.add_parser("report", help="render report.md and report.html again from the records of a run")
    audit = verbs.add_parser(
        "audit",
        help="check that every closed version is complete and follows from the records, and nothing else changed; "
        "needs the folder .kernelwright/, which a clone lacks",
    )
    verify = verbs.add_parser(
        "verify",
        help="compare all texts with the records, rebuild a version from git alone, and measure its claim again",
        description="Compare all texts with the records, rebuild a version from git alone, and measure its gain over "
        "its parent again; the total over v0 and the times of torch are not measured again. The executor in the "
        "workspace's settings is not used. Without an accepted version there is nothing to verify (exit code 2).",
    )
    export = verbs.add_parser(
        "export",
        help="write the accepted kernel in another format: a module, a patch, an extension, a suite's solution",
    )
    mask = verbs.add_parser("mask", help="hide a version from every later decision")
    unmask = verbs.add_parser("unmask", help="show a masked version again")
    restart = verbs.add_parser("restart", help="start a new run from a version of an old run, linked to it")
    for verb in (resume, show, report, audit, verify, export, mask, unmask, restart):
        verb.add_argument(
            "workspace", type=_workspace_path, help="the folder of the run, or its name under workspaces/"
        )
    verify.add_argument("commit", nargs="?", help="a version or commit; default: the last accepted version")
    add_machine_options(verify)
    verify.add_argument("--all", action="store_true", help="verify every accepted version")
    export.add_argument("version", nargs="?", help="a version, e.g. v2; default: the kernel at HEAD")
    export.add_argument("--format", required=True, choices=EXPORT_FORMATS, help="the format to write")
    export.add_argument("--out", type=Path, help="the folder to write; default: NAME-FORMAT")
    export.add_argument("--file", type=Path, help="patch: your file (default: the kernel file that the run was given)")
    export.add_argument(
        "--at", metavar="LINES", help="patch: the lines of your file that the kernel replaces, e.g. 12-20"
    )
    for verb in (mask, unmask, restart):
        verb.add_argument("version", help="a version, e.g. v2")
    other = (
        "settings that differ from the old run, by their keys in a config, e.g. dims='M=512 N=1000' gpu=1 "
        "judge.min_effect=0.05"
    )
    restart.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes", help=other
    )
    caps = "caps that differ from the old run, by their keys below `budget`, e.g. usd=5 wall_s=7200"
    restart.add_argument("--budget", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=caps)
    for verb in (init, capture, run, bench, check, resume, score, show, audit, verify, restart):
        verb.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    for verb in (run, check, resume, verify, restart):
        verb.add_argument(
            "--cutlass",
            type=Path,
            metavar="DIR",
            help="the folder of CUTLASS, whose include/ kernels may use; default: CUTLASS_PATH, then the wheel",
        )
    for verb in (run, bench, resume, restart):
        verb.add_argument(
            "--quiet",
            action="store_true",
            help="print nothing, or with --json only the object; the exit code says how the run ended",
        )
    for verb in verbs.choices.values():
        verb.epilog = EXIT_CODE_HELP
    return top


def _workspace_path(text: str) -> Path:
    """Return the folder `text`, or the folder of that name under workspaces/."""
    kept = Path("workspaces", text)
    return kept if not Path(text).exists() and kept.is_dir() else Path(text)


def run_command_line() -> NoReturn:
    """Run `main` as this process; exit with an error if another project's packages hide Kernelwright's."""
    hidden_package = hidden_package_error()
    if hidden_package:
        sys.exit(_report_failure(_namespace_before_parsing(sys.argv[1:]), "refused", hidden_package, None))
    from tools.cli.signals import run_as_process

    run_as_process(main)


def _namespace_before_parsing(argv: Sequence[str]) -> argparse.Namespace:
    """Return the namespace for a failure before the arguments are parsed: whether --json is given."""
    return argparse.Namespace(json="--json" in argv, verb="")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code. A user's mistake is one sentence on stderr, never a traceback."""
    as_json = _namespace_before_parsing(sys.argv[1:] if argv is None else argv)
    from tools.cli.suggestions import CommandLineError
    from tools.errors import DiskFullError, InfrastructureError, KernelwrightError, PendingError, SettingsError

    statuses: dict[type[KernelwrightError], str] = {
        DiskFullError: "disk_full",
        SettingsError: "refused",
        PendingError: "waiting",
        InfrastructureError: "machine",
    }
    try:
        arguments = build_parser().parse_args(argv)
    except CommandLineError as misread:
        _print_failure_object(as_json, "refused", misread.reason, None)
        raise
    try:
        return dispatch(arguments)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in OWN_PACKAGES:
            raise
        missing_module = (
            f"{sys.executable} has no module {error.name!r}; run `make install`, then `source .venv/bin/activate`"
        )
        return _report_failure(arguments, "refused", missing_module, None)
    except tuple(statuses) as error:
        status = next(name for kind, name in statuses.items() if isinstance(error, kind))
        file = getattr(error, "file", None)
        more = {"file": str(file) if file else None, "contract": error.contract}
        return _report_failure(arguments, status, str(error), error.workspace, more)
    except KeyboardInterrupt as interrupt:
        # `run.drive` names the workspace; before it there is nothing to go on with.
        unchanged = "nothing was changed; " if arguments.verb == "verify" else ""
        return _report_failure(arguments, "interrupted", unchanged, _interrupted_workspace(interrupt))


def _interrupted_workspace(interrupt: BaseException | None) -> Path | None:
    """Return the workspace that an interrupt names; a second Ctrl-C names none, but has the first as its context."""
    while interrupt is not None and not (isinstance(interrupt, KeyboardInterrupt) and interrupt.args):
        interrupt = interrupt.__context__
    return Path(str(interrupt)) if interrupt else None


def _remaining_workspace(arguments: argparse.Namespace, workspace_made: Path | None) -> Path | None:
    """Return the workspace that exists after a failure: the one that the run made, or the one in the arguments."""
    workspace_named = (
        arguments.workspace
        if arguments.verb in ("resume", "show", "report", "audit", "verify", "export", "mask", "unmask")
        else None
    )
    found = workspace_made or workspace_named
    return found if found is not None and found.is_dir() else None


def _report_failure(
    arguments: argparse.Namespace, status: str, reason: str, workspace_made: Path | None, more: Mapping[str, Any] = {}
) -> int:
    """Say why on stderr in one sentence, last on stdout as an object where one was asked for; returns the exit code.

    `workspace_made`: the workspace that the run made. `more`: further items of the object, unless they are None.
    """
    workspace = _remaining_workspace(arguments, workspace_made)
    word, code, on, elsewhere = FAILURES[status]
    end = on.format(workspace=workspace) if workspace and arguments.verb in OPTIMISING_VERBS else elsewhere
    sentence = f"{reason.rstrip('.')}{end}" if end else reason
    _print_error(f"{word} {sentence}")
    _print_failure_object(arguments, status, sentence, workspace, more)
    return code


def _print_failure_object(
    arguments: argparse.Namespace, status: str, reason: str, workspace: Path | None, more: Mapping[str, Any] = {}
) -> None:
    if getattr(arguments, "json", False):
        failure = {"status": status, "reason": reason, "workspace": str(workspace) if workspace else None}
        _print(json.dumps(failure | {name: value for name, value in more.items() if value is not None}))


def hidden_package_error() -> str | None:
    """Return one sentence if another package named `tools`, `knowledge_base` or `agents` hides Kernelwright's."""
    home = Path(__file__).resolve().parent.parent
    for name in ("tools", "knowledge_base", "agents"):
        spec = find_spec(name)
        origin = Path(spec.origin).resolve().parent.parent if spec and spec.origin else None
        if origin != home:
            return (
                f"another package named {name!r} ({spec.origin if spec else 'none'}) hides Kernelwright's; "
                "run from another folder, or use the `kernelwright` command, which does not look in the current one"
            )
    return None


def dispatch(arguments: argparse.Namespace) -> int:
    """Run the function of a verb and return the exit code. Imports are local so that --help is quick."""
    if getattr(arguments, "cutlass", None):
        os.environ["CUTLASS_PATH"] = str(arguments.cutlass.resolve())
    if arguments.verb == "bench" and not arguments.parent:
        from graph.bench.relay import serve_relay

        serve_relay(arguments.target)
        return 0
    if arguments.verb in OPTIMISING_VERBS:
        return _optimise(arguments)
    if arguments.verb in ("init", "capture"):
        return _write_task(arguments)
    if arguments.verb == "score":
        from graph.score.runs import AS_PUBLISHED, score

        published = "-as-published" * arguments.as_published
        out = arguments.out or Path("workspaces", arguments.suite.stem + published)
        scored = score(arguments.suite, out, _print, AS_PUBLISHED if published else {})
        _print(scored.model_dump_json() if arguments.json else scored.sentence())
        return scored.code
    if arguments.verb == "check":
        return _check(arguments)
    if arguments.verb == "verify":
        from graph.lifecycle.verify import Machine, verify
        from tools.executors.choice import parse_choice

        machine = Machine(parse_choice(arguments.executor), arguments.clocks)
        verified = verify(arguments.workspace, arguments.commit, every=arguments.all, machine=machine)
        return _report_verification(verified, as_json=arguments.json)
    if arguments.verb == "export":
        from graph.lifecycle.export import export

        arguments_of_export = arguments.version, arguments.format, arguments.out, arguments.file, arguments.at
        _print(export(arguments.workspace, *arguments_of_export))
        return 0
    if arguments.verb == "audit":
        return _run_audit(arguments)
    if arguments.verb in ("mask", "unmask"):
        from graph.lifecycle.version_commands import mask

        _print(mask(arguments.workspace, arguments.version, masked=arguments.verb == "mask"))
        return 0
    if arguments.verb == "report":
        from graph.lifecycle.run import write_report

        _print(write_report(arguments.workspace))
        return 0
    from graph.report.content.summary import show

    _print(show(arguments.workspace, as_json=arguments.json), alone=True)
    return 0


def _write_task(arguments: argparse.Namespace) -> int:
    """Write a task folder from a file, or from the calls in a run of the user's program."""
    if arguments.verb == "init":
        from tools.tasks.scaffold import scaffold
        from tools.tasks.task_handle import open_machine

        with open_machine(None) as (executor, records):
            out = arguments.out or Path(arguments.file.stem)
            parts = executor, records.blobs
            task_folder: Scaffold | CapturedTask = scaffold(arguments.file, out, arguments.entry, parts)
    else:
        from tools.capture.task_folder import capture

        program, target, out = arguments.program, arguments.target, arguments.out
        task_folder = capture(program, target, out, arguments.python)
    _print(task_folder.model_dump_json() if arguments.json else task_folder.text(), alone=True)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from graph.lifecycle.check import ContractReport, check, contract_text
    from tools.cli.waiting import waits_told_to
    from tools.errors import KernelwrightError

    known: list[ContractReport] = []

    def announce(contract: ContractReport) -> None:
        known.append(contract)
        if not arguments.json:
            _print(contract_text(contract), alone=True)

    try:
        with waits_told_to(_print_error):
            report = check(_run_settings(arguments), announce)
    except KernelwrightError as error:
        error.contract = known[0].model_dump(mode="json") if known else None
        raise
    _print(report.model_dump_json() if arguments.json else report.text(), alone=True)
    no_kernel = f"{report.task}: no kernel is given, and none could be written: {report.no_first_kernel}"
    refusal = report.unset[0] if report.unset else no_kernel if report.no_first_kernel else ""
    if refusal:
        _print_error(f"{FAILURES['refused'][0]} {refusal}")
    return FAILURES["refused"][1] if refusal else 0


def _run_audit(arguments: argparse.Namespace) -> int:
    from graph.lifecycle.version_commands import audit

    faults = audit(arguments.workspace)
    _print(
        json.dumps({"faults": faults})
        if arguments.json
        else "\n".join(faults)
        or "every closed version is complete and follows from its records; "
        "nothing was measured, and records are not signed"
    )
    return 1 if faults else 0


def _run_settings(arguments: argparse.Namespace) -> Settings:
    """Return the settings of a run from the command line."""
    settings = _task_settings(arguments)
    more: dict[str, Any] = {
        "name": getattr(arguments, "name", None),
        "trace": str(arguments.trace.resolve()) if arguments.trace else None,
    }
    if arguments.executor:
        from tools.executors.choice import parse_choice

        more["executor"] = parse_choice(arguments.executor)
    if arguments.rivals:
        if not settings.benchmark.frameworks:
            from tools.errors import SettingsError

            raise SettingsError(
                "--rivals: they are timed beside torch, which the config excludes; set benchmark.eager or "
                "benchmark.compile"
            )
        more["benchmark"] = settings.benchmark.model_copy(update={"rivals": str(arguments.rivals.resolve())})
    return settings.model_copy(update={key: value for key, value in more.items() if value})


def _task_settings(arguments: argparse.Namespace) -> Settings:
    from graph.settings import load, parse
    from tools.errors import SettingsError

    files = {"kernel": arguments.kernel, "reference": arguments.ref, "dims": " ".join(arguments.dims or []) or None}
    given = {key: value for key, value in files.items() if value}
    if arguments.problem is not None:
        if arguments.config is not None or arguments.kernel or arguments.ref or arguments.ptr_size:
            raise SettingsError("--problem defines the whole task; remove the config, --kernel, --ref and --ptr-size")
        from tools.tasks.suites import write_task_folder

        folder = arguments.out or Path(_problem_name(arguments.problem)[:64])
        arguments.config, sentence = write_task_folder(arguments.problem, folder, files["dims"] or "")
        _print_error(sentence)
        given = {}
    elif arguments.out is not None:
        raise SettingsError("--out goes with --problem: it names the task folder that the problem becomes")
    if arguments.config is not None:
        if given:
            raise SettingsError("give either a config or task folder, or --kernel with --ref and --dims, not both")
        if arguments.ptr_size:
            raise SettingsError(
                "--ptr-size goes with --kernel, not with a config file; put `pointer_elements` into the config"
            )
        return load(arguments.config)
    if not given:
        raise SettingsError(
            "nothing to run: give a config file such as configs/quickstart.yaml, or --kernel K.cpp --ref ref.py "
            "--dims M=512"
        )
    if arguments.ptr_size:
        given["pointer_elements"] = arguments.ptr_size
    return parse(given, origin="command line", base=Path.cwd())


def _problem_name(problem: Path) -> str:
    """Return a problem's name: the file's, or the folder's if the file has the same name in every problem of its
    suite."""
    return problem.resolve().parent.name if problem.stem in ("definition", "task") else problem.stem


def _optimise(arguments: argparse.Namespace) -> int:
    from graph.bench.author import with_agent_at_bench
    from graph.console.terminal import Progress
    from graph.lifecycle import run, static_report
    from graph.report.content.summary import Summary, summarise
    from graph.settings import load
    from graph.workspace.folder import is_workspace

    with Progress(_print, _print_error, quiet=arguments.quiet) as progress:
        if arguments.verb == "run":
            ended = run.start(_run_settings(arguments), progress.observers, progress.ask)
        elif arguments.verb == "bench" and not is_workspace(arguments.target):
            ended = run.start(with_agent_at_bench(load(arguments.target)), progress.observers, progress.ask)
        elif arguments.verb in ("resume", "bench"):
            workspace = arguments.workspace if arguments.verb == "resume" else arguments.target
            progress.recall(workspace)
            ended = run.resume(workspace, progress.observers, progress.ask)
        else:
            from graph.lifecycle.version_commands import restart

            changes = [*arguments.changes, *(f"budget.{cap}" for cap in arguments.budget)]
            ended = restart(arguments.workspace, arguments.version, progress.observers, progress.ask, changes=changes)
    result: Summary | NotMeasured
    if isinstance(ended, tuple):
        state, workspace = ended
        result = summarise(workspace, state)
        text, code = (
            "\n".join(filter(None, (result.sentence(), result.closing_lines()))),
            3 if result.stop_reason == "budget" else 0,
        )
    else:
        # A run that measures nothing is not a failure.
        result, text, code = ended, static_report.render_report(ended).rstrip(), 0
    if not arguments.quiet:
        _print(text)
    if arguments.json:
        _print(result.model_dump_json())
    return code


def _report_verification(verifications: Sequence[Verification], *, as_json: bool) -> int:
    outcomes = {result.outcome for result in verifications}
    worst = next((outcome for outcome in ("disagree", "inconclusive") if outcome in outcomes), "agree")
    for result in verifications:
        if not as_json:
            _print(result.sentence())
    if as_json:
        _print(json.dumps({"outcome": worst, "versions": [result.model_dump(mode="json") for result in verifications]}))
    return {"agree": 0, "disagree": 1, "inconclusive": 5}[worst]


def _print(text: str, *, alone: bool = False) -> None:
    """Print to stdout. If stdout is closed or full, the work continues without it and keeps its exit code.

    `alone`: the text is the only result of the command, so a failure to write it is a SettingsError.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _redirect_to_devnull(1)
    except OSError as error:
        _redirect_to_devnull(1)
        lost = f"stdout: cannot be written ({error.strerror}); send it somewhere else"
        if alone:
            from tools.errors import SettingsError

            raise SettingsError(lost) from error
        _print_error(f"{lost} (the work itself continues)")


def _print_error(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _redirect_to_devnull(2)


def _redirect_to_devnull(descriptor: int) -> None:
    """Send the rest of the buffer and all later output to /dev/null, as Python would fail on it again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    run_command_line()
