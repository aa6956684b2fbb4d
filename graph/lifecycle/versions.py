"""Versions of a workspace made visible, invisible, or the start of a new run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from graph.artifacts import VersionMemory
from graph.lifecycle import run as runs
from graph.report import final
from graph.services import Ask, open_language
from graph.settings import Settings, parse
from graph.workspace import folder as workspaces
from graph.workspace.events import Observer
from graph.workspace.folder import Workspace
from knowledge_base.experience.log import Experience
from tools.cli.validation import no_yaml, read_yaml
from tools.errors import SettingsError, WorkspaceError
from tools.store.records import key
from tools.tasks.loader import Loaded


def mask(path: Path, version: str, *, masked: bool) -> str:
    """Hide a version from plans, retrieval and reports' rankings (or show it again); one commit. Returns a sentence."""
    workspace = workspaces.reopen(path)
    try:
        repository = workspace.repository
        relative = _memory(workspace, version)
        others = repository.drift((relative, final.MARKDOWN, final.HTML))
        if others:
            raise WorkspaceError(f"{workspace.root}: {', '.join(others[:3])} changed outside the run; restore it, or resume the run first")
        # What HEAD says counts: a kill may have left the file written and not committed. Every step below can be done again.
        memory = VersionMemory.model_validate_json(repository.show("HEAD", relative))
        if masked and memory.iteration == 0:
            raise WorkspaceError(f"{version}: is the baseline, which no decision can do without; name a version that was tried")
        attempts = tuple(attempt.model_copy(update={"masked": masked}) for attempt in memory.attempts)
        if memory.masked != masked:
            changed = memory.model_copy(update={"masked": masked, "attempts": attempts})
            workspace.write(relative, changed.model_dump_json(indent=1) + "\n")
            word = "mask" if masked else "unmask"
            repository.commit(
                [relative, final.MARKDOWN, final.HTML], f"{word} {version}", {"Masked": str(masked).lower()}, repository.head()
            )
        experience = Experience(None)
        commit = workspace.repository.find_commit("Version", version) or ""
        for attempt in attempts:
            experience.add(attempt.model_copy(update={"commit": commit}))
        return f"{version} is now {'invisible to every later decision' if masked else 'visible'}"
    finally:
        workspace.close()


def restart(
    path: Path, version: str, observers: Sequence[Observer] = (), ask: Ask | None = None, *, budget: Sequence[str] = ()
) -> runs.Ended:
    """A new run whose v0 is the kernel at `version` of an old one; everything else of the task stays, and the two are linked.

    `budget`: caps that are other than in the old run, each `key=value` as below `budget:` in a config, e.g. `usd=5`; `usd=null` takes one
    away. What the old run spent does not count in the new one.
    """
    workspace = workspaces.reopen(path)
    try:
        _memory(workspace, version)
        commit = workspace.repository.find_commit("Version", version)
        record = workspace.records.find(key("task"))
        if commit is None or record is None:
            raise SettingsError(f"{version}: has no commit in {path}; `python -m graph show {path}` lists the versions")
        loaded = Loaded.model_validate(record.payload)
        suffix = open_language(loaded.task.language).suffix
        kernel = workspace.repository.show(commit, f"kernel{suffix}").decode()
        settings = capped(workspace.settings(), budget).model_copy(update={"linked_to": f"{workspace.root.name} {version}"})
    finally:
        workspace.close()
    task = loaded.task.model_copy(update={"baseline": kernel})
    return runs.start_from(settings, loaded.model_copy(update={"task": task}), observers, ask)


def capped(settings: Settings, budget: Sequence[str]) -> Settings:
    """`settings` under other caps, each `key=value`; SettingsError for one that cannot be."""
    import yaml

    data = settings.model_dump(mode="json", exclude_none=True)
    given: dict[str, str] = {}
    for said in budget:
        name, sign, value = said.partition("=")
        if not sign:
            raise SettingsError(f"--budget {said}: must be KEY=VALUE, e.g. usd=5 or per_role.coder.tokens=200000")
        if name in given:
            raise SettingsError(f"--budget {said}: {given[name]} was given before it; give {name} once")
        given[name] = said
        section = data["budget"]
        *outer, last = name.split(".")
        for part in outer:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise SettingsError(f"--budget {said}: {part} holds a value and no keys; write e.g. per_role.coder.usd=5")
        try:
            section[last] = read_yaml(value)
        except yaml.YAMLError as error:
            raise SettingsError(f"--budget {said}{no_yaml('', error).removeprefix(':1')}") from error
    return parse(data, origin="--budget", base=Path.cwd()) if budget else settings


def _memory(workspace: Workspace, version: str) -> str:
    relative = f"memory/{version}.json"
    path = workspace.root / relative
    if not re.fullmatch(r"v\d+", version) or not path.is_file():
        known = ", ".join(sorted(p.stem for p in (workspace.root / "memory").glob("v*.json")))
        raise SettingsError(f"{version!r} is not a version of {workspace.root}; there are {known or 'none yet'}")
    return relative
