"""Start or resume a run."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from graph.artifacts import NotMeasured
from graph.budget.metering import MeteredExecutor
from graph.lifecycle.interruption import resumable, stop_on_interrupt
from graph.report import prompts
from graph.services import (
    Ask,
    Services,
    open_agents,
    open_index,
    open_ledger,
    open_profilers,
    require_access_to_models,
)
from graph.settings import Settings
from graph.state import State
from graph.workspace import drift
from graph.workspace import events as event_log
from graph.workspace import folder as workspaces
from graph.workspace.events import Events, Observer
from graph.workspace.folder import Workspace
from graph.workspace.versions import checkpoint_path, read_checkpoint, read_state, read_versions
from tools.analysis import rules
from tools.artifacts import Dims, Record, Rivals, Task
from tools.errors import InfrastructureError, PendingError, SettingsError, WorkspaceError
from tools.executors.base import DeviceKind, Executor, pick_device, reason_if_device_missing
from tools.executors.choice import open_executor
from tools.languages.base import open_language
from tools.store.blobs import Blobs
from tools.store.records import record_key
from tools.tasks.loader import LoadedTask

if TYPE_CHECKING:
    from tools.environment import Environment

NODES_PER_ITERATION = 10
"""Supersteps of one iteration without repair attempts, for LangGraph's recursion limit."""
FIRST_STATE = State(iteration=0, stale=0, speedup=1.0, trials={})


RunEnd = tuple[State, Path] | NotMeasured
"""The final state and the workspace, or the static report if the device of the task's language is missing."""


def start(settings: Settings, observers: Sequence[Observer] = (), ask: Ask | None = None) -> RunEnd:
    """Run a task from its settings to its report; `ask` asks a person, None without a terminal.

    Raises SettingsError for unusable input; before the first measurement no workspace remains.
    """
    return _run_new(settings, observers, ask, lambda executor, blobs: load_task(settings, executor, blobs))


def start_from(
    settings: Settings,
    load: Callable[[Executor, Blobs], LoadedTask],
    observers: Sequence[Observer] = (),
    ask: Ask | None = None,
) -> RunEnd:
    """Run a task that an earlier run has frozen (`restart`)."""
    return _run_new(
        settings,
        observers,
        ask,
        lambda executor, blobs: _require_screened(load(executor, blobs), settings.linked_to or "kernel"),
    )


def _run_new(
    settings: Settings, observers: Sequence[Observer], ask: Ask | None, load: Callable[[Executor, Blobs], LoadedTask]
) -> RunEnd:
    from graph.budget import feasibility
    from graph.lifecycle import static_report, user_function
    from graph.specs import hardware_sheet
    from tools.environment import requests_about_machine

    # A wrong key is told before a device is used.
    require_access_to_models(settings)
    with ExitStack() as stack:
        workspace, events, executor, discarding = open_new_workspace(settings, observers, stack)
        blobs = workspace.records.blobs
        executor.gather([*requests_about_machine(executor, blobs), lambda: load(executor, blobs)])
        loaded = load(executor, workspace.records.blobs)
        absent = reason_if_device_missing(executor.devices(), open_language(loaded.task.language).device)
        if absent is not None:
            return static_report.report_without_device(settings, loaded, executor, workspace.records.blobs, absent, ask)
        services = assemble_services(settings, workspace, loaded, executor, events, ask)
        feasibility.refuse_unaffordable(settings, loaded.task, services.guide, services.agents)
        hardware_sheet.refuse_unknown(settings, services.wiki, loaded.task, services.device)
        function = user_function.check_user_function(
            loaded, executor, workspace.records, settings.judge, services.environment
        )
        if function is not None:
            events.emit("remark", {"text": f"baseline: {function.sentence()}"})
        has_final_baseline = loaded.task.baseline is not None and not loaded.pinned
        _save_task(workspace, "task" if has_final_baseline else "loaded", loaded)
        # With the task on record there is something that can be resumed.
        discarding.pop_all()
        return run_graph(services if has_final_baseline else _settle_baseline(services, loaded, events)), workspace.root
    raise AssertionError("unreachable")


def open_new_workspace(
    settings: Settings, observers: Sequence[Observer], stack: ExitStack
) -> tuple[Workspace, Events, MeteredExecutor, ExitStack]:
    """Open a new workspace with its event log and executor, which `stack` closes.

    The last item returned deletes the workspace unless it is emptied. Raises SettingsError if nothing can be stored.
    """
    from knowledge_base.experience.log import Experience

    Experience().refuse_unwritable()
    workspace = workspaces.create(settings)
    stack.callback(workspace.close)
    discarding = stack.enter_context(ExitStack())
    discarding.callback(workspace.discard)
    events = Events(workspace.private / "events.jsonl", tuple(observers))
    events.emit("start", {"state": "started", "wall_s": "0"})
    return workspace, events, stack.enter_context(_open_metered_executor(settings, workspace, events)), discarding


def _save_task(workspace: Workspace, name: Literal["loaded", "task"], loaded: LoadedTask) -> None:
    """Store the task: as "loaded" until its v0 is written or its pinned kernels are compared, then as "task"."""
    from tools.tasks import loader as tasks

    if name == "task":
        tasks.write_frozen_task(loaded.task, workspace.task_folder)
    workspace.records.add(Record(kind="task", key=record_key(name), payload=loaded.model_dump(mode="json")))


def _settle_baseline(services: Services, loaded: LoadedTask, events: Events) -> Services:
    """Settle v0, by writing it or by timing its pinned kernels, and return the services of the final task."""
    from graph.lifecycle import initial_kernel
    from tools.tasks import autotune

    with resumable(services.workspace), stop_on_interrupt(services):
        loaded = (
            initial_kernel.write_initial_kernel(loaded, services)
            if loaded.task.baseline is None
            else autotune.pin_fastest_config(loaded, services.judge)
        )
        services = assemble_services(
            services.settings, services.workspace, loaded, services.executor, events, services.ask
        )
        _save_task(services.workspace, "task", loaded)
    return services


def _open_metered_executor(settings: Settings, workspace: Workspace, events: Events) -> MeteredExecutor:
    inner = open_executor(
        settings.executor, workspace.records.blobs, workspace.private / "scratch", settings.gpu, settings.clocks
    )
    log = event_log.read_events(events.path)
    return MeteredExecutor(inner, events.emit, workspace.wall_s, event_log.device_seconds(log, workspace.wall_s_before))


def load_task(settings: Settings, executor: Executor, blobs: Blobs, like: Task | None = None) -> LoadedTask:
    """Load and probe the task that the settings name; `like`: see `load_task_files`.

    Raises SettingsError if `linked_to` is no version, or if the screen refuses the kernel.
    """
    from tools.contracts.inference import lift_error_caps
    from tools.tasks import loader as tasks
    from tools.tasks import trace

    root, _, version = (settings.linked_to or "").rpartition(" ")
    if (
        settings.linked_to
        and like is None
        and not (Path(settings.workspaces) / root / "memory" / f"{version}.json").is_file()
    ):
        raise SettingsError(
            f"linked_to: {settings.linked_to!r} is no version in {settings.workspaces}/; `restart` sets it, so "
            f"leave it out"
        )

    def load_at(dims: tuple[Dims, ...]) -> LoadedTask:
        """The task at `dims`; empty: at those that it or the settings say."""
        if settings.task is not None:
            return tasks.load_task_folder(Path(settings.task), executor, blobs, dims)
        files, sizes = (Path(settings.kernel or ""), Path(settings.reference or "")), dims or settings.dims or ""
        return tasks.load_task_files(
            *files, sizes, executor, blobs, pointer_elements=settings.pointer_elements, like=like
        )

    launches = trace.read_trace(Path(settings.trace)) if settings.trace else ()
    loaded = load_at(())
    if settings.trace:
        shares = trace.workload_weights(trace.group_launches(launches, loaded.task, Path(settings.trace)))
        loaded = tasks.with_workload_weights(
            load_at(tuple(dims for dims, _ in shares)), [weight for _, weight in shares]
        )
    suffix = open_language(loaded.task.language).suffix
    kernel = Path(settings.kernel) if settings.kernel else Path(settings.task or "") / f"kernel{suffix}"
    task = loaded.task if settings.tolerance == "capped" else lift_error_caps(loaded.task)
    task_name = like.name if like is not None else settings.name or task.name
    task = task.model_copy(update={"name": task_name, "rivals": read_rivals(settings) if like is None else like.rivals})
    return _require_screened(loaded.model_copy(update={"task": task}), str(kernel))


def read_rivals(settings: Settings) -> Rivals | None:
    """Read the file of rivals that the settings name; None: they name none."""
    from tools.tasks import rivals as files

    return files.read_rivals(Path(settings.benchmark.rivals)) if settings.benchmark.rivals else None


def _require_screened(loaded: LoadedTask, origin: str) -> LoadedTask:
    """Return `loaded` if its kernel passes the screen, else raise SettingsError: every candidate would inherit the
    lines."""
    from tools.screen.screen import screen

    task = loaded.task
    refused = screen(task.baseline, task.language, (), task.tensors, task.library or ()) if task.baseline else ()
    if refused:
        more = f" ({len(refused) - 1} more lines are refused too)" if len(refused) > 1 else ""
        raise SettingsError(
            f"{origin}: {refused[0].rstrip('.')}{more}; no candidate may hold that line, so change it in your kernel "
            f"and run again"
        )
    return loaded


def resume(path: Path, observers: Sequence[Observer] = (), ask: Ask | None = None) -> tuple[State, Path]:
    """Resume a run where it stopped and return its state and workspace; a finished run returns at once."""
    from graph.lifecycle.recovery import reconcile
    from knowledge_base.experience.log import Experience

    Experience().refuse_unwritable()
    with _open_existing(path, observers, ask) as (services, loaded, events):
        if services.records.find(record_key("task")) is None:
            services = _settle_baseline(services, loaded, events)
        reconcile(services)
        return run_graph(services), services.workspace.root


def write_report(path: Path) -> str:
    """Render report.md and report.html again from the records and return a sentence about them."""
    from graph.report import final
    from graph.report.content.view import report_basis

    with open_services(path, reading=True) as services:
        state = read_state(services.workspace)
        if "profile" not in state:
            raise WorkspaceError(
                f"{path}: there is nothing to report before v0 is measured; `python -m graph resume {path}` goes on"
            )
        drift.refuse_drift(services.workspace.repository, final.FILES)
        services.workspace.write(final.render_reports(report_basis(state, services), services))
        return (
            f"{path}/{final.MARKDOWN} and {final.HTML} beside it are written from "
            f"{len(read_versions(services.workspace.root))} versions"
        )


@contextmanager
def open_services(path: Path, observers: Sequence[Observer] = (), *, reading: bool = False) -> Iterator[Services]:
    """Open the services of an existing workspace, locked during the block; `reading`: without a device, measuring
    nothing."""
    with _open_existing(path, observers, None, reading=reading) as (services, _, _):
        if services.records.find(record_key("task")) is None:
            raise WorkspaceError(
                f"{path}: the run was stopped before its v0 was settled; `python -m graph resume {path}` goes on"
            )
        yield services


@contextmanager
def _open_existing(
    path: Path, observers: Sequence[Observer], ask: Ask | None, *, reading: bool = False
) -> Iterator[tuple[Services, LoadedTask, Events]]:
    from tools.tasks import loader as tasks

    workspace = workspaces.reopen(path)
    try:
        settings = workspace.settings()
        final = workspace.records.find(record_key("task"))
        record = final or workspace.records.find(record_key("loaded"))
        if record is None:
            raise WorkspaceError(
                f"{path}: the run was stopped before its task was read; start it again with `python -m graph run`"
            )
        loaded = LoadedTask.model_validate(record.payload)
        if final and tasks.read_frozen_task(workspace.task_folder).identity() != loaded.task.identity():
            raise WorkspaceError(
                f"{workspace.task_folder}: changed since the run began; restore it from git, or start a new run"
            )
        events = Events(workspace.private / "events.jsonl", tuple(observers))
        events.emit("start", {"state": "reopened", "wall_s": f"{workspace.wall_s_before:.4f}"})
        with _open_metered_executor(settings, workspace, events) as executor:
            yield assemble_services(settings, workspace, loaded, executor, events, ask, reading=reading), loaded, events
    finally:
        workspace.close()


def assemble_services(
    settings: Settings,
    workspace: Workspace,
    loaded: LoadedTask,
    executor: MeteredExecutor,
    events: Events,
    ask: Ask | None = None,
    *,
    reading: bool = False,
) -> Services:
    """Build the services of a run; unknown providers, profilers or wikis are found before any job runs."""
    from agents.handlers.base import open_handlers as opened_handlers
    from knowledge_base.experience.log import Experience
    from knowledge_base.pages.wiki import Wiki
    from knowledge_base.search.index import Index
    from tools.environment import Environment, inspect_environment
    from tools.executors.preflight import check_host
    from tools.judge.judge import Judge

    language = open_language(loaded.task.language)
    records = workspace.records

    def on_record_added(record: Record) -> None:
        events.emit("record", {"kind": record.kind, "key": record.key, "record": record.id})
        prompts.write_exchange(workspace, record)

    records.on_added = on_record_added
    for record in records:
        # What a kill left unwritten.
        prompts.write_exchange(workspace, record)
    ledger = open_ledger(settings, records)
    # To read, no program, key or server is needed.
    begin = partial(executor.time_for_exchange, settings.budget)
    agents = {} if reading else open_agents(settings, records, events.emit, ledger, workspace.root, begin)
    handlers = () if reading else opened_handlers(settings.handlers, loaded.task.baseline, loaded.task.language)
    profilers = open_profilers(settings.profilers, language)
    wiki = Wiki.open(Path(settings.gpu_wiki_path) if settings.gpu_wiki_path else None)
    guide = wiki.or_bundled_methods()
    recorded = records.find(record_key("environment"))
    if recorded is None:
        host = check_host(executor, records.blobs, language.device) if executor.is_elsewhere else ()
        found = inspect_environment(executor, (language,), records.blobs, host)
        payload = found.model_dump(mode="json")
        environment = records.add(Record(kind="environment", key=record_key("environment"), payload=payload))
    else:
        environment = recorded
        found = Environment.model_validate(recorded.payload)
        _remember_machine(found, language.device, executor, lambda: judge.builder.refuse_other_toolset())
    device = pick_device(executor.devices(), language.device)
    judge = Judge(
        loaded.task,
        language,
        executor,
        records,
        environment=environment.id,
        device=device.label,
        secret=workspace.secret,
        policy=settings.judge,
        emit=events.emit,
    )
    return Services(
        settings=settings,
        task=loaded.task,
        probed_workloads=loaded.workloads,
        operator=loaded.operator or loaded.task.name,
        workspace=workspace,
        executor=executor,
        language=language,
        judge=judge,
        wiki=wiki,
        guide=guide,
        index=Index(guide) if reading else open_index(settings, guide, loaded.task.language),
        experience=Experience(None),
        ledger=ledger,
        agents=agents,
        handlers=handlers,
        profilers=profilers,
        rules=rules.load_rules(),
        environment=environment.id,
        emit=events.emit,
        ask=ask,
    )


def _remember_machine(
    found: Environment, kind: DeviceKind, executor: MeteredExecutor, require_toolset: Callable[[], None]
) -> None:
    """Let the executor answer from the record of the environment until a job needs the machine of the run."""
    begun_on, same = pick_device(found.devices, kind), {"kind", "name", "units", "architecture"}

    def reason_elsewhere() -> str | None:
        """Return None if the device is here, else what is here instead."""
        try:
            device = pick_device(executor.inner.devices(), kind)
        except (SettingsError, InfrastructureError) as error:
            return str(error)
        is_same = begun_on.model_dump(include=same) == device.model_dump(include=same)
        return None if is_same else f"this is {device.name} ({device.units} units)"

    def require_machine() -> None:
        reason = reason_elsewhere()
        try:
            if reason is None:
                require_toolset()
        except (SettingsError, InfrastructureError) as error:
            reason = str(error)
        if reason is not None:
            machine = f"the machine with {begun_on.name} ({begun_on.units} units)"
            raise PendingError(f"the next job waits for {machine}, on which the run began: {reason}")

    executor.remember(found.devices if reason_elsewhere() else (), found.toolchain, require_machine)


def run_graph(services: Services) -> State:
    """Run the graph to its end and return the final state; a checkpoint is on disk before the next node starts."""
    from graph.bench.desk import open_bench

    path = checkpoint_path(services.workspace)
    with resumable(services.workspace):
        if read_checkpoint(path) is None:
            # Git and records hold all that it said: the graph runs from its start and finds what is finished.
            for part in path.parent.glob(f"{path.name}*"):
                part.unlink()
            text = f"{path} is cut short or damaged; it is made again from git and records"
            services.emit("remark", {"text": text})
        with (
            closing(sqlite3.connect(path, check_same_thread=False)) as connection,
            stop_on_interrupt(services),
            open_bench(services) as at_bench,
        ):
            return _stream_graph(at_bench, connection)
    raise AssertionError("unreachable")


def _stream_graph(services: Services, connection: sqlite3.Connection) -> State:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from graph.build import build_graph
    from graph.lifecycle.recovery import state_after_mask

    search = services.settings.search
    limit = 10 + (search.iterations + 1) * (NODES_PER_ITERATION + 3 * search.repair_attempts)
    # One judge at a time: candidates compiled or timed side by side would disturb each other's measurements.
    config = {"configurable": {"thread_id": "run"}, "recursion_limit": limit, "max_concurrency": 1}
    graph = build_graph(services.settings, SqliteSaver(connection))
    snapshot = graph.get_state(config)  # type: ignore[arg-type]
    remade = not snapshot.values and any(memory.masked for memory in read_versions(services.workspace.root))
    if remade:
        # Without a checkpoint the iterations so far would be gone through again, from kernels that a mask hid.
        for _ in graph.stream(FIRST_STATE, config, context=services, durability="sync", interrupt_after=["profile"]):  # type: ignore[call-overload]
            pass
        snapshot = graph.get_state(config)  # type: ignore[arg-type]
    rewound = state_after_mask(cast(State, snapshot.values), services, remade=remade)
    if rewound is not None:
        graph.update_state(config, rewound, as_node="gate")  # type: ignore[arg-type]
        snapshot = graph.get_state(config)  # type: ignore[arg-type]
    # Not `next`: interrupted among several judges, LangGraph names none there though their tasks are still open.
    if snapshot.values and not snapshot.tasks:
        return cast(State, snapshot.values)
    services.workspace.set_awaited(None)
    caps = event_log.figure_details(
        **services.settings.budget.model_dump(include={"wall_s", "device_s", "usd", "tokens"})
    )
    spent = services.ledger.spending()
    paid = spent.event_details() if spent.is_paid else {}
    used = {"spent_device_s": f"{services.device_s():.2f}"}
    services.emit(
        "caps", {**caps, "device": services.language.device, "spent_wall_s": f"{services.wall_s():.2f}", **used, **paid}
    )
    if damage := services.experience.damage_sentence():
        services.emit("remark", {"text": damage})
    _warm_up(services)
    begin = None if snapshot.values else FIRST_STATE
    for _ in graph.stream(begin, config, context=services, stream_mode="updates", durability="sync"):  # type: ignore[call-overload]
        pass
    return cast(State, graph.get_state(config).values)  # type: ignore[arg-type]


def _warm_up(services: Services) -> None:
    """Load what the first nodes need once in each process, before any measurement."""
    start = time.perf_counter()
    import numpy.ma
    import numpy.random  # noqa: F401  numpy itself loads both at their first use

    from graph.report.content import phrases

    services.judge.builder.toolset()
    phrases.compile_templates()
    services.emit("start", {"state": "ready", "s": f"{time.perf_counter() - start:.4f}"})
