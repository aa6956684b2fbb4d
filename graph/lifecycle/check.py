"""`check`: the contract that a run would use, without a measurement."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, cast

from agents.artifacts import RoleName
from agents.handlers.base import applicable_handlers, handler_hints, open_handlers
from graph.budget import feasibility, reserve
from graph.budget.estimate import ASSUMPTIONS, Estimate, estimate_cost
from graph.lifecycle import initial_kernel, user_function
from graph.lifecycle.run import load_task, open_new_workspace
from graph.lifecycle.static_report import missing_device_sentence, report_without_device
from graph.report.content.phrases import render
from graph.services import open_agents, open_index, open_ledger, open_profilers
from graph.settings import Settings
from graph.specs import hardware_sheet
from tools.artifacts import Argument, Artifact, Task
from tools.errors import SettingsError, UnusableTaskError
from tools.executors.base import pick_device, reason_if_device_missing
from tools.executors.protocol import ProbedWorkload
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import Language, open_language
from tools.languages.triton_interpreter import InterpreterResult
from tools.tasks import trace
from tools.tasks.loader import LoadedTask
from tools.tasks.trace import LaunchGroup

DEFAULT_STREAM_ONLY = (
    "Default stream only: the kernel cannot run on another stream or in a CUDA graph; in CUDA C++ a last parameter "
    "`cudaStream_t stream` of `solve` ends that."
)
_NO_COMPILER = "none on this machine, so the kernel was not compiled"


class ContractReport(Artifact):
    """The contract of a task: what a kernel for it must take, and at which sizes."""

    task: str
    language: str
    identity: str
    entry: str
    """The function that is called."""
    arguments: tuple[Argument, ...]
    workloads: tuple[ProbedWorkload, ...]
    """The visible workloads with their operations and unique bytes."""
    dims_range: dict[str, tuple[int, int]]
    """Dim -> the range from which hidden sizes are drawn."""
    precision: str
    library: tuple[str, ...]
    """Operators of torch that host code may call."""
    inferred: tuple[str, ...]


class CheckReport(ContractReport):
    """The object that `check --json` prints."""

    status: Literal["checked"] = "checked"
    compiler: str
    baseline: user_function.FunctionCheck | None
    """What a few calls of the user's own function showed; None: the task names none."""
    traced: tuple[LaunchGroup, ...]
    """The launches of `trace` by size, including those of little time; empty: no trace was given."""
    rivals: tuple[str, ...]
    """Functions of other libraries that are timed beside torch."""
    device: str | None
    """The reason why this machine has no device for the task; None: it has one."""
    interpreted: InterpreterResult | None
    """The result of the interpreter if the device is missing."""
    unwritten: str
    """The provider that writes v0 when the run begins; empty: there is a kernel."""
    no_first_kernel: str
    """Why there is no v0 and no run can begin; empty: it can."""
    handlers: tuple[str, ...]
    models: dict[RoleName, str]
    """Role -> its provider."""
    estimate: Estimate
    too_small: tuple[str, ...]
    """One sentence for each cap that is too small."""
    caps: dict[str, str]
    pages: int
    """The number of pages in the wiki."""
    unset: tuple[str, ...]
    """One sentence for each API key that is not set; a run is refused for the first."""
    unpublished: str
    """A sentence if the gpu-wiki has no figures for the hardware in the settings; else empty."""

    def text(self) -> str:
        """Return the report as text, without the contract."""
        return render("check.md", found=self, assumed=ASSUMPTIONS)


def contract_text(contract: ContractReport) -> str:
    """Return the contract as text."""
    return render("contract.md", found=contract)


def check(settings: Settings, announce: Callable[[ContractReport], None] = lambda contract: None) -> CheckReport:
    """Load and probe the task, open every part that the settings name, compile the kernel, and describe the contract.

    `announce` gets the contract as soon as it is known, also where the check is then refused. Raises SettingsError for
    whatever `run` would refuse before its first measurement, except for API keys that are not set and for a first
    kernel that nobody can write, which the report names.
    """
    from knowledge_base.pages.wiki import Wiki
    from tools.judge.build import compile_baseline

    with ExitStack() as stack:
        workspace, events, executor, _ = open_new_workspace(settings, (), stack)
        records, unset = workspace.records, list[str]()
        try:
            loaded = load_task(settings, executor, records.blobs)
        except UnusableTaskError as error:
            announce(_contract(cast(LoadedTask, error.loaded)))
            raise
        announce(_contract(loaded))
        task, language = loaded.task, open_language(loaded.task.language)
        handlers = open_handlers(settings.handlers, task.baseline, task.language)
        agents = open_agents(settings, records, events.emit, open_ledger(settings, records), unset=unset)
        writer = agents["coder"].model
        wiki = Wiki.open(Path(settings.gpu_wiki_path) if settings.gpu_wiki_path else None)
        # Opened to find errors, as a run would.
        open_profilers(settings.profilers, language)
        open_index(settings, wiki.or_bundled_methods(), task.language)
        absent = reason_if_device_missing(executor.devices(), language.device)
        compiler = _compiler_name(language, read_toolchain(executor, records.blobs), absent)
        has_kernel = task.baseline is not None and not compiler.startswith(_NO_COMPILER)
        static = (
            report_without_device(settings, loaded, executor, records.blobs, absent) if absent and has_kernel else None
        )
        name, no_first_kernel = settings.sources(language.suffix).kernel, ""
        function = user_function.check_user_function(loaded, executor, records, settings.judge)
        if task.baseline is None and not absent:
            # The lift costs nothing and is deterministic, so a refusal is found here.
            try:
                candidate = initial_kernel.lift_initial_kernel(
                    task, executor, records.blobs, settings.judge.job_limit_s
                )
                task = initial_kernel.with_kernel(loaded, candidate, initial_kernel.LIFT_ORIGIN).task
                compile_baseline(task, language, executor, records.blobs, name=name)
            except SettingsError as error:
                no_first_kernel = "" if writer.reads == "prompt" else str(error.__cause__ or error)
        elif not absent:
            compile_baseline(task, language, executor, records.blobs, name=name)
        hints = handler_hints(handlers, task.baseline or "", task.language)
        expected = estimate_cost(settings, task, wiki.or_bundled_methods(), agents, hints)
        feasibility.refuse_unaffordable(settings, task, wiki.or_bundled_methods(), agents)
        if not absent:
            hardware_sheet.refuse_unknown(settings, wiki, task, pick_device(executor.devices(), language.device))
        return CheckReport(
            **_contract(loaded.model_copy(update={"task": task})).model_dump(),
            compiler=compiler,
            traced=trace.group_launches(trace.read_trace(Path(settings.trace)), task, Path(settings.trace))
            if settings.trace
            else (),
            baseline=function,
            rivals=task.rivals.names if task.rivals else (),
            device=missing_device_sentence(settings, absent) if absent else None,
            interpreted=static.interpreted if static else None,
            unwritten=writer.provider if task.baseline is None and not no_first_kernel else "",
            no_first_kernel=no_first_kernel,
            handlers=tuple(
                str(handler) for handler in applicable_handlers(handlers, task.baseline or "", task.language)
            ),
            models={role: agent.model.provider for role, agent in agents.items()},
            estimate=expected,
            too_small=feasibility.caps_below_estimate(settings, expected)
            + reserve.device_cap_warnings(settings, len(task.workloads), language.device),
            caps=settings.budget.caps_by_key(),
            pages=len(wiki.pages),
            unset=tuple(dict.fromkeys(unset)),
            unpublished=hardware_sheet.unpublished_warning(wiki, task, settings.hardware, settings.variant),
        )


def _contract(loaded: LoadedTask) -> ContractReport:
    task = loaded.task
    return ContractReport(
        task=task.name,
        language=task.language,
        identity=task.identity(),
        entry=open_language(task.language).entry,
        arguments=task.arguments,
        workloads=loaded.workloads,
        dims_range=task.dims_range,
        precision=task.numeric.precision,
        library=task.library or (),
        inferred=(*task.inferred, *_default_stream_note(task)),
    )


def _default_stream_note(task: Task) -> list[str]:
    """Return the sentence that marks a GPU kernel which works on the default stream alone; empty: it does not."""
    language = open_language(task.language)
    marked = language.device != "cpu" and task.baseline and not language.takes_stream(task.baseline)
    return [DEFAULT_STREAM_ONLY] if marked else []


def _compiler_name(language: Language, toolchain: Toolchain, absent: str | None) -> str:
    """Return the compiler's name and version; if both device and compiler are missing, a sentence that says so."""
    try:
        return str(language.compiler(toolchain))
    except SettingsError as error:
        if not absent:
            raise
        return f"{_NO_COMPILER}: {error}"
