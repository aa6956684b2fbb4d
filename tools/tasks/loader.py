"""A task folder or seed-style files -> Task, after one probe of the reference beside the device; and a task frozen for
a run.

A task folder holds `reference.py`, `kernel.<ext>` and, when something must be said that they cannot say, `task.yaml`.
Without a kernel the reference says the whole contract, and its operations are followed for whoever is to write one.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from tools.artifacts import Artifact, Dims, NumericTolerance, Task, Workload
from tools.cli.suggestions import meant, offered
from tools.cli.validation import no_yaml, read_yaml, sentences
from tools.contracts import inference
from tools.contracts.checked_cases import draw_hidden_workloads
from tools.contracts.dims import check_seed_dims, parse_workloads
from tools.contracts.inference import SourceNames, default_task_name
from tools.contracts.operators import operator_family
from tools.errors import SettingsError, WorkspaceError
from tools.executors.base import Executor, Limits
from tools.executors.harness_job import answer, available_memory, harness_job
from tools.executors.protocol import Parameter, ProbeRequest, ProbeResult, SeenWorkload
from tools.languages.base import LANGUAGES, Language, PinnedKernel, open_language
from tools.store.records import Blobs, write_atomically

NVIDIA_DRIVER = Path("/dev/nvidiactl")
REFERENCE_FILE = "reference.py"
PROBE_LIMIT_S = 300.0
"""For importing torch and calling the reference once in float64 on each workload."""
_MAX_SOURCE_BYTES = 4 << 20
"""Bytes of a source file; more is not a source file."""


class LoadedTask(Artifact):
    """A task and what the probe saw of its visible workloads."""

    task: Task
    workloads: tuple[SeenWorkload, ...]
    """With operations and unique bytes, in the task's order."""
    operator: str = ""
    """What the reference computes, by its operations (`tools.contracts.operators`); empty where they were not seen."""
    pinned: tuple[PinnedKernel, ...] = ()
    """The user's kernel pinned otherwise, the task's own first, while nothing was measured that could choose
    (`tools.tasks.autotune`)."""
    origin: str = ""
    """Source of the kernel that the first of several linked runs began with; empty: the task's own."""


class TaskSettings(Artifact):
    """task.yaml: what a folder says beside its two sources; every key is optional."""

    name: str | None = None
    """Default: the folder's name."""
    language: str = "cpp"
    precision: Literal["ieee", "tf32", "bf16"] = "ieee"
    build_flags: tuple[str, ...] = ()
    """Replace the language's optimisation flags, for baseline and candidates alike."""
    library: tuple[Annotated[str, Field(pattern=r"^(aten\.[a-z_]\w*|reference)$")], ...] = ()
    """Operators of torch that host code in Python may call, `[aten.mm]`; `reference`: the reference's own products,
    convolutions and attention, where the language can."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Workload -> its share in the objective, instead of the reference's own."""
    margins: dict[str, float] = Field(default_factory=dict)
    """Workload -> how much slower it may become, relative, instead of the reference's own."""


class FrozenTask(Artifact):
    """task.json of a workspace."""

    identity: str
    task: Task


def load_task_folder(path: Path, executor: Executor, blobs: Blobs, dims: tuple[Dims, ...] = ()) -> LoadedTask:
    """Read and probe a task folder, at `dims` in place of its own workloads. Raises SettingsError with one sentence
    for anything a user can mend."""
    if not path.is_dir():
        raise SettingsError(f"task: {path} is not a folder; name one that holds {REFERENCE_FILE} and a kernel")
    declared = _read_task_yaml(path / "task.yaml")
    declared = declared.model_copy(update={"weights": {}, "margins": {}}) if dims else declared
    language = detect_language(path)
    kernel, reference = path / f"kernel{language.suffix}", path / REFERENCE_FILE
    if not kernel.exists() and reference.exists():
        _refuse_misnamed_kernel(path, kernel.name, language)
        return _load_reference_task(
            declared.name or path.resolve().name, reference, language, dims, declared, executor, blobs
        )
    return _load_kernel_task(
        declared.name or path.resolve().name, kernel, reference, language, dims, 0, declared, executor, blobs
    )


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

    `dims`: "M=512 N=1000 eps=1e-5", several workloads apart by `;`; empty: the reference's own `workloads`. `like`: a
    task whose name, flags and precision it has, and whose weights and margins where the workloads are the reference's
    own.
    """
    language = detect_language(kernel)
    name, declared = default_task_name(kernel), TaskSettings()
    if like is not None:
        name, shares = like.name, {w.name: w.weight for w in like.workloads}
        declared = TaskSettings(
            precision=like.numeric.precision, build_flags=like.build_flags, library=like.library or ()
        )
        declared = declared if dims else declared.model_copy(update={"weights": shares, "margins": like.margins})
    sizes = parse_workloads(dims) if isinstance(dims, str) else dims
    return _load_kernel_task(name, kernel, reference, language, sizes, pointer_elements, declared, executor, blobs)


def _load_kernel_task(
    name: str,
    kernel: Path,
    reference: Path,
    language: Language,
    dims: tuple[Dims, ...],
    elements: int,
    declared: TaskSettings,
    executor: Executor,
    blobs: Blobs,
) -> LoadedTask:
    files = SourceNames(kernel.name, reference.name)
    given = read_source(kernel)
    source, logic, frozen = language.freeze_sources(given, read_source(reference))
    parameters = _read_kernel_parameters(language, source, files)
    memory = available_memory()
    if not _defines_make_inputs(logic):
        check_seed_dims(dims, parameters, elements, memory, files.kernel)
        _refuse_unused_dims(dims, source, logic, files)
    # With make_inputs the reference is asked alone: `contract` compares it with the kernel and can name both files.
    asked = () if _defines_make_inputs(logic) else parameters
    asking = ProbeRequest(reference=logic, dims=dims, parameters=asked, pointer_elements=elements, memory_bytes=memory)
    request = asking.model_copy(update={"library": _allowed_operators(declared, language)})
    seen = probe_reference(executor, blobs, request, files)
    seen = seen.model_copy(update={"inferred": (*frozen, *seen.inferred)})
    made = partial(infer_task, name, source, logic, language, parameters, elements, declared, files=files)
    return _infer_with_other_sizes(made, seen, files, executor, blobs).model_copy(
        update={"pinned": language.pinned_kernels(given)}
    )


def with_workload_weights(loaded: LoadedTask, weights: Sequence[float]) -> LoadedTask:
    """With these weights of its workloads, in their order."""
    task, seen = loaded.task, loaded.workloads
    shared = tuple(
        one.model_copy(update={"weight": weight}) for one, weight in zip(task.workloads, weights, strict=True)
    )
    probed = tuple(one.model_copy(update={"weight": weight}) for one, weight in zip(seen, weights, strict=True))
    return loaded.model_copy(update={"task": task.model_copy(update={"workloads": shared}), "workloads": probed})


def _refuse_misnamed_kernel(folder: Path, kernel: str, language: Language) -> None:
    """Refuse a folder whose kernel has another name: without it one would be written, and the user's never looked
    at."""
    alike = [
        p.name
        for p in sorted(folder.iterdir())
        if p.name != REFERENCE_FILE and (p.stem == "kernel" or p.suffix == language.suffix)
    ]
    if alike:
        raise SettingsError(
            f"{folder}: holds {alike[0]} and no {kernel}; rename it, set `language` in task.yaml, or take it away to "
            f"have a kernel written"
        )


def _load_reference_task(
    name: str,
    reference: Path,
    language: Language,
    dims: tuple[Dims, ...],
    declared: TaskSettings,
    executor: Executor,
    blobs: Blobs,
) -> LoadedTask:
    """A task of which only the reference is there."""
    files = SourceNames(f"kernel{language.suffix}", reference.name)
    logic = read_source(reference)
    if not _defines_make_inputs(logic):
        raise SettingsError(
            f"{reference}: without {files.kernel} beside it the reference must say the whole contract; define "
            f"make_inputs(dims, seed) "
            f"in it, or add {files.kernel}"
        )
    request = ProbeRequest(
        reference=logic, dims=dims, memory_bytes=available_memory(), library=_allowed_operators(declared, language)
    )
    seen = probe_reference(executor, blobs, request, files)
    parameters = tuple(
        Parameter(name=a.name, dtype=a.dtype, pointer=a.role != "scalar")
        for w in seen.workloads[:1]
        for a in w.arguments
    )
    made = partial(infer_task, name, None, logic, language, parameters, 0, declared, files=files)
    return _infer_with_other_sizes(made, seen, files, executor, blobs)


def _infer_with_other_sizes(
    made: Callable[..., LoadedTask], seen: ProbeResult, files: SourceNames, executor: Executor, blobs: Blobs
) -> LoadedTask:
    """The task that is `made` of what the probe has seen and of what the reference says to sizes such as the hidden
    ones: which dims sizes follow that the workloads have alike, and which it refuses. SettingsError where it takes
    none."""
    task = made(seen=seen).task
    request = ProbeRequest(
        reference=task.reference,
        parameters=tuple(Parameter(name=a.name, dtype=a.dtype, pointer=a.role != "scalar") for a in task.arguments),
        pointer_elements=task.pointer_elements,
        memory_bytes=available_memory(),
        tentative=tuple(choices for _, choices in draw_hidden_workloads(task, b"known to everybody", 2)),
        roles={a.name: a.role for a in task.arguments},
    )
    told = probe_reference(executor, blobs, request, files) if request.tentative else seen
    return made(seen=seen.model_copy(update={"tried": told.tried, "refused": told.refused}))


def _refuse_unused_dims(dims: Sequence[Dims], source: str, logic: str, files: SourceNames) -> None:
    """Refuse a name that stands nowhere in kernel or reference: it would still set the size of every buffer."""
    words = set(re.findall(r"\w+", f"{source} {logic}"))
    for name in (name for point in dims for name in point if name not in words):
        hint = meant(name, words, "leave it out", cutoff=0.8)
        raise SettingsError(f"dims: {name!r} is named by neither {files.kernel} nor {files.reference}; {hint}")


def probe_reference(executor: Executor, blobs: Blobs, request: ProbeRequest, files: SourceNames) -> ProbeResult:
    """Ask the harness what the reference says and needs; a user's mistake is a SettingsError that calls the file as the
    user does.

    Raises InfrastructureError when the harness or its machine failed.
    """
    limits = Limits(wall_s=PROBE_LIMIT_S)
    seen = answer(executor.run(harness_job(request, {}, blobs, limits=limits)), blobs, ProbeResult)
    if seen.error is not None:
        named = seen.error.replace(REFERENCE_FILE, files.reference)
        known = files.reference in named or named.startswith(("--dims", "task.yaml"))
        raise SettingsError(named if known else f"{files.reference}: {named}")
    return seen


def infer_task(
    name: str,
    source: str | None,
    logic: str,
    language: Language,
    parameters: tuple[Parameter, ...],
    elements: int,
    declared: TaskSettings,
    seen: ProbeResult,
    files: SourceNames,
) -> LoadedTask:
    """The task that kernel (`source`), reference and probe amount to. SettingsError where they do not fit."""
    if not seen.workloads:
        raise SettingsError(f"{files.reference}: there are no workloads; set `workloads` in it or give --dims")
    arguments, about_arguments = inference.infer_arguments(parameters, seen, files)
    for argument in arguments:
        unsupported = language.reason_unsupported(argument.dtype)
        if unsupported:
            raise SettingsError(f"{files.kernel}: `{argument.name}` is {argument.dtype}, but {unsupported}")
    ranges, about_ranges = inference.infer_dims_range(seen, files)
    policy, about_numbers = inference.infer_tolerance(seen, arguments, NumericTolerance(precision=declared.precision))
    workloads = _apply_task_settings(declared, seen)
    task = Task(
        name=name,
        language=language.name,
        arguments=arguments,
        reference=logic,
        baseline=source,
        workloads=tuple(Workload(name=w.name, dims=w.dims, weight=w.weight, margin=w.margin) for w in workloads),
        dims_range=ranges,
        numeric=policy,
        build_flags=declared.build_flags,
        seed_style=not seen.has_make_inputs,
        pointer_elements=0 if seen.has_make_inputs else elements,
        inferred=(*seen.inferred, *about_arguments, *about_ranges, *about_numbers),
        library=_allowed_operators(declared, language, seen.products) or None,
    )
    return LoadedTask(task=task, workloads=workloads, operator=operator_family(seen.operations))


def _allowed_operators(declared: TaskSettings, language: Language, own: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The operators of `library`, where `own` are the reference's; SettingsError where kernels cannot call any."""
    named = tuple(name for name in declared.library if name != "reference")
    if named and not language.host_code_has_torch:
        able = ", ".join(name for name in LANGUAGES if open_language(name).host_code_has_torch)
        raise SettingsError(
            f"task.yaml: library: kernels in {language.name} call nothing of torch; leave it out (allowed with {able})"
        )
    return (
        tuple(dict.fromkeys((*named, *own)))
        if language.host_code_has_torch and "reference" in declared.library
        else named
    )


def _apply_task_settings(declared: TaskSettings, seen: ProbeResult) -> tuple[SeenWorkload, ...]:
    """The probed workloads with the weights and margins that task.yaml gives some of them."""
    for key, said, least in (
        ("weights", declared.weights, "above 0"),
        ("margins", declared.margins, "0 to 1, 0.05 for 5 %"),
    ):
        for name, value in said.items():
            if name not in {w.name for w in seen.workloads}:
                there = offered(name, [w.name for w in seen.workloads])
                raise SettingsError(
                    f"task.yaml: {key} names the workload {name!r}, which the reference does not have; {there}"
                )
            if not (0 <= value < float("inf")) or (value == 0 if key == "weights" else value > 1):
                raise SettingsError(f"task.yaml: {key}.{name} is {value:g}; it must be {least}")
    return tuple(
        w.model_copy(
            update={"weight": declared.weights.get(w.name, w.weight), "margin": declared.margins.get(w.name, w.margin)}
        )
        for w in seen.workloads
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


def default_suite_language() -> str:
    """What a suite's problem is written in: Triton where a driver of NVIDIA's is loaded, else C++."""
    return "triton" if NVIDIA_DRIVER.exists() else "cpp"


def task_yaml_text(name: str, language: str) -> str:
    """task.yaml of a suite's problem."""
    return f"name: {name}\nlanguage: {language}\nlibrary: [reference]\n"


def detect_language(path: Path) -> Language:
    """The language of a task folder; of a kernel's file by its suffix, and among those that share it by what stands in
    the file.

    SettingsError where there is none such.
    """
    if path.is_dir():
        return open_language(_read_task_yaml(path / "task.yaml").language, f"{path / 'task.yaml'}: language")
    known = [open_language(name) for name in LANGUAGES]
    alike = [kind for kind in known if kind.suffix == path.suffix]
    if not alike:
        suffixes = ", ".join(dict.fromkeys(kind.suffix for kind in known))
        raise SettingsError(f"kernel: {path} is in no known language; its name must end in one of {suffixes}")
    text = read_source(path) if any(kind.source_pattern for kind in alike) else ""
    return next((kind for kind in alike if kind.source_pattern and kind.source_pattern.search(text)), alike[0])


def read_source(path: Path) -> str:
    """A source file's text; SettingsError when it is missing, empty, huge or not UTF-8."""
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
    if not path.exists():
        return TaskSettings()
    import yaml

    text = read_source(path)
    try:
        data = read_yaml(text)
    except yaml.YAMLError as error:
        raise SettingsError(no_yaml(path, error)) from None
    try:
        return TaskSettings.model_validate(data)
    except ValidationError as error:
        raise SettingsError(sentences(error, TaskSettings, f"{path}: ")) from None


# ---------------------------------------------------------------- the workspace's copy


def write_frozen_task(task: Task, folder: Path) -> None:
    """Write task.json, reference.py and the kernel's source to a workspace's `task/`."""
    frozen = FrozenTask(identity=task.identity(), task=task)
    for name, text in _frozen_source_files(task).items():
        write_atomically(folder / name, text.encode())
    write_atomically(folder / "task.json", frozen.model_dump_json(indent=1).encode() + b"\n")


def read_frozen_task(folder: Path) -> Task:
    """Read a frozen task back; WorkspaceError when any of its files was changed since."""
    remedy = "restore it from the workspace's git, or start a new run"
    try:
        frozen = FrozenTask.model_validate_json((folder / "task.json").read_bytes())
        changed = [
            name
            for name, text in _frozen_source_files(frozen.task).items()
            if (folder / name).read_bytes() != text.encode()
        ]
    except (OSError, ValidationError, json.JSONDecodeError) as error:
        raise WorkspaceError(f"{folder}: the frozen task cannot be read ({type(error).__name__}); {remedy}") from error
    if frozen.task.identity() != frozen.identity:
        changed.append("task.json")
    if changed:
        raise WorkspaceError(f"{folder / changed[0]} was changed since the run began; {remedy}")
    return frozen.task


def _frozen_source_files(task: Task) -> dict[str, str]:
    files = {REFERENCE_FILE: task.reference}
    if task.baseline is not None:
        suffix = open_language(task.language).suffix
        files[f"kernel{suffix}"] = task.baseline
    return files
