"""One verb for each deterministic tool: `python -m tools VERB --help`. No language model, no workspace; results go to stdout.

Exit codes: 0 done (a kernel that fails is an answer), 2 input that cannot be used, 4 the machine failed, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.cli.signals import process
from tools.cli.suggestions import Misread, Parser, refusal
from tools.errors import InfrastructureError, SettingsError

if TYPE_CHECKING:
    from tools.analysis.diagnosis import Roofline
    from tools.artifacts import Candidate, Profile, Record
    from tools.executors.base import Executor
    from tools.judge.judge import Judge
    from tools.languages.base import Language
    from tools.roofline.hardware import Roof
    from tools.store.records import Records
    from tools.tasks.loader import Loaded


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run one verb, and return the exit code."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser().parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has what was wanted; nothing is left for the interpreter to write at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Misread as misread:
        if as_json:
            print(refusal(misread))
        raise
    except (SettingsError, InfrastructureError) as error:
        print(f"error: {error}", file=sys.stderr)
        if as_json:
            print(refusal(error))
        return 2 if isinstance(error, SettingsError) else 4
    return 0


def _parser() -> Parser:
    parser = Parser(prog="python -m tools", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep records and blobs here, and reuse those that answer already")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    env = verbs.add_parser("env", help="what this machine has, what it lacks, and how to mend that")
    env.add_argument("--json", action="store_true", help="the whole environment as JSON instead of a table")
    env.set_defaults(run=_env)

    ceilings = verbs.add_parser("ceilings", help="measure the roofs of this machine (about five seconds)")
    ceilings.add_argument("--language", default="cpp", help="whose compiler builds the program (default: cpp)")
    ceilings.set_defaults(run=_ceilings)

    check = _verb(verbs, "check", "does the kernel compile, agree with its reference, and run? prints the contract that was inferred")
    check.set_defaults(run=_check)

    profile = _verb(verbs, "profile", "compiler remarks, instruction mix and the findings of the rules, as JSON")
    profile.add_argument("--profiler", help="name or package.module:Class (default: the first that fits the kernel's device)")
    profile.set_defaults(run=_profile)

    roofline = _verb(verbs, "roofline", "time the kernel and place each workload under the measured roofs")
    roofline.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    roofline.set_defaults(run=_roofline)

    diagnose = _verb(verbs, "diagnose", "why is the kernel slow? times, roofline, findings and the compiler's remarks; changes nothing")
    diagnose.add_argument("--json", action="store_true", help="one JSON object instead of text")
    diagnose.set_defaults(run=_diagnose)

    screen = _verb(verbs, "screen", "what the screen refuses in a kernel, before anything is built")
    screen.add_argument("--candidate", type=Path, metavar="FILE", help="another kernel file than the task's own")
    screen.set_defaults(run=_screen)

    calibrate = _verb(
        verbs, "calibrate", "time the kernel against a copy of itself (A/A): its times, and the noise floor under which no gain counts"
    )
    calibrate.set_defaults(run=_calibrate)

    judge = _verb(verbs, "judge", "judge one candidate file against the task's kernel; prints the trial as JSON")
    judge.add_argument("--candidate", type=Path, required=True, metavar="FILE", help="the candidate kernel")
    judge.set_defaults(run=_judge)

    bench = _verb(verbs, "bench", "time the kernel against torch eager and torch.compile in separate processes")
    bench.add_argument("--against", type=Path, metavar="FILE", help="another kernel file to race")
    bench.add_argument("--rounds", type=int, help="rounds a workload (default: the judge's)")
    bench.set_defaults(run=_bench)

    sass = _verb(verbs, "sass", "machine code of the kernel (SASS on an NVIDIA GPU, else the CPU's own), or whether a pattern is in it")
    sass.add_argument("--pattern", help="regular expression, or @name of tools/analysis/signatures.yaml; prints the check as JSON")
    sass.set_defaults(run=_sass)
    return parser


def _verb(verbs: argparse._SubParsersAction[Parser], name: str, text: str) -> Parser:
    verb = verbs.add_parser(name, help=text, description=text)
    verb.add_argument("folder", nargs="?", type=Path, metavar="TASK", help="task folder with reference.py and kernel.<ext>")
    verb.add_argument("--task", type=Path, metavar="FOLDER", help="the same")
    verb.add_argument("--kernel", type=Path, metavar="FILE", help="kernel file, with --ref, instead of --task")
    verb.add_argument("--ref", type=Path, metavar="FILE", help="its reference.py")
    verb.add_argument("--dims", nargs="+", default=[], metavar="N=1024", help="sizes and scalars; several workloads apart by ';'")
    verb.add_argument("--ptr-size", type=int, default=0, metavar="ELEMENTS", help="seed style: elements of every pointer")
    return verb


# ---------------------------------------------------------------- what verbs need


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[tuple[Executor, Records]]:
    from tools.executors.base import EXECUTORS, Executor
    from tools.registry import load
    from tools.store.records import Records

    with tempfile.TemporaryDirectory(prefix="kernelwright-") as folder:
        records = Records(options.store or Path(folder))
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        kind = load(EXECUTORS, "local", Executor, key="executor")  # type: ignore[type-abstract]
        with kind(records.blobs, scratch) as executor:  # type: ignore[call-arg]
            yield executor, records


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
                f"{given} goes with --kernel and --ref; the sizes of a task folder stand in its reference.py, as `workloads`"
            )
        return loader.load_folder(folder, executor, records.blobs)
    if options.kernel is None or options.ref is None:
        raise SettingsError("no task is given; name its folder, or use --kernel FILE with --ref FILE and --dims")
    return loader.load_files(
        options.kernel, options.ref, " ".join(options.dims), executor, records.blobs, pointer_elements=options.ptr_size
    )


@contextmanager
def _task(options: argparse.Namespace) -> Iterator[tuple[Executor, Records, Loaded, Language]]:
    with _opened(options) as (executor, records):
        loaded = _loaded(options, executor, records)
        yield executor, records, loaded, _language(loaded.task.language)


def _language(name: str) -> Language:
    from tools.languages.base import LANGUAGES, Language
    from tools.registry import load

    return load(LANGUAGES, name, Language, key="language")()  # type: ignore[type-abstract]


def _kernel(loaded: Loaded, language: Language) -> Candidate:
    from tools.artifacts import Candidate

    if loaded.task.baseline is None:
        raise SettingsError(
            f"{loaded.task.name}: there is no kernel to look at; add kernel{language.suffix} beside reference.py, or have one written: "
            "`python -m graph run` with that folder as its task"
        )
    return Candidate(language=language.name, files={f"kernel{language.suffix}": loaded.task.baseline})


def _file(path: Path, language: Language) -> Candidate:
    from tools.artifacts import Candidate
    from tools.tasks.loader import read_source

    return Candidate(language=language.name, files={f"kernel{language.suffix}": read_source(path)})


def _judge_of(loaded: Loaded, language: Language, executor: Executor, records: Records, *, measures: bool = True) -> Judge:
    """The judge of a task. One that only builds (`measures=False`) needs no device."""
    from tools.executors.base import pick
    from tools.gate.policy import Policy
    from tools.judge.judge import Judge

    device = pick(executor.devices(), language.device) if measures else None
    return Judge(
        loaded.task,
        language,
        executor,
        records,
        environment="",
        device=f"{device.kind}:{device.index} {device.name}" if device else "",
        secret=secrets.token_bytes(32),
        policy=Policy(),
        emit=lambda event, fields: print(f"{event}: {' '.join(fields.values())}", file=sys.stderr),
    )


def _library(judge: Judge, kernel: Candidate) -> str:
    library = judge.builds.library(kernel)
    if library is None:
        raise SettingsError(f"the kernel does not compile; mend it:\n{judge.builds.build(kernel).payload['log']}")
    return library


def _timed(loaded: Loaded, judge: Judge, kernel: Candidate) -> Record:
    """The kernel's own times (A/A), or SettingsError when it is wrong."""
    from tools.judge import evidence

    calibration = judge.calibrate(kernel)
    failed = evidence.timing_failure(calibration)
    if failed is not None:
        raise SettingsError(f"{loaded.task.name}: {failed.reason.rstrip('.')}; mend the kernel or the reference")
    return calibration


def _roofs(language: Language, executor: Executor, records: Records) -> tuple[Roof, ...]:
    from tools.roofline import microbenchmarks

    return microbenchmarks.measure(language, executor, records)


# ---------------------------------------------------------------- verbs


def _env(options: argparse.Namespace) -> None:
    from tools.environment import inspect
    from tools.languages.base import LANGUAGES

    with _opened(options) as (executor, records):
        found = inspect(executor, [_language(name) for name in LANGUAGES], records.blobs)
    print(found.model_dump_json(indent=1) if options.json else found.to_markdown())


def _ceilings(options: argparse.Namespace) -> None:
    with _opened(options) as (executor, records):
        for roof in _roofs(_language(options.language), executor, records):
            doubt = f" ({roof.doubt})" if roof.doubt else ""
            print(f"{roof.metric:<18} {roof.value:.4g} {roof.unit}  {roof.origin}, record {roof.source}{doubt}")


def _check(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _task(options) as (executor, records, loaded, language):
        kernel, judge = _kernel(loaded, language), _judge_of(loaded, language, executor, records)
        print(f"task {loaded.task.name} ({loaded.task.identity()[:12]}), language {language.name}, {language.toolchain().version}")
        for argument in loaded.task.arguments:
            print(f"  {argument.role:<7}{argument.dtype:<9}{argument.name} {' x '.join(argument.shape)}")
        for sentence in loaded.task.inferred:
            print(f"  {sentence}")
        _library(judge, kernel)
        failed = evidence.correctness_failure(judge.correctness(kernel, None, "baseline"))
        if failed is not None:
            raise SettingsError(f"the kernel and the reference disagree: {failed.reason.rstrip('.')}; mend the one that is wrong")
        times = evidence.seconds(_timed(loaded, judge, kernel))
        for seen in loaded.workloads:
            count = "not counted" if seen.flops is None else f"{seen.flops:.4g}"
            print(f"  {seen.name}: {times[seen.name]:.4g} s, operations {count}, {seen.unique_bytes} bytes")
        print("the kernel compiles, agrees with the reference and is timed")


def _profile(options: argparse.Namespace) -> None:
    from tools.analysis import rules
    from tools.artifacts import Quantity
    from tools.profilers.base import DEFAULTS, PROFILERS, Profiler
    from tools.registry import load

    with _task(options) as (executor, records, loaded, language):
        kernel, judge = _kernel(loaded, language), _judge_of(loaded, language, executor, records, measures=False)
        name = options.profiler or DEFAULTS[language.device][0]
        profiler = load(PROFILERS, name, Profiler, key="--profiler")()  # type: ignore[type-abstract]
        lacking = profiler.missing(language)
        if lacking:
            raise SettingsError(lacking)
        library = _library(judge, kernel)
        profile, _ = profiler.profile(loaded.task, kernel, library, loaded.task.workloads[0], language, executor, records.blobs)
        device = next((device for device in executor.devices() if device.kind == language.device), None)
        units = {"device.units": Quantity(value=float(device.units), unit="units")} if device else {}
    findings = [finding.model_dump(mode="json") for finding in rules.evaluate([(profile, "")], units)]
    print(json.dumps({"profile": profile.model_dump(mode="json"), "findings": findings}, indent=1))


def _roofline(options: argparse.Namespace) -> None:
    from tools.analysis import diagnosis

    with _opened(options) as (executor, records):
        placed = _placed(_loaded(options, executor, records), executor, records)
    print(placed.model_dump_json(indent=1) if options.json else diagnosis.roofline_text(placed))


def _placed(loaded: Loaded, executor: Executor, records: Records) -> Roofline:
    """The task's workloads under the roofs measured here; timed where there is a kernel."""
    from tools.analysis import diagnosis
    from tools.executors.base import pick
    from tools.judge import evidence

    language = _language(loaded.task.language)
    times: Mapping[str, float] = {}
    if loaded.task.baseline is not None:
        judge, kernel = _judge_of(loaded, language, executor, records), _kernel(loaded, language)
        _library(judge, kernel)
        times = evidence.seconds(_timed(loaded, judge, kernel))
    roofs = _roofs(language, executor, records)
    return diagnosis.place(loaded.task, loaded.workloads, times, roofs, pick(executor.devices(), language.device))


def _diagnose(options: argparse.Namespace) -> None:
    from tools.analysis import diagnosis
    from tools.executors.base import pick
    from tools.profilers.base import DEFAULTS, PROFILERS, Profiler
    from tools.registry import load

    with _task(options) as (executor, records, loaded, language):
        kernel, judge = _kernel(loaded, language), _judge_of(loaded, language, executor, records)
        placed = _placed(loaded, executor, records)
        library = _library(judge, kernel)
        profiles: list[tuple[Profile, str]] = []
        missing: dict[str, str] = {}
        for name in DEFAULTS[language.device]:
            profiler = load(PROFILERS, name, Profiler, key="profilers")()  # type: ignore[type-abstract]
            lacking = profiler.missing(language)
            if lacking:
                missing[name] = lacking
                continue
            seen, blobs = profiler.profile(loaded.task, kernel, library, loaded.task.workloads[0], language, executor, records.blobs)
            profiles.append((seen, _kept(records, seen, kernel.id, blobs)))
        found = diagnosis.diagnose(placed, profiles, missing, pick(executor.devices(), language.device))
    print(found.model_dump_json(indent=1) if options.json else diagnosis.text(found, language.name, kept=options.store is not None))


def _kept(records: Records, seen: Profile, candidate: str, blobs: dict[str, str]) -> str:
    """The id of a profile's record."""
    from tools.artifacts import Record
    from tools.store.records import key

    asked = key("profile", tool=seen.tool, candidate=candidate)
    record = records.find(asked) or Record(kind="profile", key=asked, payload=seen.model_dump(mode="json"), blobs=blobs)
    return records.add(record).id


def _screen(options: argparse.Namespace) -> None:
    from tools.screen.screen import screen

    with _task(options) as (_, _, loaded, language):
        kernel = _file(options.candidate, language) if options.candidate else _kernel(loaded, language)
    refused = screen(kernel.source, language.name, tensors=loaded.task.tensors)
    print("\n".join(refused) or "nothing is refused")


def _calibrate(options: argparse.Namespace) -> None:
    from tools.judge import evidence

    with _task(options) as (executor, records, loaded, language):
        judge, kernel = _judge_of(loaded, language, executor, records), _kernel(loaded, language)
        _library(judge, kernel)
        calibration = _timed(loaded, judge, kernel)
    floor = evidence.noise_floor(calibration, judge.policy.objective)
    print(json.dumps({"record": calibration.id, "seconds": evidence.seconds(calibration), "noise_floor": floor}, indent=1))


def _judge(options: argparse.Namespace) -> None:
    with _task(options) as (executor, records, loaded, language):
        kernel = _kernel(loaded, language)
        judge = _judge_of(loaded, language, executor, records)
        _library(judge, kernel)
        trial = judge.judge(_file(options.candidate, language), kernel, kernel, siblings=1, iteration=0)
    print(trial.model_dump_json(indent=1))


def _bench(options: argparse.Namespace) -> None:
    from tools.gate import confirmation

    with _task(options) as (executor, records, loaded, language):
        judge = _judge_of(loaded, language, executor, records)
        racers = {"kernel": _kernel(loaded, language)} | ({"against": _file(options.against, language)} if options.against else {})
        for kernel in racers.values():
            _library(judge, kernel)
        record = judge.benchmark(racers, rounds=options.rounds)
    problem = confirmation.problem(record)
    if problem:
        raise SettingsError(f"{loaded.task.name}: {problem}")
    for workload, seconds in confirmation.seconds(record).items():
        print(f"{workload}: " + ", ".join(f"{name} {time:.4g} s" for name, time in seconds.items()))
    for name, reason in record.payload["result"]["unavailable"].items():
        print(f"{name}: N/A, {reason}")


def _sass(options: argparse.Namespace) -> None:
    from tools.analysis import signatures
    from tools.executors.base import pick

    with _task(options) as (executor, records, loaded, language):
        library = _library(_judge_of(loaded, language, executor, records, measures=False), _kernel(loaded, language))
        listed = executor.run(language.disassemble(library, records.blobs, loaded.task)).files
        text = records.blobs.text(listed["assembly.txt"])
        # A kernel compiled without a GPU is machine code of the target that its listing names.
        named = json.loads(records.blobs.text(listed["facts.json"])).get("target", "") if "facts.json" in listed else ""
        architecture = str(named) or pick(executor.devices(), language.device).architecture
    if options.pattern:
        print(signatures.check(text, architecture, {architecture: options.pattern}).model_dump_json(indent=1))
    else:
        print(signatures.entry(text))


if __name__ == "__main__":
    process(main)
