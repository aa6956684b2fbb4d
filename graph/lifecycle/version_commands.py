"""The commands on versions of a workspace: `audit`, `mask`, `unmask` and `restart`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from graph.artifacts import Masking, VersionMemory
from graph.lifecycle import rendering
from graph.lifecycle import run as runs
from graph.nodes.commits import STORE_FOLDERS, mask_message, require_own_history
from graph.report import final
from graph.report.content.view import report_basis
from graph.services import Ask
from graph.settings import Settings, parse
from graph.workspace import completeness, drift
from graph.workspace import folder as workspaces
from graph.workspace.events import Observer
from graph.workspace.folder import Workspace
from graph.workspace.versions import find_incumbent, masked_memories, memory_texts, parse_memory, read_state
from knowledge_base.experience.log import Experience
from tools.cli.validation import read_yaml, yaml_fault
from tools.errors import SettingsError, WorkspaceError
from tools.executors.base import Executor
from tools.languages.base import open_language
from tools.store.blobs import Blobs
from tools.store.records import record_key
from tools.store.repository import Repository
from tools.tasks import loader as tasks
from tools.tasks.loader import LoadedTask

FIXED_SETTINGS = ("task", "kernel", "reference", "linked_to")
"""Settings that a restart takes from the version and cannot change."""
TASK_CHANGE = re.compile("(dims|pointer_elements|tolerance|trace)=")
"""Matches changes of the task itself."""


def audit(path: Path) -> tuple[str, ...]:
    """Return one sentence for each foreign change, each text that differs from the records, and each fault of a closed
    version of a workspace (C1, C4)."""
    workspace = workspaces.open_read_only(path)
    found = drift.drifted_paths(workspace.repository)
    said = [drift.drift_sentence(workspace.repository, found)] if found else []
    said.append(drift.replacement_sentence(workspace.repository))
    # What others did explains much of the rest.
    history = rendering.replay(workspace.repository)
    said.append(drift.stranger_sentence(workspace.root, history.strangers))
    said += [f"commit {one.commit.id[:12]}: {one.reason}" for one in history.faults]
    return (*filter(None, said), *completeness.audit_closed_versions(workspace.root))


def mask(path: Path, version: str, *, masked: bool) -> str:
    """Mask a version and its descendants, or unmask them, in one commit; return a sentence.

    Masked versions count in no decision or ranking. HEAD gets the kernel of the last unmasked accepted version.
    """
    with runs.open_services(path, reading=True) as services:
        workspace = services.workspace
        repository = workspace.repository
        memory_path(workspace, version)
        drift.refuse_drift(repository)
        require_own_history(services)
        # What HEAD says counts: a kill may have left files written and not committed. Every step below can be done
        # again.
        closed = _closed_versions(repository)
        top = closed[int(version[1:])]
        if masked and top.iteration == 0:
            raise WorkspaceError(
                f"{version}: is the baseline, which no decision can do without; name a version that was tried"
            )
        if not masked and closed[parent := _parent_iteration(top, closed)].masked and top.iteration:
            raise WorkspaceError(f"{version}: came of v{parent}, which is masked; unmask v{parent}")
        chosen = [top.iteration]
        for memory in closed[top.iteration + 1 :]:
            if _parent_iteration(memory, closed) in chosen and (masked or top.masked or not memory.masked):
                chosen.append(memory.iteration)
        masking = Masking(version=version, masked=masked, versions=tuple(chosen))
        after = masked_memories(closed, masking)
        names, note_on_head = " ".join(f"v{n}" for n in chosen), ""
        texts = memory_texts(closed, after)
        if texts:
            restores = ""
            incumbent = find_incumbent(after)
            kernel, incumbent_version = f"kernel{services.language.suffix}", f"v{incumbent.iteration}"
            source = repository.read_file_at(
                repository.find_commit("Version", incumbent_version) or "", kernel
            ).decode()
            if source != repository.read_file_at("HEAD", kernel).decode():
                texts[kernel] = source
                restores = incumbent_version
                note_on_head = (
                    f"; HEAD has the kernel of {incumbent_version} again, and "
                    f"`python -m graph resume {workspace.root}` "
                    f"goes on from there"
                )
            has_report = (workspace.root / final.MARKDOWN).is_file()
            state = read_state(workspace, incumbent)
            basis = report_basis(state, services) if has_report else services.closing(state)
            basis = basis.model_copy(update={"restores": restores, "masking": masking})
            record, closing = services.save_closing(basis, at=repository.head(), version=version, masked=masked)
            workspace.write(texts)
            if has_report:
                # It would go on praising what is masked.
                texts |= final.render_reports(closing, services)
                workspace.write(texts)
            workspace.commit([*texts, *STORE_FOLDERS], *mask_message(closing, record), repository.head())
        experience = Experience(None)
        for n in chosen:
            commit = repository.find_commit("Version", f"v{n}") or ""
            for attempt in after[n].attempts:
                experience.add(attempt.model_copy(update={"commit": commit}))
        return f"{names}: now {'invisible to every later decision' if masked else 'visible'}{note_on_head}"


def _closed_versions(repository: Repository) -> list[VersionMemory]:
    """Return the memory of each closed version at HEAD, in order."""
    last = int(repository.read_file_at("HEAD", drift.POINTER_FILE))
    return [
        parse_memory(repository.read_file_at("HEAD", f"memory/v{n}.json"), repository.root, f"v{n}")
        for n in range(last + 1)
    ]


def _parent_iteration(memory: VersionMemory, closed: Sequence[VersionMemory]) -> int:
    """Return the iteration of the version that it was made from and measured against."""
    return max(
        (m.iteration for m in closed[: memory.iteration] if m.candidate == memory.parent and m.verdict == "accept"),
        default=0,
    )


def _kernel_suffix(workspace: Workspace) -> str:
    return open_language(tasks.read_frozen_task(workspace.task_folder).language).suffix


def restart(
    path: Path, version: str, observers: Sequence[Observer] = (), ask: Ask | None = None, *, changes: Sequence[str] = ()
) -> runs.RunEnd:
    """A new run whose v0 is the kernel at `version` of an old one; all else stays but for `changes`, and the two are
    linked (C2).

    `changes`: see `changed`. Where one is a constraint of the task, the frozen task is probed anew. What the old run
    spent does not count.
    """
    workspace = workspaces.reopen(path)
    try:
        drift.refuse_drift(workspace.repository)
        memory = parse_memory((workspace.root / memory_path(workspace, version)).read_bytes(), workspace.root, version)
        commit = workspace.repository.find_commit("Version", version)
        record = workspace.records.find(record_key("task"))
        if commit is None or record is None:
            raise SettingsError(f"{version}: has no commit in {path}; `python -m graph show {path}` lists the versions")
        if memory.masked:
            raise SettingsError(
                f"{version}: is masked; name another version, or `python -m graph unmask {path} {version}` first"
            )
        known = LoadedTask.model_validate(record.payload)
        suffix = _kernel_suffix(workspace)
        source = workspace.repository.read_file_at(commit, f"kernel{suffix}").decode()
        first = known.origin or known.task.baseline or ""
        settings, has_task_change = workspace.settings(), any(TASK_CHANGE.match(change) for change in changes)
        if has_task_change:
            files = {
                "kernel": str(workspace.task_folder / f"kernel{suffix}"),
                "reference": str(workspace.task_folder / tasks.REFERENCE_FILE),
            }
            # Sizes that are given stand in place of a trace's.
            trace = None if any(change.startswith("dims=") for change in changes) else settings.trace
            settings = settings.model_copy(update={"name": settings.run_name, "task": None, "trace": trace, **files})
        settings = apply_changes(settings, changes).model_copy(update={"linked_to": f"{workspace.root.name} {version}"})
    finally:
        workspace.close()

    def load(executor: Executor, blobs: Blobs) -> LoadedTask:
        loaded = runs.load_task(settings, executor, blobs, like=known.task) if has_task_change else known
        # Those that the run began with, wherever their file is by now.
        rivals = (
            runs.read_rivals(settings)
            if any(change.startswith("benchmark.rivals=") for change in changes)
            else known.task.rivals
        )
        task = loaded.task.model_copy(update={"baseline": source, "rivals": rivals})
        return loaded.model_copy(update={"task": task, "pinned": (), "origin": first if first != source else ""})

    return runs.start_from(settings, load, observers, ask)


def apply_changes(settings: Settings, changes: Sequence[str]) -> Settings:
    """`settings` with other values, each `key=value` with the key as in a config, e.g. `budget.usd=5` or `dims=M=512
    N=1000`; `key=null` takes one away. SettingsError for what cannot be."""
    import yaml

    data = settings.model_dump(mode="json", exclude_none=True)
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign:
            raise SettingsError(f"--set {change}: must be KEY=VALUE, e.g. budget.usd=5 or dims='M=512 N=1000'")
        *outer, last = name.split(".")
        if name in FIXED_SETTINGS:
            raise SettingsError(
                f"--set {change}: {name} is what the version says; `python -m graph run` starts a run of another"
            )
        section = data
        for part in outer:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise SettingsError(f"--set {change}: {part} holds a value and no keys; write e.g. budget.usd=5")
        try:
            section[last] = read_yaml(value)
        except yaml.YAMLError as error:
            raise SettingsError(f"--set {change}{yaml_fault('', error).removeprefix(':1')}") from error
    return parse(data, origin="--set", base=Path.cwd()) if changes else settings


def memory_path(workspace: Workspace, version: str) -> str:
    relative = f"memory/{version}.json"
    path = workspace.root / relative
    if not re.fullmatch(r"v\d+", version) or not path.is_file():
        known = ", ".join(sorted(p.stem for p in (workspace.root / "memory").glob("v*.json")))
        raise SettingsError(f"{version!r} is not a version of {workspace.root}; there are {known or 'none yet'}")
    return relative
