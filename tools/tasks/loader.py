"""Load a task from a folder or from seed-style files, with one probe of its reference; freeze a task for a run.

A task folder contains `reference.py`, `kernel.<ext>` and optionally `task.yaml` for settings that these two cannot
express. Without a kernel, the reference alone defines the contract, and a kernel is written later.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from tools.artifacts import (
    Argument,
    Artifact,
    Authors,
    BaselineFunction,
    Dims,
    NumericTolerance,
    Task,
    TaskClock,
    Workload,
    digest,
)
from tools.cli.suggestions import suggest_name, suggest_or_list
from tools.cli.validation import read_yaml, validation_sentences, yaml_fault
from tools.cli.waiting import reported_wait
from tools.contracts import inference
from tools.contracts.checked_cases import draw_hidden_workloads
from tools.contracts.dims import check_seed_dims, parse_workloads
from tools.contracts.inference import SourceNames, default_task_name
from tools.contracts.operators import operator_family
from tools.errors import SettingsError, UnusableTaskError, WorkspaceError
from tools.executors.base import DeviceKind, Executor, Limits, Needs, reason_if_device_missing
from tools.executors.harness_job import harness_job, read_answer
from tools.executors.protocol import Parameter, ProbedArgument, ProbedWorkload, ProbeRequest, ProbeResult
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import LANGUAGES, Language, PinnedKernel, open_language
from tools.store.blobs import Blobs, write_atomically
from tools.tasks.suites import SuiteSource, task_files_of

NVIDIA_DRIVER = Path("/dev/nvidiactl")
REFERENCE_FILE = "reference.py"
OBSERVED_FILE = "captured.json"
"""The evidence beside a task that was recorded from a run."""
BASELINE_FOLDER = "baseline"
"""Folder of a task with the user's own files."""
PROBE_LIMIT_S = 300.0
"""Time limit of a probe, which imports torch and calls the reference once in float64 on each workload."""
ModelType = TypeVar("ModelType", bound=BaseModel)
_MAX_SOURCE_BYTES = 4 << 20
"""Largest size of a source file in bytes."""


class LoadedTask(Artifact):
    """A task, with the results of the probe for its visible workloads."""

    task: Task
    workloads: tuple[ProbedWorkload, ...]
    """Visible workloads with operations and unique bytes, in the task's order."""
    operator: str = ""
    """Operator family of the reference (`tools.contracts.operators`); empty: the operations were not recorded."""
    pinned: tuple[PinnedKernel, ...] = ()
    """Variants of the user's kernel pinned to each config, the task's own first; empty after `tools.tasks.autotune` has
    chosen one."""
    origin: str = ""
    """Source of the kernel with which the first of several linked runs began; empty: the task's own kernel."""


class TaskSettings(Artifact):
    """The contents of task.yaml; every key is optional."""

    name: str | None = None
    """Name of the task; default: the folder's name."""
    language: str = "cpp"
    precision: Literal["ieee", "tf32", "bf16"] = "ieee"
    build_flags: tuple[str, ...] = ()
    """Compiler flags of baseline and candidates, instead of the language's optimisation flags."""
    library: tuple[Annotated[str, Field(pattern=r"^(aten\.[a-z_]\w*|reference)$")], ...] = ()
    """Operators of torch that host code in Python may call, e.g. `[aten.mm]`; `reference`: the products, convolutions
    and attention that the reference calls, if the language's host code is Python."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Workload -> weight in the objective, instead of the weight in the reference."""
    margins: dict[str, float] = Field(default_factory=dict)
    """Workload -> relative slowdown that the gate allows, instead of the margin in the reference."""
    baseline: BaselineFunction | None = None
    """The user's own function, which is timed as it is; gains are reported over it."""
    problem: SuiteSource | None = None
    """The suite's problem of which a reader made the folder; written by `check --problem`."""
    clock: TaskClock | None = None
    """Clock by which a gain on a GPU is claimed; default: the device's where launches hide a gain, else the wall
    clock."""


class FrozenTask(Artifact):
    """The contents of task.json in a workspace."""

    identity: str
    task: Task


def load_task_folder(path: Path, executor: Executor, blobs: Blobs, dims: tuple[Dims, ...] = ()) -> LoadedTask:
    """Read and probe a task folder; `dims` replace its own workloads.

    Raises SettingsError with one sentence for every mistake of the user.
    """
    if not path.is_dir():
        raise SettingsError(f"task: {path} is not a folder; name one that contains {REFERENCE_FILE} and a kernel")
    settings = _read_task_yaml(path / "task.yaml")
    settings = settings.model_copy(update={"weights": {}, "margins": {}}) if dims else settings
    left_out: list[str] = []
    if settings.baseline:
        baseline, left_out = with_baseline_files(settings.baseline, path)
        settings = settings.model_copy(update={"baseline": baseline})
    language = detect_language(path)
    kernel, reference = path / f"kernel{language.suffix}", path / REFERENCE_FILE
    if not kernel.exists() and reference.exists():
        _refuse_misnamed_kernel(path, kernel.name, language)
    name = settings.name or path.resolve().name
    loaded = _load_task(name, kernel, reference, language, dims, 0, settings, executor, blobs)
    said = [f"{BASELINE_FOLDER}/{name} stays here, because only text travels with the jobs." for name in left_out]
    function = loaded.task.baseline_function
    authors = Authors(
        task=author_of_task(path, settings.problem),
        baseline="package" if function and function.package else "submitter",
    )
    update = {"authors": authors, "inferred": (*loaded.task.inferred, *said)}
    return loaded.model_copy(update={"task": loaded.task.model_copy(update=update)})


def author_of_task(folder: Path, problem: SuiteSource | None) -> Literal["submitter", "suite", "observed"]:
    """Return who wrote reference.py: whoever wrote it last is the submitter, so that a reader of suites must still make
    the same of its problem, and `capture` must have left its digest."""
    reference = read_source(folder / REFERENCE_FILE)
    with contextlib.suppress(SettingsError):
        if problem and task_files_of(Path(problem.path), problem.sizes)[0].get(REFERENCE_FILE) == reference:
            return "suite"
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        if json.loads((folder / OBSERVED_FILE).read_bytes())["reference_sha256"] == digest(reference):
            return "observed"
    return "submitter"


def with_baseline_files(function: BaselineFunction, folder: Path) -> tuple[BaselineFunction, list[str]]:
    """Return the user's function with the texts in `folder`/baseline, and the names of the files that are no text, such
    as what a build left there."""
    own, files, left_out = folder / BASELINE_FOLDER, {}, []
    for path in sorted(path for path in own.rglob("*") if path.is_file()):
        name = path.relative_to(own)
        if any(part[0] == "." or part == "__pycache__" for part in name.parts):
            continue
        try:
            files[name.as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            left_out.append(name.as_posix())
    if sum(map(len, files.values())) > _MAX_SOURCE_BYTES:
        raise SettingsError(
            f"{own}: holds more than {_MAX_SOURCE_BYTES >> 20} MiB; install the package in the "
            f"Python that runs jobs, and leave the function's own files there"
        )
    return function.model_copy(update={"files": files, "package": ""}), left_out


def load_task_files(
    kernel: Path,
    reference: Path,
    dims: str | tuple[Dims, ...],
    executor: Executor,
    blobs: Blobs,
    *,
    pointer_elements: int = 0,
    like: Task | None = None,
) -> LoadedTask:
    """Read and probe a kernel file with its reference, in the seed style or with make_inputs.

    `dims` are e.g. "M=512 N=1000 eps=1e-5", with workloads separated by ";"; if empty, the reference's `workloads` are
    used. The name, flags and precision of `like` are copied, and without `dims` its weights and margins too.
    """
    language = detect_language(kernel)
    name, settings = default_task_name(kernel), TaskSettings()
    if like is not None:
        name, weights = like.name, {w.name: w.weight for w in like.workloads}
        settings = TaskSettings(
            precision=like.numeric.precision,
            build_flags=like.build_flags,
            library=like.library or (),
            clock=like.clock,
        )
        settings = settings if dims else settings.model_copy(update={"weights": weights, "margins": like.margins})
    sizes = parse_workloads(dims) if isinstance(dims, str) else dims
    return _load_task(name, kernel, reference, language, sizes, pointer_elements, settings, executor, blobs)


def _load_task(
    name: str,
    kernel: Path,
    reference: Path,
    language: Language,
    dims: tuple[Dims, ...],
    elements: int,
    settings: TaskSettings,
    executor: Executor,
    blobs: Blobs,
) -> LoadedTask:
    """Read and probe a kernel with its reference, or the reference alone where only that is there."""
    files, notes, parameters = SourceNames(kernel.name, reference.name), tuple[str, ...](), tuple[Parameter, ...]()
    user_source = source = None if reference.exists() and not kernel.exists() else read_source(kernel)
    logic = read_source(reference)
    if source is not None:
        source, logic, notes = language.freeze_sources(source, logic)
        parameters = _read_kernel_parameters(language, source, files)
    has_make_inputs = _defines_make_inputs(logic)
    if source is not None and not has_make_inputs:
        check_seed_dims(dims, parameters, elements, executor.available_memory(), files.kernel)
        _refuse_unused_dims(dims, source, logic, files)
    elif not has_make_inputs:
        raise SettingsError(
            f"{reference}: without {files.kernel} beside it the reference must define the whole contract; define "
            f"make_inputs(dims, seed) in it, or add {files.kernel}"
        )
    function = settings.baseline
    request = ProbeRequest(
        reference=logic,
        dims=dims,
        # With make_inputs only the reference is probed: `tools.contracts` compares it with the kernel.
        parameters=() if has_make_inputs else parameters,
        pointer_elements=elements,
        library=_allowed_operators(settings, language),
        device=_probed_device(executor, language),
        module=function.call.partition(":")[0] if function and not function.files else "",
    )
    probe_result = probe_reference(executor, blobs, request, files)
    if source is None:
        parameters = _as_parameters(probe_result.workloads[0].arguments if probe_result.workloads else ())
    probe_result = probe_result.model_copy(update={"inferred": (*notes, *probe_result.inferred)})
    infer = partial(infer_task, name, source, logic, language, parameters, elements, settings, files=files)
    loaded = _infer_with_other_sizes(infer, probe_result, files, executor, blobs)
    return loaded.model_copy(update={"pinned": language.pinned_kernels(user_source) if user_source else ()})


def _as_parameters(arguments: Sequence[ProbedArgument | Argument]) -> tuple[Parameter, ...]:
    return tuple(Parameter(name=a.name, dtype=a.dtype, pointer=a.role != "scalar") for a in arguments)


def with_workload_weights(loaded: LoadedTask, weights: Sequence[float]) -> LoadedTask:
    """Return `loaded` with new weights of its workloads, given in their order."""
    task, probed = (
        {"workloads": tuple(w.model_copy(update={"weight": to}) for w, to in zip(workloads, weights, strict=True))}
        for workloads in (loaded.task.workloads, loaded.workloads)
    )
    return loaded.model_copy(update={"task": loaded.task.model_copy(update=task), **probed})


def _refuse_misnamed_kernel(folder: Path, kernel: str, language: Language) -> None:
    """Raise SettingsError for a folder whose kernel has a wrong name: a new kernel would be written and the user's be
    ignored."""
    suffix = language.suffix
    others = [path for path in sorted(folder.iterdir()) if path.name != REFERENCE_FILE]
    misnamed = [path.name for path in others if path.stem == "kernel" or path.suffix == suffix]
    if misnamed:
        raise SettingsError(
            f"{folder}: contains {misnamed[0]} and no {kernel}; rename it, set `language` in task.yaml, or remove it "
            f"to have a kernel written"
        )


def _infer_with_other_sizes(
    infer: Callable[..., LoadedTask], probe_result: ProbeResult, files: SourceNames, executor: Executor, blobs: Blobs
) -> LoadedTask:
    """Return the task that `infer` makes of the probe, completed by a second probe at sizes like the hidden ones.

    The second probe shows which dims the shapes depend on if they are equal in all visible workloads, and which sizes
    the reference refuses. Raises SettingsError if it refuses all of them.
    """
    loaded = infer(probe_result=probe_result)
    if probe_result.unusable:
        raise UnusableTaskError(_name_file(probe_result.unusable, files), loaded)
    task = loaded.task
    language, toolchain = open_language(task.language), read_toolchain(executor, blobs)
    for argument in task.arguments:
        unsupported = language.reason_unsupported(argument.dtype, toolchain)
        if unsupported:
            raise SettingsError(f"{files.kernel}: `{argument.name}` is {argument.dtype}, but {unsupported}")
    request = ProbeRequest(
        reference=task.reference,
        device=_probed_device(executor, language),
        parameters=_as_parameters(task.arguments),
        pointer_elements=task.pointer_elements,
        tentative=tuple(
            tuple(dims for dims in choices if all(dims != one.dims for one in task.workloads))
            for _, choices in draw_hidden_workloads(task, b"known to everybody", 2)
        ),
        roles={a.name: a.role for a in task.arguments},
    )
    other_sizes = probe_reference(executor, blobs, request, files) if request.tentative else probe_result
    return infer(
        probe_result=probe_result.model_copy(update={"tried": other_sizes.tried, "refused": other_sizes.refused})
    )


def _refuse_unused_dims(dims: Sequence[Dims], source: str, logic: str, files: SourceNames) -> None:
    """Raise SettingsError for a dim that neither kernel nor reference names: it would still size every buffer."""
    words = set(re.findall(r"\w+", f"{source} {logic}"))
    for name in (name for point in dims for name in point if name not in words):
        hint = suggest_name(name, words, "leave it out", cutoff=0.8)
        raise SettingsError(f"dims: {name!r} occurs in neither {files.kernel} nor {files.reference}; {hint}")


def probe_reference(executor: Executor, blobs: Blobs, request: ProbeRequest, files: SourceNames) -> ProbeResult:
    """Run the reference in the harness and return its workloads, arguments and needs.

    Raises SettingsError, with the user's file name, for a mistake in the reference, and InfrastructureError if the
    harness or its machine failed.
    """
    needs = Needs(device=request.device)
    job = harness_job(request, {}, blobs, needs=needs, limits=Limits(wall_s=PROBE_LIMIT_S))
    executor.gather((partial(read_toolchain, executor, blobs), partial(executor.run, job)))
    toolchain = read_toolchain(executor, blobs)
    if "torch" not in toolchain.packages:
        raise SettingsError(
            f"{files.reference}: torch, which computes it, is not installed in the Python that runs jobs "
            f"({toolchain.python}); name the Python that has it under executor.python, or install it there (beside "
            "Kernelwright: `pip install -e '.[device]'` in its folder)"
        )
    sizes = f" at {len(request.dims)} sizes" if request.dims else " at its own sizes" * (not request.tentative)
    with reported_wait(f"{files.reference} is called{sizes or ' at sizes like the hidden ones'}, to learn its shapes"):
        finished = executor.run(job)
    if finished.timed_out:
        raise SettingsError(
            f"{files.reference}: its shapes and values are not known after {PROBE_LIMIT_S:g} s here; use smaller dims, "
            f"or a machine with a GPU"
        )
    result = read_answer(finished, blobs, ProbeResult)
    if result.error is not None:
        raise SettingsError(_name_file(result.error, files))
    return result


def _probed_device(executor: Executor, language: Language) -> DeviceKind:
    """Return the kind of device on which the reference is called: that of the kernel, where there is one.

    Where answers are carried by files it is the CPU, since the list of devices would be a round trip of its own.
    """
    if not executor.answers_at_once:
        return "cpu"
    return "cpu" if reason_if_device_missing(executor.devices(), language.device) else language.device


def _name_file(message: str, files: SourceNames) -> str:
    """Return a message of the probe with the user's name of the reference."""
    message = message.replace(REFERENCE_FILE, files.reference)
    names_file = files.reference in message or message.startswith(("--dims", "task.yaml"))
    return message if names_file else f"{files.reference}: {message}"


def infer_task(
    name: str,
    source: str | None,
    logic: str,
    language: Language,
    parameters: tuple[Parameter, ...],
    elements: int,
    settings: TaskSettings,
    probe_result: ProbeResult,
    files: SourceNames,
) -> LoadedTask:
    """Return the task of a kernel (`source`), its reference (`logic`) and the probe.

    Raises SettingsError if they do not fit together.
    """
    if not probe_result.workloads:
        raise SettingsError(f"{files.reference}: there are no workloads; set `workloads` in it or give --dims")
    arguments, about_arguments = inference.infer_arguments(parameters, probe_result, files)
    ranges, about_ranges = inference.infer_dims_range(probe_result, files)
    policy, about_numbers = inference.infer_tolerance(
        probe_result, arguments, NumericTolerance(precision=settings.precision)
    )
    workloads = _apply_task_settings(settings, probe_result)
    task = Task(
        name=name,
        language=language.name,
        arguments=arguments,
        reference=logic,
        baseline=source,
        workloads=tuple(Workload(name=w.name, dims=w.dims, weight=w.weight, margin=w.margin) for w in workloads),
        dims_range=ranges,
        numeric=policy,
        build_flags=settings.build_flags,
        seed_style=not probe_result.has_make_inputs,
        pointer_elements=0 if probe_result.has_make_inputs else elements,
        restructured=probe_result.restructured,
        inferred=(*probe_result.inferred, *about_arguments, *about_ranges, *about_numbers),
        library=_allowed_operators(settings, language, probe_result.products) or None,
        product_type=probe_result.product_type,
        baseline_function=settings.baseline and settings.baseline.model_copy(update={"package": probe_result.package}),
        clock=_possible_clock(settings.clock, language, source),
    )
    return LoadedTask(task=task, workloads=workloads, operator=operator_family(probe_result.operations))


def _possible_clock(clock: TaskClock | None, language: Language, source: str | None) -> TaskClock | None:
    """Return `clock`; SettingsError if kernels of the language, or the user's own, cannot be timed by it."""
    if clock is not None and language.device == "cpu":
        raise SettingsError(
            f"task.yaml: clock: kernels in {language.name} launch nothing and have one clock; remove it"
        )
    if clock == "graph" and source is not None and not language.takes_stream(source):
        raise SettingsError(
            "task.yaml: clock: graph needs a kernel that runs on the stream given (in CUDA C++ the last parameter of "
            "`solve`, `cudaStream_t stream`); this one runs on the default stream, so use device or launch"
        )
    return clock


def _allowed_operators(
    settings: TaskSettings, language: Language, reference_operators: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the operators that `library` in task.yaml allows; `reference_operators` replace the entry `reference`.

    Raises SettingsError if kernels of the language cannot call torch.
    """
    operators = tuple(name for name in settings.library if name != "reference")
    if operators and not language.host_code_has_torch:
        capable = ", ".join(name for name in LANGUAGES if open_language(name).host_code_has_torch)
        raise SettingsError(
            f"task.yaml: library: kernels in {language.name} cannot call torch; remove it (allowed with {capable})"
        )
    return (
        tuple(dict.fromkeys((*operators, *reference_operators)))
        if language.host_code_has_torch and "reference" in settings.library
        else operators
    )


def _apply_task_settings(settings: TaskSettings, probe_result: ProbeResult) -> tuple[ProbedWorkload, ...]:
    """Return the probed workloads with the weights and margins of task.yaml."""
    names = [w.name for w in probe_result.workloads]
    given = [("weights", n, v, v > 0, "above 0") for n, v in settings.weights.items()]
    given += [("margins", n, v, 0 <= v <= 1, "0 to 1, 0.05 for 5 %") for n, v in settings.margins.items()]
    for key, name, value, is_allowed, allowed in given:
        if name not in names:
            raise SettingsError(
                f"task.yaml: {key} names the workload {name!r}, which is not in the reference; "
                f"{suggest_or_list(name, names)}"
            )
        if not is_allowed or value == float("inf"):
            raise SettingsError(f"task.yaml: {key}.{name} is {value:g}; it must be {allowed}")
    return tuple(
        w.model_copy(
            update={"weight": settings.weights.get(w.name, w.weight), "margin": settings.margins.get(w.name, w.margin)}
        )
        for w in probe_result.workloads
    )


def _read_kernel_parameters(language: Language, source: str, files: SourceNames) -> tuple[Parameter, ...]:
    try:
        return language.parameters(source)
    except SettingsError as error:
        raise SettingsError(str(error).replace(f"kernel{language.suffix}", files.kernel, 1)) from None


def _defines_make_inputs(reference: str) -> bool:
    try:
        body = ast.parse(reference).body
    except SyntaxError:
        return True  # The probe names the line.
    return any(isinstance(node, ast.FunctionDef) and node.name == "make_inputs" for node in body)


def default_suite_language(problem: str) -> str:
    """Return the language for a suite's problem: Triton if an NVIDIA driver is loaded or `problem`, its text, names a
    type that C++ lacks, else C++."""
    return "triton" if NVIDIA_DRIVER.exists() or re.search(r"bfloat16|float8_e", problem) else "cpp"


def task_yaml_text(name: str, language: str) -> str:
    """Return the text of task.yaml for a suite's problem."""
    return f"name: {name}\nlanguage: {language}\nlibrary: [reference]\n"


def detect_language(path: Path) -> Language:
    """Return the language of a task folder (from task.yaml) or of a kernel file.

    A file is classified by its suffix, and among languages with the same suffix by its contents. Raises SettingsError
    for an unknown suffix.
    """
    if path.is_dir():
        return open_language(_read_task_yaml(path / "task.yaml").language, f"{path / 'task.yaml'}: language")
    languages = [open_language(name) for name in LANGUAGES]
    same_suffix = [kind for kind in languages if kind.suffix == path.suffix]
    if not same_suffix:
        suffixes = ", ".join(dict.fromkeys(kind.suffix for kind in languages))
        raise SettingsError(f"kernel: {path} has no suffix of a known language; it must end in one of {suffixes}")
    text = read_source(path) if any(kind.source_pattern for kind in same_suffix) else ""
    return next(
        (kind for kind in same_suffix if kind.source_pattern and kind.source_pattern.search(text)), same_suffix[0]
    )


def read_source(path: Path) -> str:
    """Return a source file's text; SettingsError if it is missing, empty, larger than 4 MiB or not UTF-8."""
    try:
        if path.stat().st_size > _MAX_SOURCE_BYTES:
            raise SettingsError(f"{path}: larger than {_MAX_SOURCE_BYTES >> 20} MiB; give a source file")
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file; put the source there or name another") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8 text") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); give a readable file") from None
    if not content.strip():
        raise SettingsError(f"{path}: the file is empty; put the source there or name another")
    return content


def _read_task_yaml(path: Path) -> TaskSettings:
    return read_yaml_model(path, TaskSettings) if path.exists() else TaskSettings()


def read_yaml_model(path: Path, kind: type[ModelType]) -> ModelType:
    """Return a file of YAML as a model; SettingsError for each fault in it."""
    import yaml

    try:
        return kind.model_validate(read_yaml(read_source(path)))
    except yaml.YAMLError as error:
        raise SettingsError(yaml_fault(path, error)) from None
    except ValidationError as error:
        raise SettingsError(validation_sentences(error, kind, f"{path}: ")) from None


# ---------------------------------------------------------------- the workspace's copy


def write_frozen_task(task: Task, folder: Path) -> None:
    """Write task.json, reference.py and the kernel's source to `folder`, the `task/` of a workspace."""
    frozen = FrozenTask(identity=task.identity(), task=task)
    for name, text in _frozen_source_files(task).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, text.encode())
    write_atomically(folder / "task.json", frozen.model_dump_json(indent=1).encode() + b"\n")


def read_frozen_task(folder: Path) -> Task:
    """Return the frozen task in `folder`; WorkspaceError if any of its files was changed."""
    remedy = "restore it from the workspace's git, or start a new run"
    try:
        frozen = FrozenTask.model_validate_json((folder / "task.json").read_bytes())
        changed_files = [
            name
            for name, text in _frozen_source_files(frozen.task).items()
            if (folder / name).read_bytes() != text.encode()
        ]
    except (OSError, ValidationError, json.JSONDecodeError) as error:
        raise WorkspaceError(f"{folder}: the frozen task cannot be read ({type(error).__name__}); {remedy}") from error
    if frozen.task.identity() != frozen.identity:
        changed_files.append("task.json")
    if changed_files:
        raise WorkspaceError(f"{folder / changed_files[0]} was changed since the run began; {remedy}")
    return frozen.task


def _frozen_source_files(task: Task) -> dict[str, str]:
    files = {REFERENCE_FILE: task.reference}
    if task.baseline is not None:
        suffix = open_language(task.language).suffix
        files[f"kernel{suffix}"] = task.baseline
    if task.baseline_function is not None:
        files |= {f"{BASELINE_FOLDER}/{path}": text for path, text in task.baseline_function.files.items()}
    return files
