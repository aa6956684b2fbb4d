"""Start a run, take one up again, and bring checkpoint, git and records into agreement first."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, cast

from graph.artifacts import NotMeasured
from graph.budget.metering import Metered
from graph.lifecycle.interruption import checkpoint, kept, stoppable
from graph.report import prompts
from graph.services import (
    Ask,
    Services,
    open_agents,
    open_executor,
    open_index,
    open_ledger,
    open_profilers,
)
from graph.settings import Settings
from graph.state import State
from graph.workspace import drift
from graph.workspace import events as event_log
from graph.workspace import folder as workspaces
from graph.workspace.events import Events, Observer
from graph.workspace.folder import Workspace
from graph.workspace.versions import read_state, read_versions
from tools.analysis import rules
from tools.artifacts import Dims, Record, Rivals, Task
from tools.errors import SettingsError, WorkspaceError
from tools.executors.base import Executor, pick_device, reason_if_device_missing
from tools.languages.base import open_language
from tools.store.records import Blobs, record_key
from tools.tasks.loader import LoadedTask

NODES_PER_ITERATION = 10
"""Supersteps of one iteration, repair rounds included, for LangGraph's recursion limit."""


Ended = tuple[State, Path] | NotMeasured
"""The final state and the workspace; or, without the device that the task's language needs, what was found without
it."""


def start(settings: Settings, observers: Sequence[Observer] = (), ask: Ask | None = None) -> Ended:
    """A new run from its settings to its report; `ask` puts questions to a person, None where nobody can answer.

    Raises SettingsError for input that cannot be used; found before the first measurement, it leaves no workspace
    behind.
    """
    return _begin(settings, observers, ask, lambda executor, blobs: load_task(settings, executor, blobs))


def start_from(
    settings: Settings,
    load: Callable[[Executor, Blobs], LoadedTask],
    observers: Sequence[Observer] = (),
    ask: Ask | None = None,
) -> Ended:
    """A new run of a task that an earlier one has frozen (`restart`)."""
    return _begin(
        settings,
        observers,
        ask,
        lambda executor, blobs: _screened(load(executor, blobs), settings.linked_to or "kernel"),
    )


def _begin(
    settings: Settings, observers: Sequence[Observer], ask: Ask | None, load: Callable[[Executor, Blobs], LoadedTask]
) -> Ended:
    from graph.budget import feasibility
    from graph.lifecycle import static_report
    from graph.specs import datasheet

    with ExitStack() as stack:
        workspace, events, executor, discarding = begun(settings, observers, stack)
        loaded = load(executor, workspace.records.blobs)
        absent = reason_if_device_missing(executor.devices(), open_language(loaded.task.language).device)
        if absent is not None:
            return static_report.look(settings, loaded, executor, workspace.records.blobs, absent, ask)
        services = assemble(settings, workspace, loaded, executor, events, ask)
        feasibility.refuse(settings, loaded.task, services.guide, services.agents)
        datasheet.refuse_unknown(settings, services.wiki, loaded.task, services.device)
        settled = loaded.task.baseline is not None and not loaded.pinned
        _keep(workspace, "task" if settled else "loaded", loaded)
        # With the task on record there is something that can be resumed.
        discarding.pop_all()
        return drive(services if settled else _settled(services, loaded, events)), workspace.root
    raise AssertionError("unreachable")


def begun(
    settings: Settings, observers: Sequence[Observer], stack: ExitStack
) -> tuple[Workspace, Events, Metered, ExitStack]:
    """A new workspace with its log and its executor, to be closed with `stack`, and what then takes it away again,
    unless that is emptied. SettingsError where nothing could be kept."""
    from knowledge_base.experience.log import Experience

    Experience().refuse_unwritable()
    workspace = workspaces.create(settings)
    stack.callback(workspace.close)
    discarding = stack.enter_context(ExitStack())
    discarding.callback(workspace.discard)
    events = Events(workspace.private / "events.jsonl", tuple(observers))
    events.emit("start", {"state": "started", "wall_s": "0"})
    return workspace, events, stack.enter_context(_executor(settings, workspace, events)), discarding


def _keep(workspace: Workspace, name: Literal["loaded", "task"], loaded: LoadedTask) -> None:
    """Put the task on record: as "loaded" while its v0 is to be written or its pinned kernels are to be compared, as
    "task" for good."""
    from tools.tasks import loader as tasks

    if name == "task":
        tasks.write_frozen_task(loaded.task, workspace.task_folder)
    workspace.records.add(Record(kind="task", key=record_key(name), payload=loaded.model_dump(mode="json")))


def _settled(services: Services, loaded: LoadedTask, events: Events) -> Services:
    """The services of the task with its v0, written or the fastest of its pinned kernels; what was cut short goes on
    from its records."""
    from graph.lifecycle import initial_kernel
    from tools.tasks import autotune

    with kept(services.workspace), stoppable(services):
        loaded = (
            initial_kernel.written(loaded, services)
            if loaded.task.baseline is None
            else autotune.pin_fastest_config(loaded, services.judge)
        )
        services = assemble(services.settings, services.workspace, loaded, services.executor, events, services.ask)
        _keep(services.workspace, "task", loaded)
    return services


def _executor(settings: Settings, workspace: Workspace, events: Events) -> Metered:
    inner = open_executor(
        settings.executor, workspace.records.blobs, workspace.private / "scratch", settings.gpu, settings.clocks
    )
    log = event_log.read(events.path)
    return Metered(inner, events.emit, workspace.wall_s, event_log.device_s(log, workspace.wall_s_before))


def load_task(settings: Settings, executor: Executor, blobs: Blobs, like: Task | None = None) -> LoadedTask:
    """The task that the settings name, under the name that they give it, probed; `like`: see `load_task_files`.

    SettingsError where `linked_to` is no version, and for a kernel that no candidate made from it could get past the
    screen.
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

    def at(dims: tuple[Dims, ...]) -> LoadedTask:
        """The task at `dims`; empty: at those that it or the settings say."""
        if settings.task is not None:
            return tasks.load_task_folder(Path(settings.task), executor, blobs, dims)
        files, sizes = (Path(settings.kernel or ""), Path(settings.reference or "")), dims or settings.dims or ""
        return tasks.load_task_files(
            *files, sizes, executor, blobs, pointer_elements=settings.pointer_elements, like=like
        )

    loaded = at(())
    if settings.trace is not None:
        shares = trace.workload_weights(
            trace.group_launches(trace.read_trace(Path(settings.trace)), loaded.task, Path(settings.trace))
        )
        loaded = tasks.with_workload_weights(at(tuple(dims for dims, _ in shares)), [weight for _, weight in shares])
    suffix = open_language(loaded.task.language).suffix
    kernel = Path(settings.kernel) if settings.kernel else Path(settings.task or "") / f"kernel{suffix}"
    task = loaded.task if settings.tolerance == "capped" else lift_error_caps(loaded.task)
    named = like.name if like is not None else settings.name or task.name
    task = task.model_copy(update={"name": named, "rivals": rivals(settings) if like is None else like.rivals})
    return _screened(loaded.model_copy(update={"task": task}), str(kernel))


def rivals(settings: Settings) -> Rivals | None:
    """The functions of other libraries that the settings name."""
    from tools.tasks import rivals as files

    return files.read_rivals(Path(settings.benchmark.rivals)) if settings.benchmark.rivals else None


def _screened(loaded: LoadedTask, origin: str) -> LoadedTask:
    """`loaded`, when its kernel keeps the rules of candidates: what they take over from it would be held against
    every one of them."""
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
    """Take up a run where it stopped; a finished one returns its state at once."""
    from graph.lifecycle.recovery import reconcile
    from knowledge_base.experience.log import Experience

    Experience().refuse_unwritable()
    with _reopened(path, observers, ask) as (services, loaded, events):
        if services.records.find(record_key("task")) is None:
            services = _settled(services, loaded, events)
        reconcile(services)
        return drive(services), services.workspace.root


def write_report(path: Path) -> str:
    """Render report.md and report.html again from the records; returns a sentence."""
    from graph.report import final

    with opened(path, reading=True) as services:
        state = read_state(services.workspace)
        if "profile" not in state:
            raise WorkspaceError(
                f"{path}: there is nothing to report before v0 is measured; `python -m graph resume {path}` goes on"
            )
        drift.refuse(services.workspace.repository, final.FILES)
        services.workspace.write(final.reports(state, services))
        return (
            f"{path}/{final.MARKDOWN} and {final.HTML} beside it are written from "
            f"{len(read_versions(services.workspace.root))} versions"
        )


@contextmanager
def opened(path: Path, observers: Sequence[Observer] = (), *, reading: bool = False) -> Iterator[Services]:
    """The services of an existing workspace, locked until the block ends; `reading`: nothing is measured, its device
    may be elsewhere."""
    with _reopened(path, observers, None, reading=reading) as (services, _, _):
        if services.records.find(record_key("task")) is None:
            raise WorkspaceError(
                f"{path}: the run was stopped before its v0 was settled; `python -m graph resume {path}` goes on"
            )
        yield services


@contextmanager
def _reopened(
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
        with _executor(settings, workspace, events) as executor:
            yield assemble(settings, workspace, loaded, executor, events, ask, reading=reading), loaded, events
    finally:
        workspace.close()


def assemble(
    settings: Settings,
    workspace: Workspace,
    loaded: LoadedTask,
    executor: Metered,
    events: Events,
    ask: Ask | None = None,
    *,
    reading: bool = False,
) -> Services:
    """Build every service of a run; unknown providers, profilers or wikis are found here, before any machine time."""
    from agents.handlers.base import open_handlers as opened_handlers
    from knowledge_base.experience.log import Experience
    from knowledge_base.pages.wiki import Wiki
    from knowledge_base.search.index import Index
    from tools.environment import Environment, inspect_environment
    from tools.judge.judge import Judge

    language = open_language(loaded.task.language)
    records = workspace.records

    def added(record: Record) -> None:
        events.emit("record", {"kind": record.kind, "key": record.key, "record": record.id})
        prompts.write_exchange(workspace, record)

    records.on_added = added
    for record in records:
        # What a kill left unwritten.
        prompts.write_exchange(workspace, record)
    ledger = open_ledger(settings, records)
    # To read, no program, key or server is needed.
    begin = partial(executor.exchange, settings.budget)
    agents = {} if reading else open_agents(settings, records, events.emit, ledger, workspace.root, begin)
    handlers = () if reading else opened_handlers(settings.handlers, loaded.task.baseline, loaded.task.language)
    profilers = open_profilers(settings.profilers, language)
    wiki = Wiki.open(Path(settings.gpu_wiki_path) if settings.gpu_wiki_path else None)
    guide = wiki.or_bundled_methods()
    environment = records.find(record_key("environment"))
    if environment is None:
        found = inspect_environment(executor, (language,), records.blobs)
        environment = records.add(
            Record(kind="environment", key=record_key("environment"), payload=found.model_dump(mode="json"))
        )
    begun_on = pick_device(Environment.model_validate(environment.payload).devices, language.device)
    device = begun_on if reading else pick_device(executor.devices(), language.device)
    same = {"kind", "name", "units", "architecture"}
    if begun_on.model_dump(include=same) != device.model_dump(include=same):
        raise WorkspaceError(
            f"{workspace.root}: the run began on {begun_on.name} ({begun_on.units} units) and this is {device.name} "
            f"({device.units}); "
            "resume it there, or `python -m graph restart` a version here"
        )
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
        seen=loaded.workloads,
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


def drive(services: Services) -> State:
    """Run the graph to its end, one checkpoint a node, each on disk before the next node starts."""
    path = checkpoint(services.workspace)
    with (
        kept(services.workspace),
        closing(sqlite3.connect(path, check_same_thread=False)) as connection,
        stoppable(services),
    ):
        return _to_the_end(services, connection)
    raise AssertionError("unreachable")


def _to_the_end(services: Services, connection: sqlite3.Connection) -> State:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from graph.build import build
    from graph.lifecycle.recovery import rewound

    search = services.settings.search
    limit = 10 + (search.iterations + 1) * (NODES_PER_ITERATION + 3 * search.repair_rounds)
    # One judge at a time: candidates compiled or timed side by side would disturb each other's measurements.
    config = {"configurable": {"thread_id": "run"}, "recursion_limit": limit, "max_concurrency": 1}
    graph = build(services.settings, SqliteSaver(connection))
    known = graph.get_state(config)  # type: ignore[arg-type]
    again = rewound(cast(State, known.values), services)
    if again is not None:
        graph.update_state(config, again, as_node="gate")  # type: ignore[arg-type]
        known = graph.get_state(config)  # type: ignore[arg-type]
    # Not `next`: interrupted among several judges, LangGraph names none there though their tasks are still open.
    if known.values and not known.tasks:
        return cast(State, known.values)
    services.workspace.awaits(None)
    caps = event_log.figures(**services.settings.budget.model_dump(include={"wall_s", "device_s", "usd", "tokens"}))
    spent = services.ledger.spending()
    paid = spent.event_details() if spent.is_paid else {}
    used = {"spent_device_s": f"{services.device_s():.2f}"}
    services.emit(
        "caps", {**caps, "device": services.language.device, "spent_wall_s": f"{services.wall_s():.2f}", **used, **paid}
    )
    _make_ready(services)
    begin: State | None = None if known.values else State(iteration=0, stale=0, speedup=1.0, trials={})
    for _ in graph.stream(begin, config, context=services, stream_mode="updates", durability="sync"):  # type: ignore[call-overload]
        pass
    return cast(State, graph.get_state(config).values)  # type: ignore[arg-type]


def _make_ready(services: Services) -> None:
    """What else the first nodes would do once a process: a part of the start-up that `benchmarks/speed.py` shows,
    beside no measurement."""
    start = time.perf_counter()
    import numpy.ma
    import numpy.random  # noqa: F401  numpy itself loads both at their first use

    from graph.report.content import phrases

    services.judge.builder.frozen_flags()
    phrases.load()
    services.emit("start", {"state": "ready", "s": f"{time.perf_counter() - start:.4f}"})
