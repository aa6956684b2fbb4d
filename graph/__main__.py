"""`python -m graph`: init, run, resume, check, score, show, report, audit, verify, export, mask, unmask,
restart.

In this layer it alone prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from graph.artifacts import NotMeasured
    from graph.lifecycle.verify import Verification
    from graph.settings import Settings

OPTIMISING_VERBS = ("run", "resume", "restart")
EXIT_CODES = {
    0: "done",
    1: "verify disagrees, or audit finds a fault",
    2: "bad input",
    3: "budget reached: the run is finished and reported, and `restart WORKSPACE VERSION --budget usd=5` goes "
    "on in a new one",
    4: "the machine failed",
    5: "verify is inconclusive",
    6: "an answer is awaited: the message names the file, and `resume` goes on when it is there",
    130: "interrupted",
}
"""How a verb can end: exit code -> what it means."""
EXIT_CODE_HELP = "exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
PROBLEM_HELP = (
    "a file of KernelBench, a definition of SOL-ExecBench or FlashInfer-Bench, or a folder of GPU MODE; "
    "--dims changes its sizes, e.g. "
    "batch_size=4"
)
EXPORT_FORMATS = ("python", "patch", "torch-ext", "kernelbench", "gpumode", "flashinfer", "sol", "hf")
"""Of `export`."""
OWN_PACKAGES = ("agents", "graph", "knowledge_base", "tools")
RESUME_COMMAND = "`python -m graph resume {workspace}`"
RUN_AGAIN = "run the command again"
FAILURES = {
    "refused": ("error:", 2, "", ""),
    "disk_full": ("error:", 2, f", then {RESUME_COMMAND}", f", then {RUN_AGAIN}"),
    "machine": (
        "machine:",
        4,
        f"; when that is mended {RESUME_COMMAND} goes on, with the settings that the run began with",
        "",
    ),
    "waiting": ("waiting:", 6, f"; then {RESUME_COMMAND}", f"; then {RUN_AGAIN}"),
    "interrupted": ("interrupted;", 130, f"{RESUME_COMMAND} goes on where it stopped", RUN_AGAIN),
}
"""Status of a failure in the object of `--json` -> the first word of its sentence, the exit code, and how the
sentence ends: where a run can be taken up again, and elsewhere."""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    from tools.cli.suggestions import Parser

    top = Parser(
        prog="python -m graph",
        description="Make a slow kernel fast, correct and provably faster.",
        epilog=EXIT_CODE_HELP,
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    init = verbs.add_parser(
        "init",
        help="a task folder around a kernel file as it is: entry, reference and config, with what is left to fill",
    )
    init.add_argument("file", type=Path, help="a .cu, C++ or Triton file")
    init.add_argument("--out", type=Path, help="the folder, default: the file's name without its ending")
    init.add_argument("--entry", help="the launcher or kernel to be made faster; default: the first launcher")
    run = verbs.add_parser("run", help="optimise a kernel: a config file, or --kernel, --ref and --dims")
    check = verbs.add_parser(
        "check", help="read the input, print the contract that was inferred and what models may cost, run nothing else"
    )
    for verb in (run, check):
        verb.add_argument("config", nargs="?", type=Path, help="YAML, e.g. configs/quickstart.yaml, or a task folder")
        verb.add_argument("--kernel", help="kernel file, e.g. K.cpp")
        verb.add_argument("--ref", help="its reference.py")
        verb.add_argument("--dims", nargs="+", help="sizes and scalars, e.g. M=512 N=1000 eps=1e-5")
        verb.add_argument("--problem", type=Path, metavar="PATH", help=PROBLEM_HELP)
        verb.add_argument(
            "--out", type=Path, help="with --problem: the task folder it becomes, default: the file's name"
        )
        verb.add_argument("--ptr-size", type=int, default=0, help="seed style: elements of each pointer buffer")
        verb.add_argument(
            "--trace",
            type=Path,
            metavar="FILE",
            help="launches as JSON lines or CSV: time their sizes, weighted by their number",
        )
        verb.add_argument(
            "--rivals", type=Path, metavar="FILE", help="Python file of other libraries' functions, timed beside torch"
        )
    run.add_argument("--name", help="names the workspace")
    resume = verbs.add_parser("resume", help="go on with a run that was stopped or killed; a finished one stays so")
    score = verbs.add_parser(
        "score",
        help="many problems, each a run of its own, and one table of what they came to; called again it goes on",
    )
    score.add_argument(
        "suite",
        type=Path,
        help="YAML that lists problems: task folders, configs, KernelBench files, or patterns of them",
    )
    score.add_argument(
        "--out", type=Path, help="where workspaces and score.md lie, default: workspaces/ and the suite's name"
    )
    score.add_argument(
        "--as-published", action="store_true", help="check on the suite's own sizes and draws alone, as its authors do"
    )
    show = verbs.add_parser("show", help="where a run stands")
    report = verbs.add_parser("report", help="render report.md and report.html again from the records")
    audit = verbs.add_parser(
        "audit", help="whether every closed version is whole and in order, and nothing else lies in the workspace"
    )
    verify = verbs.add_parser("verify", help="rebuild a version from git alone, measure again, say whether it agrees")
    export = verbs.add_parser(
        "export",
        help="write the accepted kernel as others take it: a module, a patch, an extension, a suite's solution",
    )
    mask = verbs.add_parser("mask", help="make a version invisible to every later decision")
    unmask = verbs.add_parser("unmask", help="take a mask back")
    restart = verbs.add_parser("restart", help="a new run, linked to the old one, that starts from one of its versions")
    for verb in (resume, show, report, audit, verify, export, mask, unmask, restart):
        verb.add_argument("workspace", type=_workspace_path, help="its folder, or its name under workspaces/")
    verify.add_argument("commit", nargs="?", help="default: the last accepted version")
    verify.add_argument("--all", action="store_true", help="every accepted version")
    export.add_argument("version", nargs="?", help="e.g. v2; default: the kernel at HEAD")
    export.add_argument("--format", required=True, choices=EXPORT_FORMATS, help="what it becomes")
    export.add_argument("--out", type=Path, help="the folder, default: NAME-FORMAT")
    export.add_argument("--file", type=Path, help="patch: your file (default: the kernel file that the run was given)")
    export.add_argument(
        "--at", metavar="LINES", help="patch: the lines of your file that the kernel replaces, e.g. 12-20"
    )
    for verb in (mask, unmask, restart):
        verb.add_argument("version", help="e.g. v2")
    other = (
        "what is other than in the old run, by its key in a config, e.g. dims='M=512 N=1000' gpu=1 "
        "judge.min_effect=0.05"
    )
    restart.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes", help=other
    )
    caps = "the same for caps, as below budget: in a config, e.g. usd=5 wall_s=7200"
    restart.add_argument("--budget", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=caps)
    for verb in (init, run, check, resume, score, show, audit, verify, restart):
        verb.add_argument("--json", action="store_true", help="print one JSON object last")
    for verb in (run, check, resume, verify, restart):
        verb.add_argument(
            "--cutlass",
            type=Path,
            metavar="DIR",
            help="CUTLASS, whose include/ kernels may use; default: CUTLASS_PATH, the wheel",
        )
    for verb in (run, resume, restart):
        verb.add_argument(
            "--quiet",
            action="store_true",
            help="print nothing, or with --json its object alone; the exit code says how it ended",
        )
    for verb in verbs.choices.values():
        verb.epilog = EXIT_CODE_HELP
    return top


def _workspace_path(text: str) -> Path:
    """The folder, or the one of that name under workspaces/, where runs from here are kept."""
    kept = Path("workspaces", text)
    return kept if not Path(text).exists() and kept.is_dir() else Path(text)


def run_command_line() -> NoReturn:
    """`main` as this process; refused where another project's packages would be imported in place of ours."""
    hidden_package = hidden_package_error()
    if hidden_package:
        sys.exit(_report_failure(_namespace_before_parsing(sys.argv[1:]), "refused", hidden_package, None))
    from tools.cli.signals import run_as_process

    run_as_process(main)


def _namespace_before_parsing(argv: Sequence[str]) -> argparse.Namespace:
    """What can be told of arguments before they are parsed."""
    return argparse.Namespace(json="--json" in argv, verb="")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. A user's mistake is one sentence on stderr, never a traceback."""
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
        return _report_failure(arguments, status, str(error), error.workspace, getattr(error, "file", None))
    except KeyboardInterrupt as interrupt:
        # `run.drive` names the workspace; before it there is nothing to go on with.
        unchanged = "nothing was changed; " if arguments.verb == "verify" else ""
        return _report_failure(arguments, "interrupted", unchanged, _interrupted_workspace(interrupt))


def _interrupted_workspace(interrupt: BaseException | None) -> Path | None:
    """The workspace that an interrupt names; another Ctrl-C while it was on its way here names none, but the first
    is its context."""
    while interrupt is not None and not (isinstance(interrupt, KeyboardInterrupt) and interrupt.args):
        interrupt = interrupt.__context__
    return Path(str(interrupt)) if interrupt else None


def _remaining_workspace(arguments: argparse.Namespace, workspace_made: Path | None) -> Path | None:
    """The workspace that is there after a failure: the one that the run made, or the one that it was told to work
    on."""
    workspace_named = (
        arguments.workspace
        if arguments.verb in ("resume", "show", "report", "audit", "verify", "export", "mask", "unmask")
        else None
    )
    found = workspace_made or workspace_named
    return found if found is not None and found.is_dir() else None


def _report_failure(
    arguments: argparse.Namespace, status: str, reason: str, workspace_made: Path | None, file: Path | None = None
) -> int:
    """Say why on stderr in one sentence, last on stdout as an object where one was asked for; returns the exit code.

    `made`: the workspace that the run made. `file`: the one that somebody shall write.
    """
    workspace = _remaining_workspace(arguments, workspace_made)
    word, code, on, elsewhere = FAILURES[status]
    end = on.format(workspace=workspace) if workspace and arguments.verb in OPTIMISING_VERBS else elsewhere
    sentence = f"{reason.rstrip('.')}{end}" if end else reason
    _print_error(f"{word} {sentence}")
    _print_failure_object(arguments, status, sentence, workspace, file)
    return code


def _print_failure_object(
    arguments: argparse.Namespace, status: str, reason: str, workspace: Path | None, file: Path | None = None
) -> None:
    if getattr(arguments, "json", False):
        failure = {"status": status, "reason": reason, "workspace": str(workspace) if workspace else None}
        _print(json.dumps({**failure, "file": str(file)} if file else failure))


def hidden_package_error() -> str | None:
    """One sentence when another project's `agents` or `tools` would be imported in place of ours."""
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
    """One verb to its function. Imports are here so that --help stays quick."""
    if getattr(arguments, "cutlass", None):
        os.environ["CUTLASS_PATH"] = str(arguments.cutlass.resolve())
    if arguments.verb in OPTIMISING_VERBS:
        return _optimise(arguments)
    if arguments.verb == "init":
        from tools.tasks.scaffold import scaffold

        task_folder = scaffold(arguments.file, arguments.out or Path(arguments.file.stem), arguments.entry)
        _print(task_folder.model_dump_json() if arguments.json else task_folder.text(), alone=True)
        return 0
    if arguments.verb == "score":
        from graph.score.runs import AS_PUBLISHED, score

        published = "-as-published" * arguments.as_published
        out = arguments.out or Path("workspaces", arguments.suite.stem + published)
        scored = score(arguments.suite, out, _print, AS_PUBLISHED if published else {})
        _print(scored.model_dump_json() if arguments.json else scored.sentence())
        return scored.code
    if arguments.verb == "check":
        from graph.lifecycle.check import check
        from tools.errors import SettingsError

        report = check(_run_settings(arguments))
        _print(report.model_dump_json() if arguments.json else report.text(), alone=True)
        if report.unset:
            raise SettingsError(report.unset[0])
        return 0
    if arguments.verb == "verify":
        from graph.lifecycle.verify import verify

        return _report_verification(
            verify(arguments.workspace, arguments.commit, every=arguments.all), as_json=arguments.json
        )
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


def _run_audit(arguments: argparse.Namespace) -> int:
    from graph.lifecycle.version_commands import audit

    faults = audit(arguments.workspace)
    _print(
        json.dumps({"faults": faults})
        if arguments.json
        else "\n".join(faults) or "every closed version is whole and in order"
    )
    return 1 if faults else 0


def _run_settings(arguments: argparse.Namespace) -> Settings:
    """What the command line says of a run."""
    settings = _task_settings(arguments)
    more: dict[str, Any] = {
        "name": getattr(arguments, "name", None),
        "trace": str(arguments.trace.resolve()) if arguments.trace else None,
    }
    if arguments.rivals:
        if not settings.benchmark.frameworks:
            from tools.errors import SettingsError

            raise SettingsError(
                "--rivals: are timed beside torch, which the config leaves out; set benchmark.eager or compile to true"
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
            raise SettingsError("--problem says the whole task; leave out the config, --kernel, --ref and --ptr-size")
        from tools.tasks.suites import write_task_folder

        folder = arguments.out or Path(_problem_name(arguments.problem)[:64])
        arguments.config, sentence = write_task_folder(arguments.problem, folder, files["dims"] or "")
        _print_error(sentence)
        given = {}
    elif arguments.out is not None:
        raise SettingsError("--out goes with --problem: it names the task folder that the problem becomes")
    if arguments.config is not None:
        if given:
            raise SettingsError(
                "give either a config or task folder, or --kernel with --ref and --dims, not both; the config or "
                "folder says what these do"
            )
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
    """A file's name; of one that is called as in every problem of its suite, its folder's."""
    return problem.resolve().parent.name if problem.stem in ("definition", "task") else problem.stem


def _optimise(arguments: argparse.Namespace) -> int:
    from graph.console.terminal import Progress
    from graph.lifecycle import run, static_report
    from graph.report.content.summary import Summary, summarise

    with Progress(_print, _print_error, quiet=arguments.quiet) as progress:
        if arguments.verb == "run":
            ended = run.start(_run_settings(arguments), progress.observers, progress.ask)
        elif arguments.verb == "resume":
            progress.recall(arguments.workspace)
            ended = run.resume(arguments.workspace, progress.observers, progress.ask)
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
        # That nothing was measured is no failure.
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
    """Print to stdout. Where nobody reads it any more, or it is full, the work goes on without it and keeps its exit
    code.

    `alone`: the text is all that the command is for, so that a stdout that cannot be written is a SettingsError.
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
        _print_error(f"{lost} (the work itself goes on)")


def _print_error(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _redirect_to_devnull(2)


def _redirect_to_devnull(descriptor: int) -> None:
    """Send what is still in the buffer, and all that follows, nowhere: Python would fail on it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    run_command_line()
