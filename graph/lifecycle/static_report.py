"""The report on a task whose device is missing: correctness, compiled code and least times, but no speed."""

from __future__ import annotations

from pathlib import Path

from graph.artifacts import AttainableTime, NotMeasured
from graph.report.content.phrases import render
from graph.services import Ask, open_profilers
from graph.settings import Settings
from graph.specs import hardware_sheet, unknown
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import Candidate, Profile, Task
from tools.errors import SettingsError
from tools.executors.base import MISSING_DEVICE_REMEDY, Executor
from tools.executors.protocol import ProbedWorkload
from tools.executors.toolchain_job import read_toolchain
from tools.judge.build import compile_baseline
from tools.languages.base import Language, open_language
from tools.roofline import roofline
from tools.roofline.hardware import Spec, UnknownSpec
from tools.store.blobs import Blobs
from tools.tasks.loader import LoadedTask


def report_without_device(
    settings: Settings, loaded: LoadedTask, executor: Executor, blobs: Blobs, absent: str, ask: Ask | None = None
) -> NotMeasured:
    """Return everything that needs no device of the task's language; `absent`: the reason why there is none.

    Raises SettingsError if the kernel does not compile or is wrong, or if `on_unknown` stops the run.
    """
    task = loaded.task
    absent = missing_device_sentence(settings, absent)
    language = open_language(task.language)
    files = settings.sources(language.suffix)
    if task.baseline is None:
        reason_no_kernel = f"no kernel is given, and where it cannot be judged none can be written ({absent})"
        raise SettingsError(f"{task.name}: {reason_no_kernel}; add {files.kernel} beside {files.reference}")
    library = compile_baseline(task, language, executor, blobs, name=files.kernel)
    interpreted = language.interpret(task, task.baseline, executor, blobs)
    if interpreted and interpreted.status == "failed":
        raise SettingsError(
            f"{files.kernel} and {files.reference} disagree {interpreted.reason}; correct the one that is wrong "
            f"and run again"
        )
    profiles, missing = _static_profiles(settings, task, library, language, executor, blobs, absent)
    wiki = Wiki.open(Path(settings.gpu_wiki_path) if settings.gpu_wiki_path else None)
    reason = (
        "no device is here that could be looked up; set `hardware` (and `variant`) to the product that it is to run on"
    )
    unnamed = (UnknownSpec(metric="roofline", reason=reason),)
    answers = (
        hardware_sheet.published_specs(wiki, task, settings.hardware, settings.variant)
        if settings.hardware
        else unnamed
    )
    specs = tuple(answer for answer in answers if isinstance(answer, Spec))
    gaps = tuple(answer for answer in answers if isinstance(answer, UnknownSpec))
    product = settings.hardware if settings.hardware and not hardware_sheet.is_cpu(wiki, settings.hardware) else None
    unchecked = f"; {interpreted.reason.rstrip('.')}" if interpreted and interpreted.status != "passed" else ""
    return NotMeasured(
        reason=f"{absent}: {MISSING_DEVICE_REMEDY}{unchecked}.",
        task=task.name,
        identity=task.identity(),
        interpreted=interpreted,
        profiles=profiles,
        missing=missing,
        product=f"{settings.hardware} {settings.variant}".strip() if settings.hardware else None,
        specs=specs,
        gaps=gaps,
        placeholders=unknown.resolve_unknown(gaps, product, settings.on_unknown, ask) if product else (),
        reach=tuple(_attainable_time(seen, specs, task) for seen in loaded.workloads),
        inferred=task.inferred,
    )


def missing_device_sentence(settings: Settings, absent: str) -> str:
    """Return the sentence on the missing device, extended by the setting `gpu` if it is given."""
    return absent if settings.gpu is None else f"{absent} (gpu: {settings.gpu} names none)"


def render_report(found: NotMeasured) -> str:
    """Return the report as text: one paragraph for each kind of evidence, the reason last."""
    return render("not_measured.md", found=found)


def _static_profiles(
    settings: Settings, task: Task, library: str, language: Language, executor: Executor, blobs: Blobs, absent: str
) -> tuple[tuple[Profile, ...], dict[str, str]]:
    candidate = Candidate(language=task.language, files={f"kernel{language.suffix}": task.baseline or ""})
    profiles: list[Profile] = []
    missing: dict[str, str] = {}
    toolchain = read_toolchain(executor, blobs)
    for name, profiler in open_profilers(settings.profilers, language).items():
        reason = absent if profiler.runs_on_device else profiler.reason_unavailable(language, toolchain)
        if reason:
            missing[name] = reason
            continue
        profiles.append(profiler.profile(task, candidate, library, task.workloads[0], language, executor, blobs)[0])
    return tuple(profiles), missing


def _attainable_time(workload: ProbedWorkload, specs: tuple[Spec, ...], task: Task) -> AttainableTime:
    roofs = roofline.roofs_from_specs(specs)
    roof_s, bound = roofline.roof_time(workload.flops, workload.unique_bytes, roofs, roofline.roof_precision(task))
    least_s = roofline.memory_floor_seconds(workload.unique_bytes, roofs)
    return AttainableTime(
        workload=workload.name,
        flops=workload.flops,
        unique_bytes=workload.unique_bytes,
        least_s=least_s,
        roof_s=roof_s,
        bound=bound,
    )
